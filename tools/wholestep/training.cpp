#include "training.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "interrupt.h"
#include "progress.h"
#include "run_log.h"
#include "schedule.h"

namespace wholestep::cli {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// One call of `run_training`.
class Training {
 public:
  Training(ResidentTrainer& trainer, const TrainingPlan& plan, const data::ImageSet& training,
           const data::ImageSet& test)
      : trainer_(trainer),
        plan_(plan),
        training_(training),
        test_(test),
        steps_per_epoch_((training.size() + plan.run.batch - 1) / plan.run.batch),
        log_(plan.log),
        progress_(plan.run.goal) {}

  TrainingOutcome run() {
    const Clock::time_point start = Clock::now();
    saved_steps_ = -1;
    while (trainer_.steps() < plan_.run.goal && !interrupted()) epoch();
    outcome_.interrupted = trainer_.steps() < plan_.run.goal;
    if (!outcome_.interrupted && !outcome_.evaluation) outcome_.evaluation = evaluate_now();
    if (!step_us_.empty()) outcome_.step_us_median = median(step_us_);
    finish();
    outcome_.seconds = microseconds_since(start) * 1e-6;
    return std::move(outcome_);
  }

 private:
  /// The rest of the epoch at work, then its evaluation.
  void epoch() {
    const std::int64_t number = trainer_.steps() / steps_per_epoch_;
    const std::int64_t first = trainer_.steps() % steps_per_epoch_;
    const std::size_t timed_before = step_us_.size();
    double loss_sum = 0;
    double examples = 0;
    const data::ImageSet order = training_.shuffled(plan_.run.seed, static_cast<std::uint64_t>(number));
    for (const data::Batch& batch : order.batches(plan_.run.batch, first)) {
      const double loss = step(batch, number + 1);
      loss_sum += loss * static_cast<double>(batch.count);
      examples += static_cast<double>(batch.count);
      if (plan_.save_every > 0 && trainer_.steps() % plan_.save_every == 0) save(plan_.save);
      if (trainer_.steps() == plan_.run.goal || interrupted()) break;
    }
    progress_.clear();
    if (interrupted() && trainer_.steps() < plan_.run.goal) return;

    EpochReport report;
    report.epoch = number + 1;
    report.steps = trainer_.steps();
    report.train_loss = loss_sum / examples;
    report.step_us = median({step_us_.begin() + static_cast<std::ptrdiff_t>(timed_before), step_us_.end()});
    outcome_.evaluation = evaluate_now();
    report.test_loss = outcome_.evaluation->loss;
    report.test_accuracy = outcome_.evaluation->accuracy;
    log_.epoch(report);
    print(report);
    outcome_.epochs.push_back(report);
  }

  double step(const data::Batch& batch, std::int64_t epoch) {
    const RunIdentity& run = plan_.run;
    trainer_.set_lr(scheduled_lr(run.schedule, run.lr, trainer_.steps(), run.goal));
    const Clock::time_point start = Clock::now();
    const StepResult result = trainer_.step({{"x", batch.images}, {"y", batch.labels}});
    const double us = microseconds_since(start);
    const double loss = result.loss();
    if (!std::isfinite(loss)) fail_non_finite(fmt::format("the loss is {}", loss));
    step_us_.push_back(us);
    outcome_.final_loss = loss;
    log_.step(trainer_.steps(), epoch, loss, us);
    progress_.update(trainer_.steps(), loss);
    return loss;
  }

  Evaluation evaluate_now() {
    const Evaluation evaluation =
        evaluate(test_, plan_.run.batch, [this](const Inputs& inputs) { return trainer_.forward_only(inputs).values; });
    if (!std::isfinite(evaluation.loss)) fail_non_finite("the loss over the test examples is not finite");
    return evaluation;
  }

  /// A loss tells of the weights before its step, so those that are about to be saved are looked at themselves.
  void save(const std::string& path) {
    if (saved_steps_ == trainer_.steps()) return;
    for (const auto& [name, values] : trainer_.params()) {
      for (const double value : values.to_doubles()) {
        if (!std::isfinite(value)) fail_non_finite(fmt::format("parameter {} holds {}", name, value));
      }
    }
    trainer_.save(path, plan_.run.to_metadata());
    saved_steps_ = trainer_.steps();
    outcome_.checkpoint = path;
    log_.flush();
  }

  void finish() {
    if (!plan_.save.empty()) return save(plan_.save);
    if (!outcome_.interrupted) return;
    const std::string path = plan_.run.model + "-interrupted.safetensors";
    save(path);
  }

  [[noreturn]] void fail_non_finite(const std::string& what) {
    progress_.clear();
    log_.flush();
    std::string kept = "nothing was saved";
    if (saved_steps_ >= 0)
      kept = fmt::format("the last good checkpoint is {} (step {})", outcome_.checkpoint, saved_steps_);
    throw Error(ErrorCode::non_finite,
                fmt::format("training stopped at step {}: {}; {}", trainer_.steps(), what, kept));
  }

  void print(const EpochReport& report) const {
    std::FILE* const out = plan_.results_to_stderr ? stderr : stdout;
    const std::int64_t epochs = (plan_.run.goal + steps_per_epoch_ - 1) / steps_per_epoch_;
    fmt::print(out, "epoch {:>3}/{}  train loss {:.4f}  test accuracy {:.2f} %  {:.1f} us/step\n", report.epoch, epochs,
               report.train_loss, 100 * report.test_accuracy, report.step_us);
    std::fflush(out);
  }

  ResidentTrainer& trainer_;
  const TrainingPlan& plan_;
  const data::ImageSet& training_;
  const data::ImageSet& test_;
  std::int64_t steps_per_epoch_;
  RunLog log_;
  Progress progress_;
  std::vector<double> step_us_;
  std::int64_t saved_steps_ = -1;
  TrainingOutcome outcome_;
};

}  // namespace

void check_writable(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::io_error, fmt::format("--save {}: expected a file, this is a folder", path));
  }
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) {
    throw Error(ErrorCode::io_error,
                fmt::format("--save {}: expected a regular file, this is a device, pipe or socket", path));
  }
  const std::string probe = fmt::format("{}.probe{}", path, getpid());
  const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    throw Error(ErrorCode::io_error, fmt::format("--save {}: cannot write there: {}", path, std::strerror(errno)));
  close(file);
  unlink(probe.c_str());
}

TrainingOutcome run_training(ResidentTrainer& trainer, const TrainingPlan& plan, const data::ImageSet& training,
                             const data::ImageSet& test) {
  return Training(trainer, plan, training, test).run();
}

}  // namespace wholestep::cli
