#include "training.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/convert.h"
#include "interrupt.h"
#include "progress.h"
#include "run_log.h"
#include "wholestep/schedule.h"

namespace wholestep::cli {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// One call of `run_training`.
class Training {
 public:
  Training(ResidentTrainer& trainer, const TrainingPlan& plan, Checkpoints& checkpoints, const data::ImageSet& training,
           const data::ImageSet& test)
      : trainer_(trainer),
        plan_(plan),
        checkpoints_(checkpoints),
        training_(training),
        test_(test),
        steps_per_epoch_(plan.run.steps_per_epoch()),
        schedule_(Schedule::parse(plan.run.schedule, std::max<std::int64_t>(plan.run.goal, 1))),
        log_(plan.log),
        progress_bar_(plan.run.goal) {
    outcome_.progress = plan.progress;
  }

  TrainingOutcome run() {
    const Clock::time_point start = Clock::now();
    while (!done() && !interrupted()) epoch();
    outcome_.interrupted = !done();
    outcome_.stopped_early = out_of_patience() && trainer_.steps() < plan_.run.goal;
    if (!outcome_.interrupted && !outcome_.evaluation) outcome_.evaluation = evaluate_now();
    if (!step_us_.empty()) outcome_.step_us_median = median(step_us_);
    finish();
    outcome_.seconds = microseconds_since(start) * 1e-6;
    return std::move(outcome_);
  }

 private:
  bool done() const { return trainer_.steps() >= plan_.run.goal || out_of_patience(); }

  bool out_of_patience() const {
    const RunProgress& progress = outcome_.progress;
    return plan_.patience > 0 && progress.best &&
           trainer_.steps() / steps_per_epoch_ - progress.best_epoch >= plan_.patience;
  }

  /// The rest of the epoch at work, then its evaluation.
  void epoch() {
    const std::int64_t number = trainer_.steps() / steps_per_epoch_;
    const std::int64_t first = plan_.run.first_batch(trainer_.steps() % steps_per_epoch_);
    const std::size_t timed_before = step_us_.size();
    RunProgress& progress = outcome_.progress;
    const data::ImageSet order = training_.shuffled(plan_.run.seed, static_cast<std::uint64_t>(number));
    const std::int64_t before_last = training_.size() / plan_.run.batch;  // batches, all of one size
    std::int64_t index = first;
    double step_loss_sum = 0;
    std::int64_t step_examples = 0;
    for (const data::Batch& batch : order.batches(plan_.run.batch, first)) {
      if (step_examples == 0) begin_step();
      step_loss_sum += take(batch) * static_cast<double>(batch.count);
      step_examples += batch.count;
      ++index;
      if (index < before_last && (index - first) % plan_.run.accumulate != 0) continue;
      end_step(number + 1, step_loss_sum / static_cast<double>(step_examples));
      progress.loss_sum += std::exchange(step_loss_sum, 0);
      progress.examples += std::exchange(step_examples, 0);
      if (trainer_.steps() % steps_per_epoch_ == 0) break;
      if (interrupted() || trainer_.steps() == plan_.run.goal) break;
      save_on_the_way();
    }
    progress_bar_.clear();
    const bool whole = trainer_.steps() % steps_per_epoch_ == 0;
    if (!whole && trainer_.steps() < plan_.run.goal) return;

    EpochReport report;
    report.epoch = number + 1;
    report.steps = trainer_.steps();
    report.train_loss = progress.loss_sum / static_cast<double>(progress.examples);
    report.step_us = median({step_us_.begin() + static_cast<std::ptrdiff_t>(timed_before), step_us_.end()});
    outcome_.evaluation = evaluate_now();
    report.test_loss = outcome_.evaluation->loss;
    report.test_accuracy = outcome_.evaluation->accuracy;
    log_.epoch(report);
    print(report);
    outcome_.epochs.push_back(report);
    if (whole) {
      progress.loss_sum = 0;
      progress.examples = 0;
    }
    if (plan_.watches_best()) watch_best(report);
    save_on_the_way();
  }

  void begin_step() {
    trainer_.set_lr(plan_.run.lr * schedule_.at(trainer_.steps()));
    this_step_us_ = 0;
  }

