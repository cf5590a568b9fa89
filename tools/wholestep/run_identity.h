#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace wholestep::cli {

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What determines every bit of a training run besides the data itself. Kept in the run's checkpoints, since a resumed
/// run is the same run only if all of it is the same.
struct RunIdentity {
  std::string model;
  std::string optimizer;
  double lr = 0;                      // times the schedule's factor
  std::string schedule = "constant";  // text form; takes the goal as its steps where it names none
  std::string precision = "f32";
  std::string monitor = "loss";  // what the best epoch is the best of
  std::int64_t goal = 0;         // steps at which the run ends
  std::int64_t batch = 0;
  std::int64_t accumulate = 1;  // batches in a step
  std::optional<double> clip_norm;
  std::optional<double> ema;
  std::uint64_t seed = 0;
  std::int64_t examples = 0;  // in the training set

  bool operator==(const RunIdentity&) const = default;

  /// Steps in an epoch. A last batch that is smaller than the others is a step of its own where batches are
  /// accumulated: the mean of a step is over batches of one size.
  std::int64_t steps_per_epoch() const;
  /// Where in the batches of its epoch step `step` of an epoch begins, and of how many examples it is made.
  std::int64_t first_batch(std::int64_t step) const;
  std::int64_t examples_of(std::int64_t step) const;

  /// What a trainer does not keep by itself, for `ResidentTrainer::save`.
  Metadata to_metadata() const;
  /// Reads the metadata of the checkpoint at `path`. Throws as `io::read_safetensors`, and `checkpoint_mismatch` where
  /// it was not written by `wholestep train`, or holds what no option of it could have said.
  static RunIdentity of_checkpoint(const std::string& path);
  /// Whether the file at `path` is a checkpoint that this run, before or after a resume, wrote at step `steps`.
  bool wrote(const std::string& path, std::int64_t steps) const;

 private:
  static RunIdentity from_metadata(const std::string& path, const Metadata& metadata);
  void check(const std::string& path) const;
};

/// What the weights of a run do not tell and its reports need.
struct RunProgress {
  double loss_sum = 0;         // over the examples of the epoch at work that are done
  std::int64_t examples = 0;   // of those
  std::optional<double> best;  // loss or accuracy on the test set
  std::int64_t best_epoch = 0;

  Metadata to_metadata() const;
  /// From what `ResidentTrainer::load` of `path` returned. Throws `checkpoint_mismatch`.
  static RunProgress from_metadata(const std::string& path, const Metadata& metadata);
};

}  // namespace wholestep::cli
