#include "training.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "core/convert.h"
#include "finite.h"
#include "interrupt.h"
#include "median.h"
#include "progress.h"
#include "run_log.h"
#include "wholestep/schedule.h"

namespace wholestep::cli {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A call of the trainer takes so long, about: a signal is answered soon after, and the call itself costs nothing.
constexpr double kCallUs = 10'000;

Inputs arrays_of(const data::ImageSet& set) { return {{"x", set.images()}, {"y", set.labels()}}; }

/// One call of `run_training`.
class Training {
 public:
  Training(ResidentTrainer& trainer, const TrainingPlan& plan, Checkpoints& checkpoints, data::ImageSet training,
           const data::ImageSet& test)
      : trainer_(trainer),
        plan_(plan),
        checkpoints_(checkpoints),
        test_(trainer.upload(arrays_of(test))),
        steps_per_epoch_(plan.run.steps_per_epoch()),
        schedule_(Schedule::parse(plan.run.schedule, std::max<std::int64_t>(plan.run.goal, 1))),
        progress_bar_(plan.run.goal) {
    outcome_.progress = plan.progress;
    if (!plan.log.empty()) log_.emplace(plan.log);
    if (plan.run.accumulate > 1)
      from_host_ = std::move(training);
    else
      training_ = trainer.upload(arrays_of(training));
  }

  TrainingOutcome run() {
    const Clock::time_point start = Clock::now();
    if (plan_.resumed && !done()) go_on_in_log();
    while (!done() && !interrupted()) epoch();
    outcome_.interrupted = !done();
    outcome_.stopped_early = out_of_patience() && trainer_.steps() < plan_.run.goal;
    if (!outcome_.interrupted && !outcome_.test) outcome_.test = evaluate();
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

  /// Has `write` write into the log. The steps are worth more than their log: where it cannot be written, the run goes
  /// on without.
  template <class Write>
  void log(const Write& write) {
    if (!log_) return;
    try {
      write(*log_);
    } catch (const std::exception& error) {
      log_.reset();
      outcome_.log_lost = true;
      progress_bar_.clear();
      tell(stderr, "--log {}: {}; the run goes on without\n", plan_.log, error.what());
    }
  }
  void flush_log() { log(std::mem_fn(&RunLog::flush)); }

  void go_on_in_log() {
    log([&](RunLog& log) {
      const std::int64_t dropped = log.go_on_after(trainer_.steps());
      if (dropped == 0) return;
      tell(results(), "{}: cut off {} record{} of steps after {}, which are taken again\n", log.path(), dropped,
           dropped == 1 ? "" : "s", trainer_.steps());
    });
  }

  double lr_at(std::int64_t step) const { return plan_.run.lr * schedule_.at(step); }

  /// The rest of the epoch at work, then its evaluation.
  void epoch() {
    const std::int64_t number = trainer_.steps() / steps_per_epoch_;
    const std::int64_t end = std::min((number + 1) * steps_per_epoch_, plan_.run.goal);
    const std::size_t timed_before = step_us_.size();
    for (;;) {
      const std::int64_t every = plan_.checkpoints.every;
      take_steps(every == 0 ? end : std::min(end, (trainer_.steps() / every + 1) * every));
      if (trainer_.steps() == end || interrupted()) break;
      save_on_the_way();
    }
    progress_bar_.clear();
    if (trainer_.steps() < end) return;

    RunProgress& progress = outcome_.progress;
    EpochReport report;
    report.epoch = number + 1;
    report.steps = end;
    report.train_loss = progress.loss_sum / static_cast<double>(progress.examples);
    report.step_us = median({step_us_.begin() + static_cast<std::ptrdiff_t>(timed_before), step_us_.end()});
    report.test = evaluate();
    outcome_.test = report.test;
    log([&](RunLog& log) { log.epoch(report); });
    print(report);
    outcome_.epochs.push_back(report);
    if (end % steps_per_epoch_ == 0) {
      progress.loss_sum = 0;
      progress.examples = 0;
    }
    if (plan_.watches_best()) watch_best(report);
    save_on_the_way();
  }

  /// One call of the trainer, a step at least and none beyond `end`. Its time is that of its steps in equal parts.
  void take_steps(std::int64_t end) {
    const std::int64_t first = trainer_.steps();
    const double fitting = step_us_.empty() ? 1 : kCallUs / step_us_.back();
    const auto n = static_cast<std::int64_t>(std::clamp(fitting, 1.0, static_cast<double>(end - first)));
    skipped_.clear();
    const Clock::time_point start = Clock::now();
    const std::vector<float> losses = call_trainer(n);
    const double us = microseconds_since(start) / static_cast<double>(losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) count_step(first + static_cast<std::int64_t>(i), losses[i], us);
    progress_bar_.update(trainer_.steps(), losses.back());
  }

  /// `n` steps, or one that accumulates.
  std::vector<float> call_trainer(std::int64_t n) {
    try {
      return training_ ? steps_on_device(n) : std::vector{accumulated_step()};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::non_finite) fail_non_finite(trainer_.steps(), error.what());
      throw;
    }
  }

  std::vector<float> steps_on_device(std::int64_t n) {
    return trainer_.run(*training_, n,
                        {.batch = plan_.run.batch,
                         .shuffle_seed = plan_.run.seed,
                         .lr = [this](std::int64_t step) { return lr_at(step); },
                         .on_skip = [this](std::int64_t step) { skipped_.insert(step); }});
  }

