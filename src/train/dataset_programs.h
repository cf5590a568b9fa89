#pragma once
// Programs that read their batches from datasets on the device, and the order in which they do.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/program.h"
#include "train/dataset.h"

namespace wholestep::train {

/// A program that takes batches of one size from datasets of one signature.
struct RowsProgram {
  std::vector<std::pair<std::string, TensorType>> arrays;  // of the datasets
  std::vector<std::int32_t> rows;                          // of the next batch, where the program reads them
  std::optional<DeviceDataset> bound;                      // whose memory it reads
  std::unique_ptr<runtime::Program> program;

  void bind(const DeviceDataset& dataset);
};

/// Those of one kind, made when first needed.
using RowsPrograms = std::vector<std::unique_ptr<RowsProgram>>;

/// The program of `programs` for batches of `batch` examples of `dataset`, bound to it; `make` makes a missing one.
RowsProgram& program_for(RowsPrograms& programs, const DeviceDataset& dataset, std::int64_t batch,
                         const std::function<std::unique_ptr<runtime::Program>()>& make);

/// How a number of examples falls into batches; the last is smaller where the size does not divide.
struct Batching {
  std::int64_t examples, size;
  std::int64_t full() const { return examples / size; }
  std::int64_t rest() const { return examples % size; }
  std::int64_t count() const { return full() + (rest() > 0); }
};

/// The order of examples in an epoch, kept until another is asked for.
class EpochOrder {
 public:
  /// `seed`: none for the order of the dataset.
  const std::vector<std::int64_t>& of(std::int64_t examples, std::optional<std::uint64_t> seed, std::int64_t epoch);

 private:
  std::vector<std::int64_t> order_;
  std::optional<std::uint64_t> seed_;
  std::int64_t epoch_ = -1;
};

/// `graph` without outputs, that adds each scalar one to a state `output_sum` on every run: integers and booleans as
/// i64, floats times `examples` as f64.
Graph sum_outputs(Graph graph, std::int64_t examples);
std::string output_sum(std::size_t output);

}  // namespace wholestep::train
