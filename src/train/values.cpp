// Reading and overwriting what a trainer holds, and its checkpoints. Everything is checked before anything changes.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "graph/op.h"
#include "optim/rule.h"
#include "runtime/check.h"
#include "train/gradient_rules.h"
#include "train/state.h"
#include "train/step_graph.h"
#include "train/validate.h"
#include "wholestep/io.h"

namespace wholestep {
namespace {

using train::CheckpointTensor;

constexpr std::string_view kFormat = "wholestep-checkpoint";
constexpr std::string_view kVersion = "1";
// Metadata of each trained parameter, and of the caller.
constexpr std::string_view kSteps = "steps", kFrozen = "frozen", kExtra = "extra";
std::string key_of(std::string_view kind, std::string_view name) { return fmt::format("{}/{}", kind, name); }
// The name in a key of `kind`, or nullopt.
std::optional<std::string> named(std::string_view kind, const std::string& key) {
  const std::string before = key_of(kind, "");
  return key.starts_with(before) ? std::optional(key.substr(before.size())) : std::nullopt;
}

[[noreturn]] void mismatch(const std::string& message) { throw Error(ErrorCode::checkpoint_mismatch, message); }

// The text of a number, or nullopt.
template <class T>
std::optional<T> parse(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A loss scale that is handed in has to be one that a trainer can have.
void check_loss_scale(const std::string& source, const OptimizerState::LossScale& given, const UpdateOptions& update) {
  const auto [scale, good_steps] = given;
  if (!(scale >= train::kLeastLossScale && scale <= train::kMostLossScale)) {
    mismatch(fmt::format("{}: the loss scale is {}, expected 2^-120 to 2^120", source, scale));
  }
  if (good_steps >= 0 && good_steps < update.loss_scaling->interval) return;
  mismatch(fmt::format("{}: the loss scale has been kept for {} steps, expected 0 to {}", source, good_steps,
                       update.loss_scaling->interval - 1));
}

// State of `what` has to be in a checkpoint where the trainer has it, and nowhere else.
void check_kept(const std::string& path, std::string_view what, bool in_file, bool here, std::string_view option) {
  if (in_file == here) return;
  mismatch(fmt::format("{}: the checkpoint holds {}{}, this trainer keeps {}: {} is {}", path, in_file ? "" : "no ",
                       what, here ? "them" : "none", option, here ? "set" : "not set"));
}

// Where the tensors of a file are not those of the trainer: every difference, the first few in full.
void check_tensors(const std::string& path, const std::vector<CheckpointTensor>& expected, const NamedArrays& given) {
  std::unordered_map<std::string_view, const Array*> in_file;
  for (const auto& [name, value] : given) in_file.emplace(name, &value);
  std::vector<std::string> differences;
  for (const CheckpointTensor& tensor : expected) {
    const auto found = in_file.find(tensor.in_file);
    if (found == in_file.end()) {
      differences.push_back(fmt::format("\"{}\" ({}) is missing", tensor.in_file, to_string(tensor.type)));
      continue;
    }
    if (found->second->type() != tensor.type) {
      differences.push_back(fmt::format("\"{}\" is {}, expected {}", tensor.in_file, to_string(found->second->type()),
                                        to_string(tensor.type)));
    }
    in_file.erase(found);
  }
  for (const auto& [name, value] : given) {
    if (in_file.contains(name))
      differences.push_back(fmt::format("\"{}\" ({}) is not in the model", name, to_string(value.type())));
  }
  if (differences.empty()) return;
  constexpr std::size_t kShown = 16;
  std::string message = fmt::format("{}: a checkpoint of another model: ", path);
  for (std::size_t i = 0; i < std::min(kShown, differences.size()); ++i) message += (i ? "; " : "") + differences[i];
  if (differences.size() > kShown) message += fmt::format("; and {} more", differences.size() - kShown);
  mismatch(message);
}

/// What the metadata of a checkpoint says.
struct Progress {
  double lr = 0;
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> param_steps;
  std::vector<std::uint8_t> gates;
  std::vector<std::pair<std::string, std::string>> extra;
};

class MetadataReader {
 public:
  MetadataReader(std::string path, const std::vector<std::pair<std::string, std::string>>& metadata)
      : path_(std::move(path)), items_(metadata.begin(), metadata.end()) {}

  bool has(const std::string& key) const { return items_.contains(key); }
  /// Removes and returns the value of `key`, or nullopt.
  std::optional<std::string> take(const std::string& key) {
    const auto found = items_.find(key);
    if (found == items_.end()) return std::nullopt;
    std::string value = std::move(found->second);
    items_.erase(found);
    return value;
  }
  template <class T>
  T number(const std::string& key) {
    const std::optional<std::string> text = take(key);
    if (!text) mismatch(fmt::format("{}: the metadata has no \"{}\"", path_, key));
    const std::optional<T> value = parse<T>(*text);
    if (!value) mismatch(fmt::format("{}: metadata \"{}\" is \"{}\", expected a number", path_, key, *text));
    return *value;
  }
  void expect(const std::string& key, std::string_view wanted) {
    const std::optional<std::string> text = take(key);
    if (text && *text == wanted) return;
    mismatch(fmt::format("{}: {} is {}, expected \"{}\"", path_, key, text ? '"' + *text + '"' : "not given", wanted));
  }
  const std::map<std::string, std::string>& rest() const { return items_; }

 private:
  std::string path_;
  std::map<std::string, std::string> items_;
};

// Steps can be counted on from there.
constexpr std::int64_t kMostSteps = std::int64_t{1} << 62;

void check_steps(const std::string& source, std::int64_t steps) {
  if (steps >= 0 && steps <= kMostSteps) return;
  mismatch(fmt::format("{}: the number of steps is {}, expected 0 to {}", source, steps, kMostSteps));
}

Progress read_progress(const std::string& path, const std::vector<std::pair<std::string, std::string>>& metadata,
                       const OptimizerRule& optimizer, const std::vector<std::string>& names) {
  MetadataReader reader(path, metadata);
  reader.expect("format", kFormat);
  reader.expect("version", kVersion);
  reader.expect("optimizer", optimizer.name());
  Progress out;
  out.lr = reader.number<double>("lr");
  if (!optim::non_negative_in_f32(out.lr)) mismatch(fmt::format("{}: the learning rate is {}", path, out.lr));
  out.steps = reader.number<std::int64_t>("steps");
  check_steps(path, out.steps);
  if (reader.has("seed")) out.seed = reader.number<std::uint64_t>("seed");
  for (const std::string& name : names) {
    if (!reader.has(key_of(kSteps, name))) {
      mismatch(fmt::format("{}: parameter \"{}\" is trained here, and was not in the checkpoint", path, name));
    }
    const auto count = reader.number<std::int64_t>(key_of(kSteps, name));
    if (count < 0 || count > out.steps) {
      mismatch(fmt::format("{}: {} steps of parameter \"{}\", expected 0 to {}", path, count, name, out.steps));
    }
    out.param_steps.push_back(count);
    out.gates.push_back(reader.take(key_of(kFrozen, name)) ? 0 : 1);
  }
  for (const auto& [key, value] : reader.rest()) {
    if (const auto param = named(kSteps, key)) {
      mismatch(fmt::format("{}: parameter \"{}\" is not trained here, and was in the checkpoint", path, *param));
    }
  }
  for (const auto& [key, value] : reader.rest()) {
    const auto name = named(kExtra, key);
    if (!name) mismatch(fmt::format("{}: metadata \"{}\" is not of this trainer", path, key));
    out.extra.emplace_back(*name, value);
  }
  return out;
}

}  // namespace

NamedArrays ResidentTrainer::params() const {
  NamedArrays values;
  for (const std::string& name : state_->names()) values.emplace_back(name, state_->memory.download(name));
  return values;
}

Array ResidentTrainer::param(const std::string& name) const {
  check_param(state_->programs.front()->forward, name);
  return state_->memory.download(name);
}

NamedArrays ResidentTrainer::averages() const {
  train::require_averages(state_->update);
  NamedArrays values;
  for (const std::string& name : state_->names()) {
    values.emplace_back(name, state_->memory.download(train::average_state(name)));
  }
  return values;
}

void ResidentTrainer::set_params(const Inputs& values) {
  const Graph& graph = state_->programs.front()->forward;
  std::unordered_set<std::string_view> seen;
  for (const auto& [name, value] : values) {
    check_param(graph, name);
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::duplicate_name, fmt::format("two values for parameter \"{}\"", name));
    }
    state_->memory.check_upload(name, value);
  }
  for (const auto& [name, value] : values) {
    state_->memory.upload(name, value);
    if (state_->block.find(name) >= 0) state_->restart_average(name, value);
  }
}

