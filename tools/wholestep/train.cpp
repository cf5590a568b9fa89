#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "checks.h"
#include "command.h"
#include "finite.h"
#include "interrupt.h"
#include "json.h"
#include "progress.h"
#include "run_config.h"
#include "train_options.h"
#include "training.h"
#include "wholestep/nn.h"
#include "wholestep/optim.h"
#include "wholestep/schedule.h"

namespace wholestep::cli {
namespace {

Schedule schedule_of(const std::string& text, std::int64_t goal) {
  return from_option("--schedule", [&] { return Schedule::parse(text, std::max<std::int64_t>(goal, 1)); });
}

/// What the user asked for, completed by the checkpoint that the run resumes from, which it must not contradict.
RunIdentity identify(const TrainOptions& options) {
  RunIdentity run;
  run.model = options.model.value_or("mlp");
  run.optimizer = options.optimizer.value_or("adamw");
  run.schedule = options.schedule.value_or("constant");
  run.precision = options.precision.value_or("f32");
  run.monitor = options.monitor.value_or("loss");
  run.batch = options.batch.value_or(64);
  run.accumulate = options.accumulate.value_or(1);
  run.clip_norm = options.clip_norm;
  run.ema = options.ema;
  run.seed = options.seed.value_or(0);
  if (!options.resume.empty()) {
    const RunIdentity kept = RunIdentity::of_checkpoint(options.resume);
    const auto check = [&](const char* what, const auto& asked, const auto& had) {
      if (asked && *asked != had) {
        throw Error(ErrorCode::checkpoint_mismatch,
                    fmt::format("{}: {} {} was asked for, the checkpoint is of a run with {}", options.resume, what,
                                *asked, had));
      }
    };
    check("MODEL", options.model, kept.model);
    check("--optimizer", options.optimizer, kept.optimizer);
    check("--batch", options.batch, kept.batch);
    check("--accumulate", options.accumulate, kept.accumulate);
    check("--seed", options.seed, kept.seed);
    const auto check_optional = [&](const char* what, const auto& asked, const auto& had) {
      if (asked && !had) {
        throw Error(
            ErrorCode::checkpoint_mismatch,
            fmt::format("{}: {} {} was asked for, the checkpoint is of a run without", options.resume, what, *asked));
      }
      if (asked) check(what, asked, *had);
    };
    check_optional("--clip-norm", options.clip_norm, kept.clip_norm);
    check_optional("--ema", options.ema, kept.ema);
    check("--precision", options.precision, kept.precision);
    check("--monitor", options.monitor, kept.monitor);
    if (options.schedule && !(schedule_of(*options.schedule, kept.goal) == schedule_of(kept.schedule, kept.goal)))
      check("--schedule", options.schedule, kept.schedule);
    run = kept;
  }
  if (options.lr)
    run.lr = *options.lr;
  else if (options.resume.empty())
    run.lr = optimizer_by_name(run.optimizer)->lr();
  return run;
}

/// Steps at which the run ends: as asked for, else as its checkpoint says, else after ten epochs.
std::int64_t goal_of(const TrainOptions& options, const RunIdentity& run) {
  const std::int64_t steps_per_epoch = run.steps_per_epoch();
  std::int64_t goal = options.resume.empty() ? 10 * steps_per_epoch : run.goal;
  if (options.steps) goal = *options.steps;
  if (options.epochs) goal = *options.epochs * steps_per_epoch;
  if (!options.resume.empty() && !(schedule_of(run.schedule, goal) == schedule_of(run.schedule, run.goal))) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: {} steps were asked for, the checkpoint is of a run whose {} schedule ends at {}",
                            options.resume, goal, run.schedule, run.goal));
  }
  return goal;
}