  /// A step by the mean gradient of its batches, which come from the host; their mean loss.
  float accumulated_step() {
    const std::int64_t epoch = trainer_.steps() / steps_per_epoch_, step = trainer_.steps() % steps_per_epoch_;
    if (!batches_ || step == 0) {
      const data::ImageSet order = from_host_->shuffled(plan_.run.seed, static_cast<std::uint64_t>(epoch));
      batches_ = order.batches(plan_.run.batch, plan_.run.first_batch(step));
    }
    trainer_.set_lr(lr_at(trainer_.steps()));
    const std::int64_t examples = plan_.run.examples_of(step);
    double loss = 0;
    for (std::int64_t left = examples; left > 0;) {
      const data::Batch& batch = *batches_->next();
      loss += trainer_.accumulate({{"x", batch.images}, {"y", batch.labels}}) * static_cast<double>(batch.count);
      left -= batch.count;
    }
    const std::int64_t skipped_before = trainer_.skipped_steps();
    trainer_.step_accumulated();
    if (trainer_.skipped_steps() > skipped_before) skipped_.insert(trainer_.steps() - 1);
    return static_cast<float>(loss / static_cast<double>(examples));
  }

  void count_step(std::int64_t step, float loss, double us) {
    const bool skipped = skipped_.contains(step);
    if (!std::isfinite(loss) && !skipped) fail_non_finite(step + 1, fmt::format("the loss is {}", number_text(loss)));
    step_us_.push_back(us);
    outcome_.final_loss = loss;
    log([&](RunLog& log) { log.step(step + 1, step / steps_per_epoch_ + 1, loss, lr_at(step), us, skipped); });
    if (!std::isfinite(loss)) return;
    const std::int64_t examples = plan_.run.examples_of(step % steps_per_epoch_);
    outcome_.progress.loss_sum += loss * static_cast<double>(examples);
    outcome_.progress.examples += examples;
  }

  Score evaluate() {
    const Weights weights = plan_.run.ema ? Weights::average : Weights::trained;
    const Evaluation found = trainer_.evaluate(test_, weights, plan_.run.batch);
    if (!std::isfinite(found.loss)) {
      fail_non_finite(trainer_.steps(), fmt::format("the loss over the test examples is {}", number_text(found.loss)));
    }
    return {found.loss, found.values[1].item() / static_cast<double>(found.examples)};
  }

  void watch_best(const EpochReport& report) {
    RunProgress& progress = outcome_.progress;
    const bool by_loss = plan_.monitor == Monitor::loss;
    const double value = by_loss ? report.test.loss : report.test.accuracy;
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
    flush_log();  // a run that goes on from the checkpoint finds the steps before it
    outcome_.checkpoint = checkpoints_.save_on_the_way(trainer_, outcome_.progress);
  }

  void finish() {
    flush_log();
    const bool named = !plan_.checkpoints.path.empty();
    if (!named && !outcome_.interrupted) return;
    check_weights();
    outcome_.checkpoint = named ? checkpoints_.save_at_end(trainer_, outcome_.progress)
                                : checkpoints_.save_interrupted(trainer_, outcome_.progress);
  }

  /// A loss tells of the weights before its step, so those that are about to be saved are looked at themselves.
  void check_weights() {
    if (const auto found = find_not_finite(trainer_.params())) {
      fail_non_finite(trainer_.steps(), fmt::format("parameter {} holds {}", found->name, number_text(found->value)));
    }
  }

  [[noreturn]] void fail_non_finite(std::int64_t step, const std::string& what) {
    progress_bar_.clear();
    flush_log();
    std::string kept = "nothing was saved";
    if (checkpoints_.newest_steps() >= 0) {
      kept =
          fmt::format("the last good checkpoint is {} (step {})", checkpoints_.newest(), checkpoints_.newest_steps());
    }
    throw Error(ErrorCode::non_finite, fmt::format("training stopped at step {}: {}; {}", step, what, kept));
  }

  std::FILE* results() const { return plan_.results_to_stderr ? stderr : stdout; }

  void print(const EpochReport& report) const {
    const std::int64_t epochs = (plan_.run.goal + steps_per_epoch_ - 1) / steps_per_epoch_;
    tell(results(), "epoch {:>3}/{}  train loss {:.4f}  test accuracy {:.2f} %  {:.1f} us/step\n", report.epoch, epochs,
         report.train_loss, 100 * report.test.accuracy, report.step_us);
  }

  ResidentTrainer& trainer_;
  const TrainingPlan& plan_;
  Checkpoints& checkpoints_;
  DeviceDataset test_;
  std::optional<DeviceDataset> training_;
  std::optional<data::ImageSet> from_host_;  // instead of `training_`, where batches are accumulated
  std::optional<data::Batches> batches_;     // those to come of the epoch at work
  std::int64_t steps_per_epoch_;
  Schedule schedule_;
  std::optional<RunLog> log_;
  Progress progress_bar_;
  std::set<std::int64_t> skipped_;  // by the last call of the trainer
  std::vector<double> step_us_;
  TrainingOutcome outcome_;
};

}  // namespace

TrainingOutcome run_training(ResidentTrainer& trainer, const TrainingPlan& plan, Checkpoints& checkpoints,
                             data::ImageSet training, const data::ImageSet& test) {
  Training at_work(trainer, plan, checkpoints, std::move(training), test);
  return at_work.run();
}

}  // namespace wholestep::cli