  /// The loss of a batch, after which the weights have moved or, where batches are accumulated, wait for `end_step`.
  double take(const data::Batch& batch) {
    const Inputs inputs{{"x", batch.images}, {"y", batch.labels}};
    const Clock::time_point start = Clock::now();
    const double loss = plan_.run.accumulate == 1 ? trainer_.step(inputs).loss() : trainer_.accumulate(inputs);
    this_step_us_ += microseconds_since(start);
    if (!std::isfinite(loss)) fail_non_finite(fmt::format("the loss is {}", number_text(loss)));
    return loss;
  }

  void end_step(std::int64_t epoch, double loss) {
    const Clock::time_point start = Clock::now();
    if (plan_.run.accumulate > 1) trainer_.step_accumulated();
    this_step_us_ += microseconds_since(start);
    step_us_.push_back(this_step_us_);
    outcome_.final_loss = loss;
    log_.step(trainer_.steps(), epoch, loss, trainer_.lr(), this_step_us_);
    progress_bar_.update(trainer_.steps(), loss);
  }

  Evaluation evaluate_now() {
    const Evaluation evaluation = evaluate(test_, plan_.run.batch, [this](const Inputs& inputs) {
      return trainer_.forward_only(inputs, plan_.run.ema ? Weights::average : Weights::trained).values;
    });
    if (!std::isfinite(evaluation.loss)) {
      fail_non_finite(fmt::format("the loss over the test examples is {}", number_text(evaluation.loss)));
    }
    return evaluation;
  }

  void watch_best(const EpochReport& report) {
    RunProgress& progress = outcome_.progress;
    const bool by_loss = plan_.monitor == Monitor::loss;
    const double value = by_loss ? report.test_loss : report.test_accuracy;
    if (progress.best && (by_loss ? value >= *progress.best : value <= *progress.best)) return;
    progress.best = value;
    progress.best_epoch = report.epoch;
    if (plan_.checkpoints.best_path.empty()) return;
    check_weights();
    checkpoints_.save_best(trainer_, progress);
  }

  void save_on_the_way() {
    const std::int64_t every = plan_.checkpoints.every;
    if (every == 0 || trainer_.steps() % every != 0) return;
    check_weights();
    outcome_.checkpoint = checkpoints_.save_on_the_way(trainer_, outcome_.progress);
    log_.flush();
  }

  void finish() {
    log_.flush();
    const bool named = !plan_.checkpoints.path.empty();
    if (!named && !outcome_.interrupted) return;
    check_weights();
    outcome_.checkpoint = named ? checkpoints_.save_at_end(trainer_, outcome_.progress)
                                : checkpoints_.save_interrupted(trainer_, outcome_.progress);
  }

  /// A loss tells of the weights before its step, so those that are about to be saved are looked at themselves.
  void check_weights() {
    for (const auto& [name, values] : trainer_.params()) {
      for (const double value : values.to_doubles()) {
        if (!std::isfinite(value)) fail_non_finite(fmt::format("parameter {} holds {}", name, number_text(value)));
      }
    }
  }

  [[noreturn]] void fail_non_finite(const std::string& what) {
    progress_bar_.clear();
    log_.flush();
    std::string kept = "nothing was saved";
    if (checkpoints_.newest_steps() >= 0) {
      kept =
          fmt::format("the last good checkpoint is {} (step {})", checkpoints_.newest(), checkpoints_.newest_steps());
    }
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
  Checkpoints& checkpoints_;
  const data::ImageSet& training_;
  const data::ImageSet& test_;
  std::int64_t steps_per_epoch_;
  Schedule schedule_;
  RunLog log_;
  Progress progress_bar_;
  double this_step_us_ = 0;
  std::vector<double> step_us_;
  TrainingOutcome outcome_;
};

}  // namespace

TrainingOutcome run_training(ResidentTrainer& trainer, const TrainingPlan& plan, Checkpoints& checkpoints,
                             const data::ImageSet& training, const data::ImageSet& test) {
  return Training(trainer, plan, checkpoints, training, test).run();
}

}  // namespace wholestep::cli
