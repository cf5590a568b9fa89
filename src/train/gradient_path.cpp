#include "train/gradient_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/op.h"
#include "passes/passes.h"
#include "runtime/compile.h"
#include "train/explain.h"
#include "train/gradient_rules.h"
#include "train/step_graph.h"
#include "train/validate.h"

namespace wholestep::train {
namespace {

// Where the update of a model on `device` runs.
Device host_of(const Device& device) {
  return device.name == "cpu" || device.name == "reference" ? device : Device::cpu();
}

}  // namespace

GradientPath::GradientPath(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial,
                           Optimizer optimizer, Device device, CompileOptions options, UpdateOptions update)
    : forward_(passes::apply_precision(graph, options.precision)),
      device_(std::move(device)),
      options_(std::move(options)),
      update_(complete(update, options_.precision)),
      rules_(check_and_choose_rules(graph, train, initial, optimizer)),
      optimizer_(std::move(optimizer)),
      block_(std::move(train), rules_) {
  options_.precision = Precision::f32;
  block_.set_lr(optimizer_->lr());
  // The names that the fused step reserves are reserved here too.
  make_step_graph(forward_, block_.names(), rules_, update_);
  gradients_ = compile(make_gradient_graph(forward_, block_.names(), rules_, update_), device_);
  update_program_ =
      compile(make_update_graph(forward_, block_.names(), rules_, update_, GradientsFrom::inputs), host_of(device_));
  for (const auto& [name, value] : initial) {
    gradients_->residents().upload(name, value);
    if (block_.find(name) < 0) continue;
    update_program_->residents().upload(name, value);
    if (update_.ema_decay) update_program_->residents().upload(average_state(name), as_average(value));
  }
  if (!update_.loss_scaling) return;
  update_program_->residents().upload(std::string(kLossScale),
                                      Array::scalar(static_cast<float>(update_.loss_scaling->initial)));
  upload_from_host(std::string(kLossScale));
}

std::unique_ptr<runtime::Program> GradientPath::compile(const Graph& graph, const Device& device) const {
  auto program = runtime::compile(graph, device, options_);
  block_.attach(*program);
  return program;
}

void GradientPath::upload_from_host(const std::string& name) {
  gradients_->residents().upload(name, update_program_->residents().download(name));
}

runtime::Program& GradientPath::gradient_program() {
  const bool curved = std::ranges::any_of(rules_, [](const auto& chosen) { return chosen.rule->needs_curvature(); });
  if (block_.due() == 0 || !curved) return *gradients_;
  std::unique_ptr<runtime::Program>& made = refreshing_gradients_[block_.due()];
  if (!made) {
    auto program = compile(make_gradient_graph(forward_, block_.names(), rules_, update_, block_.due()), device_);
    program->share_state_of(*gradients_);
    made = std::move(program);
  }
  return *made;
}

runtime::Program& GradientPath::update_program() {
  if (block_.due() == 0) return *update_program_;
  std::unique_ptr<runtime::Program>& made = refreshing_updates_[block_.due()];
  if (!made) {
    auto program =
        compile(make_update_graph(forward_, block_.names(), rules_, update_, GradientsFrom::inputs, block_.due()),
                host_of(device_));
    program->share_state_of(*update_program_);
    made = std::move(program);
  }
  return *made;
}

bool GradientPath::update(std::span<const Array> grads, std::span<const Array> curvatures, std::int64_t count) {
  block_.write(0, count);
  Inputs inputs;
  for (std::size_t i = 0, next = 0; next < curvatures.size(); ++i) {
    if (needs_curvature(i)) inputs.emplace_back(curvature_input(block_.names()[i]), curvatures[next++]);
  }
  for (std::size_t i = 0; i < grads.size(); ++i) inputs.emplace_back(gradient_input(block_.names()[i]), grads[i]);
  const std::vector<Array> outputs = update_program().run(inputs);
  for (const std::string& name : block_.names()) upload_from_host(name);
  if (update_.loss_scaling) upload_from_host(std::string(kLossScale));
  const bool skipped = may_skip(update_) && !outputs.back().as<bool>()[0];
  block_.count(skipped, update_);
  return skipped;
}

StepResult GradientPath::step(const Inputs& inputs) {
  check_nothing_pending(pending_);
  block_.write();
  StepResult result{gradient_program().run(inputs)};
  const std::size_t first = forward_.outputs().size(), count = block_.names().size();
  const std::span<const Array> given(result.values);
  result.skipped = update(given.subspan(first, count), given.subspan(first + count), 1);
  result.values.resize(first);
  return result;
}

float GradientPath::accumulate(const Inputs& inputs) {
  const bool curvatures = block_.wants_curvature();
  std::unique_ptr<runtime::Program>& program = accumulate_[curvatures ? 1 : 0];
  if (!program) {
    auto made = compile(make_accumulate_graph(forward_, block_.names(), rules_, update_, curvatures), device_);
    made->share_state_of(*gradients_);
    program = std::move(made);
  }
  block_.write(pending_);
  const StepResult result{program->run(inputs)};
  ++pending_;
  return result.loss();
}

std::int64_t GradientPath::step_accumulated() {
  if (pending_ == 0) return 0;
  const std::int64_t count = std::exchange(pending_, 0);
  const bool curved = block_.wants_curvature();
  const runtime::Residents& from = accumulate_[curved ? 1 : 0]->residents();
  std::vector<Array> sums, curvatures;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const std::string& name = block_.names()[i];
    sums.push_back(from.download(sum_state(name)));
    if (curved && needs_curvature(i)) curvatures.push_back(from.download(curvature_sum_state(name)));
  }
  update(sums, curvatures, count);
  return count;
}

double GradientPath::loss_scale() const {
  return update_.loss_scaling ? loss_scale_of(update_program_->residents()).scale : 1;
}

NamedArrays GradientPath::averages() const {
  require_averages(update_);
  NamedArrays values;
  for (const std::string& name : block_.names()) {
    values.emplace_back(name, update_program_->residents().download(average_state(name)));
  }
  return values;
}

OptimizerState GradientPath::optimizer_state() const {
  OptimizerState out{{}, block_.steps, block_.param_steps, optimizer_->name()};
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    const std::string& name = block_.names()[i];
    for (const OptimizerSlot& slot :
         slots_with_average(rules_[i], forward_.node(forward_.find_id(name)).type, update_)) {
      out.entries.push_back({name, slot.name, update_program_->residents().download(slot_state(name, slot.name))});
    }
  }
  if (update_.loss_scaling) out.loss_scale = loss_scale_of(update_program_->residents());
  return out;
}

std::string GradientPath::explain() const {
  OtherPrograms others;
  for (const auto& [refreshes, program] : refreshing_gradients_) {
    others.add("gradients" + with_refreshes(refreshes), program.get());
  }
  for (std::size_t i = 0; i < accumulate_.size(); ++i) {
    others.add("accumulate" + with_curvatures(i != 0), accumulate_[i].get());
  }
  for (const auto& [refreshes, program] : refreshing_updates_) {
    others.add("update" + with_refreshes(refreshes), program.get());
  }
  return fmt::format("gradients of {} parameters on the device\n{}update with {} on the host\n{}{}", rules_.size(),
                     gradients_->explain(), optimizer_->name(), update_program_->explain(), others.text());
}

}  // namespace wholestep::train
