#pragma once
// Checks of data that a caller hands in, before anything is touched.
#include <string>

#include "wholestep/array.h"

namespace wholestep::runtime {

/// True if `view` has the dtype, shape and bytes of `type`. A rank-1 view of the right length stands for any shape.
bool fits(const TensorType& type, const ArrayView& view);

/// Throws `dtype_mismatch`, `wrong_length` or `shape_mismatch` unless `fits`, and `invalid_argument` for data that is
/// null, not aligned to its elements, or boolean bytes other than 0 and 1. `what` names the value: `input "x"`.
void check_data(const std::string& what, const TensorType& type, const ArrayView& view);

/// Throws `index_out_of_range` unless all elements of integer `view` are in [0, bound).
void check_indices(const std::string& what, const ArrayView& view, std::int64_t bound);

}  // namespace wholestep::runtime
