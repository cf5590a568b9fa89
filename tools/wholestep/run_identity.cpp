#include "run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "checks.h"
#include "wholestep/error.h"
#include "wholestep/io.h"
#include "wholestep/nn.h"
#include "wholestep/optim.h"
#include "wholestep/schedule.h"
#include "wholestep/session.h"

namespace wholestep::cli {
namespace {

// Under this prefix `ResidentTrainer::save` keeps what it is given; the optimizer it keeps itself.
constexpr std::string_view kExtra = "extra/";

bool has(const Metadata& metadata, const std::string& key) {
  return std::any_of(metadata.begin(), metadata.end(), [&](const auto& item) { return item.first == key; });
}

const std::string& entry(const Metadata& metadata, const std::string& path, const std::string& key) {
  const auto found =
      std::find_if(metadata.begin(), metadata.end(), [&](const auto& item) { return item.first == key; });
  if (found == metadata.end()) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: not a checkpoint of `wholestep train`: its metadata has no \"{}\"", path, key));
  }
  return found->second;
}

template <class T>
T number(const Metadata& metadata, const std::string& path, const std::string& key) {
  const std::string& text = entry(metadata, path, key);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: metadata \"{}\": expected a number, got \"{}\"", path, key, text));
  }
  return value;
}

}  // namespace

std::int64_t RunIdentity::steps_per_epoch() const {
  const std::int64_t full = examples / batch;
  return (full + accumulate - 1) / accumulate + (examples % batch != 0 ? 1 : 0);
}

std::int64_t RunIdentity::first_batch(std::int64_t step) const { return std::min(step * accumulate, examples / batch); }

std::int64_t RunIdentity::examples_of(std::int64_t step) const {
  const std::int64_t left = examples / batch - first_batch(step);  // of the batches of full size
  return left > 0 ? std::min(accumulate, left) * batch : examples % batch;
}

Metadata RunIdentity::to_metadata() const {
  Metadata metadata{{"model", model},
                    {"lr", fmt::format("{}", lr)},
                    {"schedule", schedule},
                    {"precision", precision},
                    {"monitor", monitor},
                    {"goal", fmt::format("{}", goal)},
                    {"batch", fmt::format("{}", batch)},
                    {"seed", fmt::format("{}", seed)},
                    {"accumulate", fmt::format("{}", accumulate)},
                    {"examples", fmt::format("{}", examples)}};
  if (clip_norm) metadata.emplace_back("clip_norm", fmt::format("{}", *clip_norm));
  if (ema) metadata.emplace_back("ema", fmt::format("{}", *ema));
  return metadata;
}

void RunIdentity::check(const std::string& path) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::checkpoint_mismatch, fmt::format("{}: {}", path, what));
  };
  const auto expect = [&](const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most) refuse(fmt::format("{}: expected {} to {}, got {}", what, least, most, value));
  };
  expect("batch size", batch, 1, kMostExamples);
  expect("batches in a step", accumulate, 1, kMostExamples);
  expect("steps of the run", goal, 0, kMostSteps);
  expect("training examples", examples, 0, kMostSteps);
  if (clip_norm && !(*clip_norm > 0 && std::isfinite(*clip_norm)))
    refuse(fmt::format("clip_norm: expected a finite number above 0, got {}", *clip_norm));
  if (ema && !(*ema > 0 && *ema < 1)) refuse(fmt::format("ema: expected a number between 0 and 1, got {}", *ema));
  if (monitor != "loss" && monitor != "accuracy")
    refuse(fmt::format("monitor: expected loss or accuracy, got \"{}\"", monitor));
  try {
    models::by_name(model);
    optimizer_by_name(optimizer, lr);
    precision_by_name(precision);
    Schedule::parse(schedule, std::max<std::int64_t>(goal, 1));
  } catch (const Error& error) {
    refuse(error.what());
  }
}

RunIdentity RunIdentity::of_checkpoint(const std::string& path) {
  return from_metadata(path, io::read_safetensors(path).metadata);
}

// The goal and the learning rate may be others after a resume.
bool RunIdentity::wrote(const std::string& path, std::int64_t steps) const {
  try {
    const Metadata metadata = io::read_safetensors(path).metadata;
    RunIdentity other = from_metadata(path, metadata);
    other.goal = goal;
    other.lr = lr;
    return other == *this && number<std::int64_t>(metadata, path, "steps") == steps;
  } catch (const Error&) {
    return false;
  }
}

RunIdentity RunIdentity::from_metadata(const std::string& path, const Metadata& metadata) {
  const auto extra = [](std::string_view key) { return fmt::format("{}{}", kExtra, key); };
  RunIdentity run;
  run.model = entry(metadata, path, extra("model"));
  run.optimizer = entry(metadata, path, "optimizer");
  run.lr = number<double>(metadata, path, extra("lr"));
  run.schedule = entry(metadata, path, extra("schedule"));
  run.precision = entry(metadata, path, extra("precision"));
  run.monitor = entry(metadata, path, extra("monitor"));
  run.goal = number<std::int64_t>(metadata, path, extra("goal"));
  run.batch = number<std::int64_t>(metadata, path, extra("batch"));
  run.accumulate = number<std::int64_t>(metadata, path, extra("accumulate"));
  if (has(metadata, extra("clip_norm"))) run.clip_norm = number<double>(metadata, path, extra("clip_norm"));
  if (has(metadata, extra("ema"))) run.ema = number<double>(metadata, path, extra("ema"));
  run.seed = number<std::uint64_t>(metadata, path, extra("seed"));
  run.examples = number<std::int64_t>(metadata, path, extra("examples"));
  run.check(path);
  return run;
}

Metadata RunProgress::to_metadata() const {
  Metadata metadata{{"epoch_loss_sum", fmt::format("{}", loss_sum)}, {"epoch_examples", fmt::format("{}", examples)}};
  if (best) {
    metadata.emplace_back("best", fmt::format("{}", *best));
    metadata.emplace_back("best_epoch", fmt::format("{}", best_epoch));
  }
  return metadata;
}

RunProgress RunProgress::from_metadata(const std::string& path, const Metadata& metadata) {
  RunProgress progress;
  progress.loss_sum = number<double>(metadata, path, "epoch_loss_sum");
  progress.examples = number<std::int64_t>(metadata, path, "epoch_examples");
  if (has(metadata, "best")) {
    progress.best = number<double>(metadata, path, "best");
    progress.best_epoch = number<std::int64_t>(metadata, path, "best_epoch");
  }
  if (!std::isfinite(progress.loss_sum) || progress.examples < 0 || progress.best_epoch < 0 ||
      !std::isfinite(progress.best.value_or(0))) {
    throw Error(
        ErrorCode::checkpoint_mismatch,
        fmt::format("{}: expected finite losses and counts of at least 0, got a loss sum of {} over {} examples, "
                    "best {} in epoch {}",
                    path, progress.loss_sum, progress.examples, progress.best.value_or(0), progress.best_epoch));
  }
  return progress;
}

}  // namespace wholestep::cli
