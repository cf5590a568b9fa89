#pragma once
// The files that a training run leaves behind.
#include <cstdint>
#include <string>
#include <vector>

#include "run_identity.h"
#include "wholestep/trainer.h"

namespace wholestep::cli {

/// Which checkpoints to write.
struct CheckpointPlan {
  std::string path;        // at the end; empty: none
  std::string best_path;   // whenever the test set is served best so far; empty: none
  std::int64_t every = 0;  // steps; 0: at the end only
  std::int64_t keep = 0;   // what is written on the way goes to files of its own, the newest so many; 0: to `path`
  std::string config;      // JSON, beside every checkpoint as FILE.json
};

class Checkpoints {
 public:
  Checkpoints(const CheckpointPlan& plan, const RunIdentity& run) : plan_(plan), run_(run) {}

  /// Throws `io_error` where a checkpoint could not be written; leaves nothing behind.
  static void check_writable(const std::string& option, const std::string& path);
  /// Throws `io_error` where the file system says that it has not the room for all files.
  void check_space(const ResidentTrainer& trainer) const;
  /// The number of steps where `path` is one of the numbered files that go with `saved`; -1 for any other.
  static std::int64_t number_of(const std::string& saved, const std::string& path);
  /// Counts the numbered files of this run that are there already: those of up to `steps` steps. Others of such a name
  /// stay where they are.
  void adopt(std::int64_t steps);

  /// Each writes the state after the last step and returns where.
  std::string save_on_the_way(const ResidentTrainer& trainer, const RunProgress& progress);
  std::string save_best(const ResidentTrainer& trainer, const RunProgress& progress);
  std::string save_at_end(const ResidentTrainer& trainer, const RunProgress& progress);
  /// Beside the current folder's other files, where the user named none.
  std::string save_interrupted(const ResidentTrainer& trainer, const RunProgress& progress);

  /// The newest checkpoint that holds the state to go on from; empty where there is none, and then -1 steps.
  const std::string& newest() const { return newest_; }
  std::int64_t newest_steps() const { return newest_steps_; }

 private:
  std::string numbered(std::int64_t steps) const;
  /// A kill may come between the two files of a checkpoint: then FILE.json is missing, or there alone, but never that
  /// of another run than FILE. An error leaves both as they were.
  void write(const std::string& path, const ResidentTrainer& trainer, const RunProgress& progress);
  std::string save(const std::string& path, const ResidentTrainer& trainer, const RunProgress& progress);

  const CheckpointPlan& plan_;
  const RunIdentity& run_;
  std::vector<std::int64_t> kept_;  // steps of the numbered files, ascending
  std::string newest_;
  std::int64_t newest_steps_ = -1;
};

}  // namespace wholestep::cli
