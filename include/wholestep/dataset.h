#pragma once
// Data that lives on a device, and loops over it that run there.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/device.h"

namespace wholestep {

/// Examples in the memory of a device: arrays named like a graph's inputs, with one leading extent, uploaded once.
/// Batches are rows of them, taken inside the program. A handle: copies share the memory.
class DeviceDataset {
 public:
  /// Uploads `arrays`, each [n, ...]. Throws `invalid_argument` (no arrays, no examples, null or misaligned data),
  /// `duplicate_name`, `shape_mismatch` (a scalar, or another n than the first array's), `wrong_length`, `unsupported`
  /// (2^31 examples or more), `device_unavailable`.
  explicit DeviceDataset(const Inputs& arrays, Device device = Device::cpu());

  /// Examples.
  std::int64_t size() const;
  const Device& device() const;
  /// Bytes on the device.
  std::int64_t bytes() const;
  /// Names and types, in the order given.
  std::vector<std::pair<std::string, TensorType>> arrays() const;

  struct Data;
  /// What trainers see.
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

/// How `ResidentTrainer::run` goes through a dataset.
struct RunOptions {
  std::int64_t batch = 0;  ///< examples of a step; 0: the leading extent of the inputs of the trainer's graph
  /// Seed of the order of examples, another in each epoch: that of `data::ImageSet::shuffled(shuffle_seed, epoch)`.
  std::uint64_t shuffle_seed = 0;
  bool shuffle = true;  ///< off: the order of the dataset in every epoch
  /// Learning rate by the number of steps taken before the step; empty: as it is set. Asked for all steps of a call
  /// before the first.
  std::function<double(std::int64_t step)> lr = {};
  /// Called after each step that was skipped (see UpdateOptions::skip_non_finite), by the same number.
  std::function<void(std::int64_t step)> on_skip = {};
};

/// What `ResidentTrainer::evaluate` found over all examples.
struct Evaluation {
  double loss = 0;  ///< mean over the examples
  std::int64_t examples = 0;
  /// For each output of the graph, the loss included: integers summed over the batches, as i64 (counts); float scalars
  /// averaged over the examples, as f64 (means); an empty Array for any other (logits), which is not computed.
  std::vector<Array> values;
};

}  // namespace wholestep
