#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command.h"
#include "interrupt.h"
#include "options.h"
#include "schedule.h"
#include "training.h"
#include "wholestep/nn.h"
#include "wholestep/optim.h"

namespace wholestep::cli {
namespace {

struct TrainOptions {
  std::optional<std::string> model;
  std::string data;
  std::optional<std::string> optimizer;
  std::optional<double> lr;
  std::optional<std::int64_t> batch;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> schedule;
  std::optional<std::int64_t> epochs;
  std::optional<std::int64_t> steps;
  DeviceOptions device;
  std::string precision = "f32";
  std::string save;
  std::int64_t save_every = 0;
  std::string resume;
  std::string log;
  bool json = false;
};

/// What the user asked for, completed by the checkpoint that the run resumes from, which it must not contradict.
RunIdentity identify(const TrainOptions& options) {
  RunIdentity run;
  run.model = options.model.value_or("mlp");
  run.optimizer = options.optimizer.value_or("adamw");
  run.schedule = options.schedule.value_or("constant");
  run.batch = options.batch.value_or(64);
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
    check("--seed", options.seed, kept.seed);
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
  const std::int64_t steps_per_epoch = (run.examples + run.batch - 1) / run.batch;
  std::int64_t goal = options.resume.empty() ? 10 * steps_per_epoch : run.goal;
  if (options.steps) goal = *options.steps;
  if (options.epochs) goal = *options.epochs * steps_per_epoch;
  if (!options.resume.empty() && run.schedule != "constant" && goal != run.goal) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: {} steps were asked for, the checkpoint is of a run whose {} schedule ends at {}",
                            options.resume, goal, run.schedule, run.goal));
  }
  return goal;
}

std::string resume_command(const TrainOptions& options, const RunIdentity& run, const std::string& checkpoint) {
  std::string command =
      fmt::format("wholestep train {} --data {} --optimizer {} --lr {} --batch {} --seed {}", shell_quote(run.model),
                  shell_quote(options.data), shell_quote(run.optimizer), run.lr, run.batch, run.seed);
  command += fmt::format(" --schedule {} --steps {} --device {}", run.schedule, run.goal, options.device.name);
  if (options.device.threads > 0) command += fmt::format(" --threads {}", options.device.threads);
  if (!options.save.empty()) command += fmt::format(" --save {}", shell_quote(options.save));
  if (options.save_every > 0) command += fmt::format(" --save-every {}", options.save_every);
  if (!options.log.empty()) command += fmt::format(" --log {}", shell_quote(options.log));
  if (options.json) command += " --json";
  return command + fmt::format(" --resume {}", shell_quote(checkpoint));
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

void print_json(const TrainOptions& options, const RunIdentity& run, const ResidentTrainer& trainer,
                const TrainingOutcome& outcome) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const EpochReport& report : outcome.epochs) {
    epochs.push_back({{"epoch", report.epoch},
                      {"steps", report.steps},
                      {"train_loss", report.train_loss},
                      {"test_loss", report.test_loss},
                      {"test_accuracy", report.test_accuracy},
                      {"step_us_median", report.step_us}});
  }
  std::optional<double> accuracy;
  std::optional<double> test_loss;
  if (outcome.evaluation) {
    accuracy = outcome.evaluation->accuracy;
    test_loss = outcome.evaluation->loss;
  }
  const nlohmann::ordered_json result = {
      {"model", run.model},
      {"device", options.device.name},
      {"threads", options.device.threads_used()},
      {"precision", options.precision},
      {"optimizer", run.optimizer},
      {"lr", run.lr},
      {"schedule", run.schedule},
      {"batch", run.batch},
      {"seed", run.seed},
      {"steps", trainer.steps()},
      {"final_loss", or_null(outcome.final_loss)},
      {"test_loss", or_null(test_loss)},
      {"test_accuracy", or_null(accuracy)},
      {"step_us_median", or_null(outcome.step_us_median)},
      {"resident", trainer.is_resident()},
      {"checkpoint",
       outcome.checkpoint.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(outcome.checkpoint)},
      {"interrupted", outcome.interrupted},
      {"seconds", outcome.seconds},
      {"epochs", epochs}};
  fmt::print("{}\n", result.dump());
}