OptimizerState ResidentTrainer::optimizer_state() const {
  OptimizerState out{{}, state_->block.steps, state_->block.param_steps, state_->optimizer->name()};
  for (std::size_t i = 0; i < state_->names().size(); ++i) {
    const std::string& name = state_->names()[i];
    for (const OptimizerSlot& slot : state_->slots_of(i)) {
      out.entries.push_back({name, slot.name, state_->memory.download(train::slot_state(name, slot.name))});
    }
  }
  if (state_->update.loss_scaling) out.loss_scale = train::loss_scale_of(state_->memory);
  return out;
}

void ResidentTrainer::restore_optimizer_state(const OptimizerState& given) {
  train::check_nothing_pending(state_->pending);
  const std::vector<std::string>& names = state_->names();
  const std::string mine = state_->optimizer->name();
  if (!given.optimizer.empty() && given.optimizer != mine) {
    mismatch(fmt::format("optimizer state: of optimizer \"{}\", expected one of \"{}\"", given.optimizer, mine));
  }
  std::map<std::pair<std::string, std::string>, const Array*> entries;
  for (const OptimizerState::Entry& entry : given.entries) {
    if (entries.emplace(std::pair(entry.param, entry.slot), &entry.value).second) continue;
    mismatch(fmt::format("optimizer state: two entries for slot \"{}\" of parameter \"{}\"", entry.slot, entry.param));
  }
  std::vector<std::pair<std::string, const Array*>> values;  // by state
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const OptimizerSlot& slot : state_->slots_of(i)) {
      const auto found = entries.find({names[i], slot.name});
      if (found == entries.end()) {
        mismatch(fmt::format("optimizer state: slot \"{}\" of parameter \"{}\" is missing", slot.name, names[i]));
      }
      if (found->second->type() != slot.type) {
        mismatch(fmt::format("optimizer state: slot \"{}\" of parameter \"{}\" is {}, expected {}", slot.name, names[i],
                             to_string(found->second->type()), to_string(slot.type)));
      }
      values.emplace_back(train::slot_state(names[i], slot.name), found->second);
      entries.erase(found);
    }
  }
  if (!entries.empty()) {
    const auto& [param, slot] = entries.begin()->first;
    mismatch(fmt::format("optimizer state: slot \"{}\" of parameter \"{}\" is none of this trainer's", slot, param));
  }
  if (given.loss_scale.has_value() != state_->update.loss_scaling.has_value()) {
    mismatch(fmt::format("optimizer state: {} loss scale, the trainer has {}", given.loss_scale ? "with a" : "without",
                         given.loss_scale ? "none" : "one"));
  }
  if (given.loss_scale) check_loss_scale("optimizer state", *given.loss_scale, state_->update);
  if (given.param_steps.size() != state_->names().size()) {
    mismatch(fmt::format("optimizer state: step counts of {} parameters, expected {}", given.param_steps.size(),
                         state_->names().size()));
  }
  check_steps("optimizer state", given.steps);
  for (std::size_t i = 0; i < given.param_steps.size(); ++i) {
    if (given.param_steps[i] >= 0 && given.param_steps[i] <= given.steps) continue;
    mismatch(fmt::format("optimizer state: {} steps of parameter \"{}\", expected 0 to {}", given.param_steps[i],
                         state_->names()[i], given.steps));
  }

  for (const auto& [state, value] : values) state_->memory.upload(state, *value);
  if (given.loss_scale) train::set_loss_scale(state_->memory, *given.loss_scale);
  state_->block.steps = given.steps;
  state_->block.param_steps = given.param_steps;
}

