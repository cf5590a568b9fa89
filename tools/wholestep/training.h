#pragma once
// The training loop: epochs of shuffled batches, evaluation, checkpoints, interruption.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluate.h"
#include "run_identity.h"
#include "wholestep/data.h"
#include "wholestep/trainer.h"

namespace wholestep::cli {

struct TrainingPlan {
  RunIdentity run;
  std::string save;             // checkpoint; empty: none
  std::int64_t save_every = 0;  // steps; 0: at the end only
  std::string log;              // folder of train.jsonl; empty: none
  bool results_to_stderr = false;
};

/// One epoch, or the part of it that this process ran.
struct EpochReport {
  std::int64_t epoch = 0;  // from 1
  std::int64_t steps = 0;  // of the whole run, at its end
  double train_loss = 0;   // mean over the examples seen
  double step_us = 0;      // median
  double test_loss = 0;
  double test_accuracy = 0;
};

struct TrainingOutcome {
  std::vector<EpochReport> epochs;
  std::optional<double> final_loss;      // of the last step
  std::optional<double> step_us_median;  // over all steps of this process
  std::optional<Evaluation> evaluation;  // after the last step; none where interrupted before
  bool interrupted = false;
  std::string checkpoint;  // where the state after the last step is; empty where nothing was saved
  double seconds = 0;
};

/// Throws `io_error` where no checkpoint could be written at `path`; leaves nothing behind.
void check_writable(const std::string& path);

/// Trains until the goal or an interruption, and saves. The position in the data follows from the trainer's step count.
/// Throws `non_finite` naming the step where the loss or a weight is NaN or infinite; what is on disk then stays as it
/// is.
TrainingOutcome run_training(ResidentTrainer& trainer, const TrainingPlan& plan, const data::ImageSet& training,
                             const data::ImageSet& test);

}  // namespace wholestep::cli
