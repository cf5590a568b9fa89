#include "train/step_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/convert.h"
#include "graph/names.h"
#include "optim/rule.h"
#include "train/gradient_rules.h"
#include "wholestep/nn.h"

namespace wholestep::train {

StepBlock::StepBlock(std::vector<std::string> names, const std::vector<ParameterRule>& rules)
    : param_steps(names.size(), 0), gates(names.size(), 1), names_(std::move(names)), refreshes_(names_.size(), 0) {
  for (std::size_t i = 0; i < names_.size(); ++i) index_.emplace(names_[i], i);
  for (const ParameterRule& chosen : rules) rules_.push_back(chosen.rule);
  for (const std::string& name : scalar_names(rules)) {
    Scalar& made = scalars_.emplace_back(Scalar{scalars_input(name), {}, std::vector<float>(names_.size())});
    for (const OptimizerRule* rule : rules_) {
      auto& value = made.of_param.emplace_back();
      for (StepScalar& scalar : rule->scalars()) {
        if (scalar.name == name) value = std::move(scalar.value);
      }
    }
  }
}

std::int64_t StepBlock::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? -1 : static_cast<std::int64_t>(found->second);
}

std::uint8_t& StepBlock::gate_of(std::string_view name) {
  const std::int64_t i = find(name);
  if (i >= 0) return gates[static_cast<std::size_t>(i)];
  throw Error(ErrorCode::unknown_name,
              fmt::format("no trainable parameter is called \"{}\"; trainable: {}", name, list_names(names_)));
}

void StepBlock::check_lr(double lr) {
  if (optim::non_negative_in_f32(lr)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("learning rate must be finite in f32 and at least 0, got {}", number_text(lr)));
}

void StepBlock::set_lr(double lr) {
  check_lr(lr);
  lr_ = lr;
  lr_input_ = static_cast<float>(lr);
}

void StepBlock::attach(runtime::Program& program) const {
  std::vector<std::pair<std::string, const void*>> block{
      {std::string(kLearningRate), &lr_input_}, {std::string(kGates), gates.data()},
      {std::string(kCount), &count_},           {std::string(kRefreshes), refreshes_.data()},
      {std::string(kContinues), &continues_},   {std::string(nn::kStepSeed), key_.words()}};
  for (const Scalar& scalar : scalars_) block.emplace_back(scalar.input, scalar.values.data());
  for (const auto& [name, address] : block) {
    const auto named = [&](const auto& input) { return input.first == name; };
    if (std::ranges::any_of(program.inputs(), named)) program.attach(name, address);
  }
}

// Neighbours of one rule that were never frozen have the same value: it is computed once.
void StepBlock::write(std::int64_t micro_batch, std::int64_t count) {
  for (Scalar& scalar : scalars_) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (i > 0 && rules_[i] == rules_[i - 1] && param_steps[i] == param_steps[i - 1]) {
        scalar.values[i] = scalar.values[i - 1];
      } else if (scalar.of_param[i]) {
        scalar.values[i] = static_cast<float>(scalar.of_param[i](param_steps[i] + 1));
      }
    }
  }
  due_ = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    refreshes_[i] = gates[i] != 0 ? rules_[i]->refresh_due(param_steps[i] + 1) : 0;
    if (refreshes_[i] != 0) due_ |= RefreshKinds{1} << (refreshes_[i] - 1);
  }
  constexpr int kStepBits = 40;  // of the key; the rest is the micro-batch
  key_.set(seed, steps + (micro_batch << kStepBits));
  continues_ = micro_batch > 0;
  count_ = static_cast<float>(count);
}

bool StepBlock::wants_curvature() const {
  bool needed = false, due = false;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    needed |= rules_[i]->needs_curvature();
    due |= rules_[i]->refresh_due(param_steps[i] + 1) != 0;
  }
  return needed && due;
}

void StepBlock::count(bool skipped, const UpdateOptions& update) {
  ++steps;
  if (!skipped) {
    for (std::size_t i = 0; i < names_.size(); ++i) param_steps[i] += gates[i];
    skips_in_a_row = 0;
    return;
  }
  ++skipped_steps;
  if (++skips_in_a_row < update.most_skips) return;
  throw Error(
      ErrorCode::non_finite,
      fmt::format("{} steps in a row, the last of them step {}, were skipped since a gradient was NaN or infinite; "
                  "parameters and optimizer state are as before them{}",
                  skips_in_a_row, steps, update.loss_scaling ? ", but for the loss scale" : ""));
}

OptimizerState::LossScale loss_scale_of(const runtime::Residents& states) {
  return {states.download(kLossScale).as<float>()[0], states.download(kGoodSteps).as<std::int32_t>()[0]};
}

void set_loss_scale(runtime::Residents& states, const OptimizerState::LossScale& scale) {
  states.upload(kLossScale, Array::scalar(scale.scale));
  states.upload(kGoodSteps, Array::scalar(scale.good_steps));
}

}  // namespace wholestep::train
