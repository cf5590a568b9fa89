#pragma once
// What the expressions of a product do with its variables.
#include <vector>

#include "loops/kernel.h"

namespace wholestep::schedule {

/// What an expression does with a variable.
struct Use {
  bool any = false;
  bool unit_stride = true;
};
Use use_of(const std::vector<loops::Expr>& exprs, loops::ExprId id, loops::Var var);

/// Whether a vector along `var` is computed from vectors in memory.
bool is_contiguous(const std::vector<loops::Expr>& exprs, loops::ExprId id, loops::Var var);

/// Terms of the sum.
std::int64_t depth_of(const loops::Stage& sum);

}  // namespace wholestep::schedule