void print_end(const ResidentTrainer& trainer, const TrainingOutcome& outcome) {
  if (outcome.epochs.empty() && outcome.evaluation) {
    fmt::print("test accuracy {:.2f} %\n", 100 * outcome.evaluation->accuracy);
  }
  fmt::print("{} steps, {:.1f} s", trainer.steps(), outcome.seconds);
  if (outcome.step_us_median) fmt::print(", {:.1f} us/step (median)", *outcome.step_us_median);
  fmt::print("\nresident: {}\n", trainer.is_resident() ? "yes" : "no");
  if (outcome.checkpoint.empty())
    fmt::print("checkpoint: none (--save FILE keeps one)\n");
  else
    fmt::print("checkpoint: {} (step {})\n", outcome.checkpoint, trainer.steps());
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

int run_train(const TrainOptions& options) {
  check_precision(options.precision);
  TrainingPlan plan{identify(options)};
  const auto build = models::by_name(plan.run.model);
  const Optimizer optimizer = optimizer_by_name(plan.run.optimizer, plan.run.lr);
  if (!options.save.empty()) check_writable(options.save);
  const auto [training, test] = read_data(options.data);
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
  plan.save = options.save;
  plan.save_every = options.save_every;
  plan.log = options.log;
  plan.results_to_stderr = options.json;

  // The program for full batches, or for the whole set where that is smaller.
  const Graph graph = build(std::min(plan.run.batch, training.size()));
  ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, plan.run.seed), optimizer,
                          options.device.device());
  trainer.set_graph_builder(build);
  if (!options.resume.empty()) {
    trainer.load(options.resume);
  }

  std::int64_t parameters = 0;
  for (const auto& [name, values] : trainer.params()) parameters += values.size();
  fmt::print(options.json ? stderr : stdout,
             "{}: {} parameters, {} (lr {}), batch {}, {} training and {} test images, {} with {} thread{}\n",
             plan.run.model, parameters, plan.run.optimizer, plan.run.lr, plan.run.batch, training.size(), test.size(),
             options.device.name, options.device.threads_used(), options.device.threads_used() == 1 ? "" : "s");
  std::fflush(stdout);

  catch_interrupts();
  const TrainingOutcome outcome = run_training(trainer, plan, training, test);
  if (options.json)
    print_json(options, plan.run, trainer, outcome);
  else
    print_end(trainer, outcome);
  if (!outcome.interrupted) return 0;
  fmt::print(stderr, "interrupted at step {} of {}; to go on:\n  {}\n", trainer.steps(), plan.run.goal,
             resume_command(options, plan.run, outcome.checkpoint));
  return kInterrupted;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "train a model");
  command->add_option("MODEL", options->model, "built-in model (default: mlp)");
  command->add_option("--data", options->data, "folder with the four IDX files, plain or .gz")->required();
  command->add_option("--optimizer", options->optimizer,
                      fmt::format("{} (default: adamw)", fmt::join(optimizer_names(), ", ")));
  command->add_option("--lr", options->lr, "learning rate (default: the optimizer's)")->check(CLI::NonNegativeNumber);
  command
      ->add_option("--schedule", options->schedule,
                   "of the learning rate: constant or cosine, which ends at 0 (default: constant)")
      ->check(CLI::IsMember(schedules()));
  command->add_option("--batch", options->batch, "examples in a step (default: 64)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command->add_option("--seed", options->seed, "of initial values and shuffling (default: 0)");
  CLI::Option* epochs = command
                            ->add_option("--epochs", options->epochs,
                                         "passes over the training set, those before a resume included (default: 10)")
                            ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31));
  command->add_option("--steps", options->steps, "steps instead of epochs, those before a resume included")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62))
      ->excludes(epochs);
  options->device.add_to(*command);
  add_precision(*command, options->precision);
  CLI::Option* save = command->add_option("--save", options->save, "checkpoint, written at the end");
  command->add_option("--save-every", options->save_every, "also save each time this many steps are done")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 62))
      ->needs(save);
  command->add_option("--resume", options->resume, "continue the run that wrote this checkpoint");
  command->add_option("--log", options->log, "folder; JSON lines are appended to its train.jsonl");
  command->add_flag("--json", options->json, "print one JSON object at the end");
  command->callback([options, &status] { status = run_train(*options); });
}

}  // namespace wholestep::cli