void ResidentTrainer::save(const std::string& path,
                           const std::vector<std::pair<std::string, std::string>>& extra) const {
  if (state_->pending > 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} micro-batches are pending, and a checkpoint does not hold their gradients: save after "
                    "step_accumulated or drop_accumulation",
                    path, state_->pending));
  }
  std::vector<std::pair<std::string, std::string>> metadata{{"format", std::string(kFormat)},
                                                            {"version", std::string(kVersion)},
                                                            {"optimizer", state_->optimizer->name()},
                                                            {"lr", fmt::format("{}", state_->block.lr())},
                                                            {"steps", fmt::format("{}", state_->block.steps)},
                                                            {"seed", fmt::format("{}", state_->block.seed)}};
  for (std::size_t i = 0; i < state_->names().size(); ++i) {
    const std::string& name = state_->names()[i];
    metadata.emplace_back(key_of(kSteps, name), fmt::format("{}", state_->block.param_steps[i]));
    if (state_->block.gates[i] == 0) metadata.emplace_back(key_of(kFrozen, name), "1");
  }
  std::unordered_set<std::string_view> seen;
  for (const auto& [key, value] : extra) {
    if (!seen.insert(key).second) {
      throw Error(ErrorCode::duplicate_name, fmt::format("{}: two extra values called \"{}\"", path, key));
    }
    metadata.emplace_back(key_of(kExtra, key), value);
  }

  NamedArrays values;
  std::vector<std::pair<std::string, ArrayView>> tensors;
  values.reserve(state_->checkpoint_tensors.size());
  for (const CheckpointTensor& tensor : state_->checkpoint_tensors) {
    values.emplace_back(tensor.in_file, state_->memory.download(tensor.resident));
    tensors.emplace_back(tensor.in_file, values.back().second);
  }
  io::write_safetensors(path, tensors, metadata);
}

