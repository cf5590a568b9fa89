#pragma once
// The training loop: epochs of steps on the device, evaluation, checkpoints, interruption.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints.h"
#include "run_identity.h"
#include "wholestep/data.h"
#include "wholestep/trainer.h"

namespace wholestep::cli {

/// What "best" means.
enum class Monitor { loss, accuracy };

struct TrainingPlan {
  RunIdentity run;
  RunProgress progress;  // of the checkpoint that the run resumes from
  bool resumed = false;
  CheckpointPlan checkpoints;
  Monitor monitor = Monitor::loss;
  std::int64_t patience = 0;  // epochs without a new best after which the run ends; 0: never
  std::string log;            // folder of the log; empty: none
  bool results_to_stderr = false;

  bool watches_best() const { return patience > 0 || !checkpoints.best_path.empty(); }
};

/// On the whole test set.
struct Score {
  double loss = 0;      // mean over the examples
  double accuracy = 0;  // fraction of labels that the largest logit names
};

/// One epoch, the part of it before a resume included.
struct EpochReport {
  std::int64_t epoch = 0;  // from 1
  std::int64_t steps = 0;  // of the whole run, at its end
  // Mean over the examples of the epoch, each before the step that it was part of; without those of skipped steps whose
  // loss is not finite, and NaN where that leaves none.
  double train_loss = 0;
  double step_us = 0;  // median, of this process
  Score test;
};

struct TrainingOutcome {
  std::vector<EpochReport> epochs;
  std::optional<double> final_loss;      // of the last step
  std::optional<double> step_us_median;  // over all steps of this process
  std::optional<Score> test;             // after the last step; none where interrupted before
  RunProgress progress;
  bool interrupted = false;
  bool stopped_early = false;
  bool log_lost = false;   // from some step on, since it could not be written
  std::string checkpoint;  // where the state after the last step is; empty where nothing was saved
  double seconds = 0;
};

/// Trains until the goal, the end of patience or an interruption, and saves. The position in the data follows from the
/// trainer's step count. Throws `non_finite` naming the step where a weight, or the loss of a step that was not
/// skipped, is NaN or infinite, and where the trainer gives up on skipping; what is on disk then stays as it is.
TrainingOutcome run_training(ResidentTrainer& trainer, const TrainingPlan& plan, Checkpoints& checkpoints,
                             data::ImageSet training, const data::ImageSet& test);

}  // namespace wholestep::cli
