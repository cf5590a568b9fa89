#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wholestep::cli {

/// What determines every bit of a training run besides the data itself. Kept in the run's checkpoints, since a resumed
/// run is the same run only if all of it is the same.
struct RunIdentity {
  std::string model;
  std::string optimizer;
  double lr = 0;  // at the start
  std::string schedule = "constant";
  std::int64_t goal = 0;  // steps at which the run ends, which a schedule counts towards
  std::int64_t batch = 0;
  std::uint64_t seed = 0;
  std::int64_t examples = 0;  // in the training set

  /// What a trainer does not keep by itself, for `ResidentTrainer::save`.
  std::vector<std::pair<std::string, std::string>> to_metadata() const;
  /// Reads the metadata of the checkpoint at `path`. Throws as `io::read_safetensors`, and `checkpoint_mismatch` where
  /// it was not written by `wholestep train`.
  static RunIdentity of_checkpoint(const std::string& path);
};

}  // namespace wholestep::cli