std::vector<std::pair<std::string, std::string>> ResidentTrainer::load(const std::string& path) {
  const io::SafeTensors file = io::read_safetensors(path);
  Progress progress = read_progress(path, file.metadata, *state_->optimizer, state_->names());
  const auto holds = [&](const std::string& name) {
    return find(file.tensors, name) && !is_param(state_->programs.front()->forward, name);
  };
  check_kept(path, "averages of the parameters", holds("average/" + state_->names()[0]),
             state_->update.ema_decay.has_value(), "UpdateOptions::ema_decay");
  check_kept(path, "numbers of loss scaling", holds(std::string(train::kLossScale)),
             state_->update.loss_scaling.has_value(), "UpdateOptions::loss_scaling (implied by precisions in f16)");
  check_tensors(path, state_->checkpoint_tensors, file.tensors);
  if (state_->update.loss_scaling) {
    check_loss_scale(path,
                     {find(file.tensors, train::kLossScale)->as<float>()[0],
                      find(file.tensors, train::kGoodSteps)->as<std::int32_t>()[0]},
                     state_->update);
  }
  std::unordered_map<std::string_view, const Array*> in_file;
  for (const auto& [name, value] : file.tensors) in_file.emplace(name, &value);
  for (const CheckpointTensor& tensor : state_->checkpoint_tensors) {
    state_->memory.check_upload(tensor.resident, *in_file.at(tensor.in_file));
  }

  for (const CheckpointTensor& tensor : state_->checkpoint_tensors) {
    state_->memory.upload(tensor.resident, *in_file.at(tensor.in_file));
  }
  state_->pending = 0;
  state_->block.skips_in_a_row = 0;
  state_->block.set_lr(progress.lr);
  state_->block.steps = progress.steps;
  state_->block.seed = progress.seed;
  state_->block.param_steps = std::move(progress.param_steps);
  std::ranges::copy(progress.gates, state_->block.gates.begin());
  return std::move(progress.extra);
}

}  // namespace wholestep
