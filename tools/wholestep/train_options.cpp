#include "train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <limits>

#include "checkpoints.h"
#include "checks.h"
#include "data/idx_names.h"
#include "wholestep/nn.h"
#include "wholestep/schedule.h"

namespace wholestep::cli {
namespace {

bool one_file(const std::string& a, const std::string& b) {
  const auto place = [](const std::string& path) {
    std::error_code error;  // an impossible path is refused when it is written
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return !place(a).empty() && place(a) == place(b);
}

/// Refuses a checkpoint `path` of `option`, with its ".json", where it would be written over something else of the run.
void check_apart(const TrainOptions& options, const std::string& option, const std::string& path) {
  if (path.empty()) return;
  const auto refuse = [&](const std::string& what) {
    throw CLI::ValidationError(option, fmt::format("{}: it would be written over {}", path, what));
  };
  const auto is = [&](const std::string& other) { return one_file(path, other) || one_file(path + ".json", other); };
  if (!options.log.empty() && (is(options.log) || is(options.log + "/train.jsonl"))) refuse("--log " + options.log);
  if (!options.config.empty() && one_file(path, options.config)) refuse("--config " + options.config);
  for (const data::Split split : {data::Split::train, data::Split::test}) {
    const auto [images, labels] = data::idx_names(split);
    for (const std::string& file : {options.data + "/" + images, options.data + "/" + labels}) {
      if (is(file) || is(file + ".gz")) refuse("the data set, --data " + options.data);
    }
  }
}

}  // namespace

void TrainOptions::check_together() const {
  if (data.empty()) throw CLI::RequiredError("--data");
  if (save_every > 0 && save.empty()) throw CLI::ValidationError("--save-every", "needs --save");
  if (keep > 0 && save_every == 0) throw CLI::ValidationError("--keep", "needs --save-every");
  check_apart(*this, "--save", save);
  check_apart(*this, "--save-best", save_best);
  if (save.empty() || save_best.empty()) return;
  const auto folder_of = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::absolute(path, ignored).parent_path().string();
  };
  const bool numbered =
      keep > 0 && one_file(folder_of(save), folder_of(save_best)) && Checkpoints::number_of(save, save_best) >= 0;
  if (numbered || one_file(save, save_best) || one_file(save + ".json", save_best) ||
      one_file(save, save_best + ".json")) {
    throw CLI::ValidationError("--save-best",
                               fmt::format("{}: --save {} would write one of its files too", save_best, save));
  }
}

void TrainOptions::add_to(CLI::App& command) {
  command
      .add_option("--config", config,
                  "JSON file with options, as stands beside a checkpoint; the command line overrides it")
      ->type_name("FILE")
      ->transform(not_empty());
  command.add_option("MODEL,--model", model, "built-in model (default: mlp)")
      ->transform(known_to([](const std::string& name) { models::by_name(name); }));
  command.add_option("--data", data, "folder with the four IDX files of a data set like MNIST, plain or .gz; needed")
      ->type_name("FOLDER")
      ->transform(not_empty());
  add_optimizer(command, optimizer, "default: adamw");
  command.add_option("--lr", lr, "learning rate (default: the optimizer's)")
      ->transform(number_from(0, true, std::numeric_limits<float>::max()));
  command
      .add_option("--schedule", schedule,
                  fmt::format("factor of the learning rate over the steps: {}; for example cosine(warmup=100, "
                              "final=0.1) (default: constant)",
                              fmt::join(Schedule::kinds(), ", ")))
      ->transform(known_to([](const std::string& text) { Schedule::parse(text, kMostSteps); }));
  command.add_option("--batch", batch, "examples in a step (default: 64)")->transform(whole_number(1, kMostExamples));
  command.add_option("--accumulate", accumulate, "batches whose mean gradient makes a step (default: 1)")
      ->transform(whole_number(1, kMostExamples));
  command.add_option("--clip-norm", clip_norm, "scale gradients down together to this norm where it is larger")
      ->transform(normal_number());
  command
      .add_option(
          "--ema", ema,
          "keep averages of the weights with this decay, such as 0.999, and evaluate them instead of the weights")
      ->transform(number_from(0, false, std::nextafter(1.0, 0.0)));
  command.add_option("--seed", seed, "of initial values and shuffling (default: 0)")->transform(seed_number());
  CLI::Option* by_epochs =
      command
          .add_option("--epochs", epochs, "passes over the training set, those before a resume included (default: 10)")
          ->transform(whole_number(0, kMostExamples));
  command.add_option("--steps", steps, "steps instead of epochs, those before a resume included")
      ->transform(whole_number(0, kMostSteps))
      ->excludes(by_epochs);
  device.add_to(command);
  add_precision(command, precision);
  command.add_option("--save", save, "checkpoint, written at the end")->type_name("FILE")->transform(not_empty());
  command.add_option("--save-every", save_every, "also save each time this many steps are done")
      ->transform(whole_number(1, kMostSteps));
  command
      .add_option("--keep", keep,
                  "--save-every writes files of its own, NAME-STEP.safetensors; keep the newest so many")
      ->transform(whole_number(1, 1000000));
  command.add_option("--save-best", save_best, "checkpoint of the epoch that did best on the test set")
      ->type_name("FILE")
      ->transform(not_empty());
  command.add_option("--patience", patience, "end after so many epochs without a better test result")
      ->transform(whole_number(1, kMostExamples));
  command.add_option("--monitor", monitor, "what better means: loss or accuracy (default: loss)")
      ->transform(CLI::IsMember({"loss", "accuracy"}));
  command
      .add_option("--resume", resume,
                  "continue the run that wrote this checkpoint; with --config FILE.json, its saves and logs too")
      ->type_name("FILE")
      ->transform(not_empty());
  command.add_option("--log", log, "folder; appends to its train.jsonl, and writes an event file for TensorBoard")
      ->type_name("FOLDER")
      ->transform(not_empty());
  command.add_flag("--json", json, "print one JSON object at the end");
}

}  // namespace wholestep::cli