/// The run as `--config` takes it: what was given and what followed from that.
std::string config_of(const TrainOptions& options, const RunIdentity& run) {
  nlohmann::ordered_json config = {{"model", run.model},
                                   {"data", options.data},
                                   {"optimizer", run.optimizer},
                                   {"lr", run.lr},
                                   {"schedule", run.schedule},
                                   {"batch", run.batch},
                                   {"accumulate", run.accumulate},
                                   {"seed", run.seed},
                                   {"steps", run.goal},
                                   {"monitor", run.monitor},
                                   {"precision", run.precision},
                                   {"device", options.device.name},
                                   {"threads", options.device.threads}};
  const auto add = [&](const char* key, const auto& value, const auto& none) {
    if (value != none) config[key] = value;
  };
  if (run.clip_norm) config["clip-norm"] = *run.clip_norm;
  if (run.ema) config["ema"] = *run.ema;
  add("save", options.save, "");
  add("save-every", options.save_every, 0);
  add("keep", options.keep, 0);
  add("save-best", options.save_best, "");
  add("patience", options.patience, 0);
  add("log", options.log, "");
  return config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string resume_command(const TrainOptions& options, const std::string& checkpoint) {
  return fmt::format("wholestep train --config {} --resume {}{}", shell_quote(checkpoint + ".json"),
                     shell_quote(checkpoint), options.json ? " --json" : "");
}

void print_json(const TrainOptions& options, const RunIdentity& run, const ResidentTrainer& trainer,
                const TrainingOutcome& outcome) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const EpochReport& report : outcome.epochs) {
    epochs.push_back({{"epoch", report.epoch},
                      {"steps", report.steps},
                      {"train_loss", report.train_loss},
                      {"test_loss", report.test.loss},
                      {"test_accuracy", report.test.accuracy},
                      {"step_us_median", report.step_us}});
  }
  std::optional<double> accuracy;
  std::optional<double> test_loss;
  if (outcome.test) {
    accuracy = outcome.test->accuracy;
    test_loss = outcome.test->loss;
  }
  const nlohmann::ordered_json result = {
      {"model", run.model},
      {"device", options.device.name},
      {"threads", options.device.threads_used()},
      {"precision", run.precision},
      {"optimizer", run.optimizer},
      {"lr", run.lr},
      {"schedule", run.schedule},
      {"batch", run.batch},
      {"accumulate", run.accumulate},
      {"seed", run.seed},
      {"steps", trainer.steps()},
      {"skipped_steps", trainer.skipped_steps()},
      {"final_loss", or_null(outcome.final_loss)},
      {"test_loss", or_null(test_loss)},
      {"test_accuracy", or_null(accuracy)},
      {"step_us_median", or_null(outcome.step_us_median)},
      {"resident", trainer.is_resident()},
      {"checkpoint",
       outcome.checkpoint.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(outcome.checkpoint)},
      {"best_epoch", outcome.progress.best ? nlohmann::ordered_json(outcome.progress.best_epoch) : nullptr},
      {"best", or_null(outcome.progress.best)},
      {"stopped_early", outcome.stopped_early},
      {"interrupted", outcome.interrupted},
      {"seconds", outcome.seconds},
      {"epochs", epochs}};
  tell(stdout, "{}\n", one_line(result));
}

void print_end(const ResidentTrainer& trainer, const TrainingOutcome& outcome) {
  if (outcome.epochs.empty() && outcome.test) tell(stdout, "test accuracy {:.2f} %\n", 100 * outcome.test->accuracy);
  tell(stdout, "{} steps, {:.1f} s", trainer.steps(), outcome.seconds);
  if (outcome.step_us_median) tell(stdout, ", {:.1f} us/step (median)", *outcome.step_us_median);
  if (trainer.skipped_steps() > 0) {
    tell(stdout, "\nskipped: {} of the steps, since their gradients were not finite", trainer.skipped_steps());
  }
  tell(stdout, "\nresident: {}\n", trainer.is_resident() ? "yes" : "no");
  if (outcome.checkpoint.empty())
    tell(stdout, "checkpoint: none (--save FILE keeps one)\n");
  else
    tell(stdout, "checkpoint: {} (step {})\n", outcome.checkpoint, trainer.steps());
}

/// Data that the model cannot take is found before training, and named.
void check_data(const Graph& model, const std::string& folder, std::string_view split, const data::ImageSet& set) {
  const std::int64_t pixels = model.node(model.find_id("x")).type.shape.back();
  if (set.image_elements() != pixels) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{}: the {} images have {} pixels each, model {} takes {}",
                                                       folder, split, set.image_elements(), model.name(), pixels));
  }
  const std::optional<std::int64_t> classes = index_bound(model, "y");
  if (classes && set.classes() > *classes) {
    throw Error(ErrorCode::index_out_of_range, fmt::format("{}: a {} label is {}, model {} has {} classes", folder,
                                                           split, set.classes() - 1, model.name(), *classes));
  }
}

/// A step that is made of less than what was asked for is no error, and no secret.
void say_what_is_less(const RunIdentity& run) {
  if (run.batch > run.examples) {
    tell(stderr, "--batch {}: the training set has {} examples, so each step takes all of them\n", run.batch,
         run.examples);
  } else if (run.accumulate > 1 && run.accumulate > run.examples / run.batch) {
    tell(stderr, "--accumulate {}: an epoch has {} batches of {}, so a step takes no more\n", run.accumulate,
         run.examples / run.batch, run.batch);
  }
}

