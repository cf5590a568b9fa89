#pragma once
// What a DeviceDataset holds, and graphs that take their batches from one.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "wholestep/dataset.h"
#include "wholestep/graph.h"

namespace wholestep {

struct DeviceDataset::Data {
  /// The smallest and largest element of an integer array, and where they are.
  struct Range {
    std::int64_t low, low_at, high, high_at;
  };
  struct Entry {
    std::string name;
    TensorType type;
    std::shared_ptr<backend::DeviceBuffer> memory;
    std::optional<Range> range;
  };
  Device device;
  std::int64_t size = 0;
  std::vector<Entry> entries;

  const Entry* find(std::string_view name) const;
  /// Names and types, in the order given.
  std::vector<std::pair<std::string, TensorType>> types() const;
};

namespace train {

/// i32 [batch]: the examples of the batch.
inline constexpr std::string_view kRows = "step/rows";
/// The input that holds a dataset's array `name`.
std::string dataset_input(std::string_view name);

/// The leading extent of the inputs of `graph`, those of the step block excepted. Throws `shape_mismatch` where they
/// have none or not the same, `unsupported` where there are no inputs.
std::int64_t batch_of(const Graph& graph);

/// Throws unless each input of `graph` has one of `arrays` and the other way round: `missing_input`, `unknown_name`,
/// `dtype_mismatch`, what `batch_of` throws, `shape_mismatch` (rows of another shape; one side may be flat).
void check_arrays(const Graph& graph, const std::vector<std::pair<std::string, TensorType>>& arrays);
/// As above for the arrays of `data`, and `index_out_of_range` (an element used as an index), `device_unavailable`
/// (another device).
void check_dataset(const Graph& graph, const DeviceDataset::Data& data, const Device& device);

/// `graph` with each of its inputs in place of rows `kRows` of a whole array of `data`. The dataset fits.
Graph take_rows(const Graph& graph, const DeviceDataset::Data& data);

}  // namespace train
}  // namespace wholestep
