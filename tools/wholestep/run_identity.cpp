#include "run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::cli {
namespace {

// Under this prefix `ResidentTrainer::save` keeps what it is given; the optimizer it keeps itself.
constexpr std::string_view kExtra = "extra/";

// As the command line allows.
constexpr std::int64_t kLargestBatch = std::int64_t{1} << 31;

using Metadata = std::vector<std::pair<std::string, std::string>>;

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

Metadata RunIdentity::to_metadata() const {
  return {{"model", model},
          {"lr", fmt::format("{}", lr)},
          {"schedule", schedule},
          {"goal", fmt::format("{}", goal)},
          {"batch", fmt::format("{}", batch)},
          {"seed", fmt::format("{}", seed)},
          {"examples", fmt::format("{}", examples)}};
}

RunIdentity RunIdentity::of_checkpoint(const std::string& path) {
  const Metadata metadata = io::read_safetensors(path).metadata;
  const auto extra = [](std::string_view key) { return fmt::format("{}{}", kExtra, key); };
  RunIdentity run;
  run.model = entry(metadata, path, extra("model"));
  run.optimizer = entry(metadata, path, "optimizer");
  run.lr = number<double>(metadata, path, extra("lr"));
  run.schedule = entry(metadata, path, extra("schedule"));
  run.goal = number<std::int64_t>(metadata, path, extra("goal"));
  run.batch = number<std::int64_t>(metadata, path, extra("batch"));
  run.seed = number<std::uint64_t>(metadata, path, extra("seed"));
  run.examples = number<std::int64_t>(metadata, path, extra("examples"));
  if (run.batch < 1 || run.batch > kLargestBatch) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: expected a batch size of 1 to {}, got {}", path, kLargestBatch, run.batch));
  }
  if (run.goal < 0 || run.examples < 0) {
    throw Error(ErrorCode::checkpoint_mismatch,
                fmt::format("{}: expected a goal and a number of examples that are not negative, got {} and {}", path,
                            run.goal, run.examples));
  }
  return run;
}

}  // namespace wholestep::cli