int run_train(const TrainOptions& options) {
  catch_interrupts();
  TrainingPlan plan{identify(options), {}, {}};
  const auto build = models::by_name(plan.run.model);
  const Optimizer optimizer = optimizer_by_name(plan.run.optimizer, plan.run.lr);
  if (!options.save.empty()) Checkpoints::check_writable("--save", options.save);
  if (!options.save_best.empty()) Checkpoints::check_writable("--save-best", options.save_best);
  auto [training, test] = read_data(options.data);
  if (training.size() == 0 || test.size() == 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: a data set without examples", options.data));
  }
  check_data(build(1), options.data, "training", training);
  check_data(build(1), options.data, "test", test);
  if (!options.resume.empty() && plan.run.examples != training.size()) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: {} holds {} training examples, the checkpoint is of a run with {}", options.resume,
                            options.data, training.size(), plan.run.examples));
  }
  plan.run.examples = training.size();
  plan.run.goal = goal_of(options, plan.run);
  schedule_of(plan.run.schedule, plan.run.goal);
  say_what_is_less(plan.run);
  plan.checkpoints = {options.save, options.save_best, options.save_every, options.keep, config_of(options, plan.run)};
  plan.monitor = plan.run.monitor == "accuracy" ? Monitor::accuracy : Monitor::loss;
  plan.patience = options.patience;
  plan.log = options.log;
  plan.results_to_stderr = options.json;

  // The program for full batches, or for the whole set where that is smaller.
  const Graph graph = build(std::min(plan.run.batch, training.size()));
  const CompileOptions compile{.precision = precision_by_name(plan.run.precision)};
  ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, plan.run.seed), optimizer,
                          options.device.device(), compile,
                          {.clip_norm = plan.run.clip_norm, .ema_decay = plan.run.ema});
  trainer.set_graph_builder(build);
  if (!options.resume.empty()) {
    plan.resumed = true;
    plan.progress = RunProgress::from_metadata(options.resume, trainer.load(options.resume));
    check_finite(options.resume, trainer.params());
  }
  Checkpoints checkpoints(plan.checkpoints, plan.run);
  checkpoints.check_space(trainer);
  if (!options.resume.empty()) checkpoints.adopt(trainer.steps());

  std::int64_t parameters = 0;
  for (const auto& [name, values] : trainer.params()) parameters += values.size();
  std::FILE* const out = options.json ? stderr : stdout;
  tell(out, "{}: {} parameters, {} (lr {}), batch {}, {} training and {} test images, {} with {} thread{}\n",
       plan.run.model, parameters, plan.run.optimizer, plan.run.lr, plan.run.batch, training.size(), test.size(),
       options.device.name, options.device.threads_used(), options.device.threads_used() == 1 ? "" : "s");
  const std::int64_t before = trainer.steps();
  if (before >= plan.run.goal) {
    tell(out, "nothing left to train: {} step{} of {} are done (--steps or --epochs sets another end)\n", before,
         before == 1 ? "" : "s", plan.run.goal);
  }

  if (!options.resume.empty() && options.save.empty() && options.save_best.empty()) {
    tell(out, "no checkpoint is kept at the end: --save FILE does, or --config {}.json, which holds the whole run\n",
         options.resume);
  }

  const TrainingOutcome outcome = run_training(trainer, plan, checkpoints, std::move(training), test);
  if (outcome.stopped_early) {
    tell(out, "stopped early at step {} of {}: no better test {} since epoch {}\n", trainer.steps(), plan.run.goal,
         plan.run.monitor, outcome.progress.best_epoch);
  }
  if (options.json)
    print_json(options, plan.run, trainer, outcome);
  else
    print_end(trainer, outcome);
  if (outcome.log_lost) tell(stderr, "wholestep: error: --log {} does not hold all steps\n", options.log);
  if (!outcome.interrupted) return outcome.log_lost ? 1 : 0;
  tell(stderr, "interrupted {}at step {} of {}; to go on:\n  {}\n",
       trainer.steps() == before ? "before the first step, " : "", trainer.steps(), plan.run.goal,
       resume_command(options, outcome.checkpoint));
  return kInterrupted;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "train a model");
  options->add_to(*command);
  command->callback([options, command, &status] {
    if (!options->config.empty()) apply_config(*command, options->config);
    options->check_together();
    status = run_train(*options);
  });
}

}  // namespace wholestep::cli
