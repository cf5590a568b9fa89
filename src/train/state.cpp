#include "train/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "graph/op.h"
#include "passes/passes.h"
#include "runtime/check.h"
#include "runtime/compile.h"
#include "train/step_graph.h"
#include "train/validate.h"

namespace wholestep {
namespace {

using train::CheckpointTensor;
using train::Specialisation;

const TensorType& type_of(const Graph& graph, const std::string& name) { return graph.node(graph.find_id(name)).type; }

std::vector<CheckpointTensor> list_checkpoint_tensors(const Graph& graph, const std::vector<std::string>& names,
                                                      const std::vector<ParameterRule>& rules) {
  std::vector<CheckpointTensor> tensors;
  for (NodeId id : graph.nodes_of("param"))
    tensors.push_back({graph.node(id).name, graph.node(id).name, graph.node(id).type});
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const OptimizerSlot& slot : rules[i].rule->slots(type_of(graph, names[i]))) {
      const std::string state = train::slot_state(names[i], slot.name);
      tensors.push_back({"optimizer/" + state, state, slot.type});
    }
  }
  for (NodeId id : graph.nodes_of("state")) {
    tensors.push_back({"state/" + graph.node(id).name, graph.node(id).name, graph.node(id).type});
  }
  std::unordered_set<std::string_view> seen;
  for (const CheckpointTensor& tensor : tensors) {
    if (seen.insert(tensor.in_file).second) continue;
    throw Error(ErrorCode::duplicate_name,
                fmt::format("{}: two tensors would be called \"{}\" in a checkpoint", graph.name(), tensor.in_file));
  }
  return tensors;
}

bool takes(const Graph& graph, const Inputs& inputs) {
  return std::ranges::all_of(inputs, [&](const auto& input) {
    const NodeId id = graph.find_id(input.first);
    return id >= 0 && runtime::fits(graph.node(id).type, input.second);
  });
}

bool same_inputs(const Graph& a, const Graph& b) {
  const std::vector<NodeId> of_a = a.nodes_of("input"), of_b = b.nodes_of("input");
  return of_a.size() == of_b.size() && std::ranges::all_of(of_a, [&](NodeId id) {
           const NodeId other = b.find_id(a.node(id).name);
           return other >= 0 && b.node(other).type == a.node(id).type;
         });
}

}  // namespace

ResidentTrainer::State::State(const Graph& graph, std::vector<std::string> trained, const NamedArrays& initial,
                              Optimizer rule, Device on, CompileOptions how)
    : device(std::move(on)), options(std::move(how)), optimizer(std::move(rule)), names(std::move(trained)) {
  train::check_loss(graph);
  train::check_trainable(graph, names);
  train::check_initial(graph, initial);
  if (!optimizer) throw Error(ErrorCode::invalid_argument, fmt::format("{}: no optimizer given", graph.name()));

  for (std::size_t i = 0; i < names.size(); ++i) index.emplace(names[i], i);
  choose_rules(graph);
  checkpoint_tensors = list_checkpoint_tensors(graph, names, rules);
  param_steps.assign(names.size(), 0);
  gates.assign(names.size(), 1);
  set_lr(optimizer->lr());

  add(graph);
  for (const auto& [name, value] : initial) memory().upload(name, value);
}

void ResidentTrainer::State::choose_rules(const Graph& graph) {
  rules = train::rules_of(*optimizer, graph, names);
  for (std::string& name : train::scalar_names(rules)) {
    train::StepScalars& made = scalars.emplace_back();
    for (const ParameterRule& chosen : rules) {
      auto& value = made.of_param.emplace_back();
      for (StepScalar& scalar : chosen.rule->scalars()) {
        if (scalar.name == name) value = std::move(scalar.value);
      }
    }
    made.name = std::move(name);
    made.values.resize(names.size());
  }
}

std::vector<OptimizerSlot> ResidentTrainer::State::slots_of(std::size_t i) const {
  return rules[i].rule->slots(type_of(programs.front()->forward, names[i]));
}

Specialisation& ResidentTrainer::State::add(const Graph& graph) {
  auto made = std::make_unique<Specialisation>(graph);
  const runtime::Program* share = programs.empty() ? nullptr : &memory();
  // Gradients follow the casts of the policy; the update is none of its business.
  CompileOptions as_written = options;
  as_written.precision = Precision::f32;
  const Graph step = train::make_step_graph(passes::apply_precision(graph, options.precision), names, rules);
  made->step = runtime::compile(step, device, as_written, share);
  made->step->attach(std::string(train::kLearningRate), &lr_input);
  made->step->attach(std::string(train::kGates), gates.data());
  key.attach(graph, *made->step);
  for (const train::StepScalars& scalar : scalars) {
    made->step->attach(train::scalars_input(scalar.name), scalar.values.data());
  }
  made->forward.clear_updates();
  return *programs.emplace_back(std::move(made));
}

std::int64_t ResidentTrainer::State::leading_extent(const Inputs& inputs) const {
  const Graph& base = programs.front()->forward;
  std::int64_t leading = -1;
  for (const auto& [name, view] : inputs) {
    const NodeId id = base.find_id(name);
    if (id < 0 || base.node(id).op->name != "input") return -1;
    const TensorType& type = base.node(id).type;
    if (runtime::fits(type, view)) continue;
    if (view.type.dtype != type.dtype || type.shape.empty()) return -1;

    Shape example(type.shape.begin() + 1, type.shape.end());
    const std::int64_t elements = num_elements(example);
    const bool flat = view.type.shape.size() == 1 && !example.empty();
    if (flat && (elements == 0 || view.type.shape[0] % elements != 0)) return -1;
    if (!flat && (view.type.shape.size() != type.shape.size() ||
                  !std::equal(example.begin(), example.end(), view.type.shape.begin() + 1))) {
      return -1;
    }
    const std::int64_t extent = flat ? view.type.shape[0] / elements : view.type.shape[0];
    if (leading >= 0 && extent != leading) return -1;
    leading = extent;
  }
  return leading;
}

Specialisation* ResidentTrainer::State::build_for(const Inputs& inputs) {
  const std::int64_t extent = builder ? leading_extent(inputs) : -1;
  if (extent < 0) return nullptr;
  const Graph graph = builder(extent);
  train::check_loss(graph);
  train::check_same_model(programs.front()->forward, graph);
  return takes(graph, inputs) ? &add(graph) : nullptr;
}

Specialisation& ResidentTrainer::State::program_for(const Inputs& inputs) {
  if (programs.size() == 1 && !builder) return *programs.front();
  if (programs[current]->step->accepts(inputs)) return *programs[current];
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!programs[i]->step->accepts(inputs)) continue;
    current = i;
    return *programs[i];
  }
  if (Specialisation* made = build_for(inputs)) {
    current = programs.size() - 1;
    return *made;
  }
  return *programs.front();  // whose checks say what is wrong
}

// Neighbours of one rule that were never frozen have the same value: it is computed once.
void ResidentTrainer::State::write_step_scalars() {
  for (train::StepScalars& scalar : scalars) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0 && rules[i].rule == rules[i - 1].rule && param_steps[i] == param_steps[i - 1]) {
        scalar.values[i] = scalar.values[i - 1];
      } else if (scalar.of_param[i]) {
        scalar.values[i] = static_cast<float>(scalar.of_param[i](param_steps[i] + 1));
      }
    }
  }
}

StepResult ResidentTrainer::State::step(const Inputs& inputs) {
  runtime::Program& program = *program_for(inputs).step;
  write_step_scalars();
  key.set(seed, steps);
  StepResult result{program.run(inputs)};
  for (std::size_t i = 0; i < names.size(); ++i) param_steps[i] += gates[i];
  ++steps;
  return result;
}

StepResult ResidentTrainer::State::evaluate(const Inputs& inputs) {
  Specialisation& chosen = program_for(inputs);
  if (!chosen.evaluate) {
    chosen.step->check(inputs);
    chosen.evaluate = runtime::compile(train::in_mode(chosen.forward, false), device, options, &memory());
    key.attach(chosen.forward, *chosen.evaluate);
  }
  key.set(seed, steps);
  return {chosen.evaluate->run(inputs)};
}

void ResidentTrainer::State::set_lr(double value) {
  if (!std::isfinite(value) || value < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("learning rate must be finite and at least 0, got {}", value));
  }
  lr = value;
  lr_input = static_cast<float>(value);
}

std::int64_t ResidentTrainer::State::find(std::string_view name) const {
  const auto found = index.find(std::string(name));
  return found == index.end() ? -1 : static_cast<std::int64_t>(found->second);
}

// The rest of the public interface is one line each.

ResidentTrainer::ResidentTrainer(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial,
                                 Optimizer optimizer, Device device, CompileOptions options)
    : state_(std::make_unique<State>(graph, std::move(train), initial, std::move(optimizer), std::move(device),
                                     std::move(options))) {}
ResidentTrainer::ResidentTrainer(ResidentTrainer&&) noexcept = default;
ResidentTrainer& ResidentTrainer::operator=(ResidentTrainer&&) noexcept = default;
ResidentTrainer::~ResidentTrainer() = default;

void ResidentTrainer::specialise(const Graph& graph) {
  train::check_loss(graph);
  train::check_same_model(state_->programs.front()->forward, graph);
  for (const auto& program : state_->programs) {
    if (!same_inputs(program->forward, graph)) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: there is a program for inputs of these types already", graph.name()));
  }
  state_->add(graph);
}

void ResidentTrainer::set_graph_builder(std::function<Graph(std::int64_t batch)> builder) {
  state_->builder = std::move(builder);
}

StepResult ResidentTrainer::step(const Inputs& inputs) { return state_->step(inputs); }
StepResult ResidentTrainer::forward_only(const Inputs& inputs) { return state_->evaluate(inputs); }

std::vector<float> ResidentTrainer::run(std::span<const Inputs> batches) {
  for (const Inputs& batch : batches) state_->program_for(batch).step->check(batch);
  std::vector<float> losses;
  losses.reserve(batches.size());
  for (const Inputs& batch : batches) losses.push_back(state_->step(batch).loss());
  return losses;
}

void ResidentTrainer::set_lr(double lr) { state_->set_lr(lr); }
double ResidentTrainer::lr() const { return state_->lr; }
void ResidentTrainer::set_seed(std::uint64_t seed) { state_->seed = seed; }
std::uint64_t ResidentTrainer::seed() const { return state_->seed; }

bool ResidentTrainer::set_frozen(const std::string& name, bool frozen) {
  const std::int64_t i = state_->find(name);
  if (i >= 0) state_->gates[static_cast<std::size_t>(i)] = frozen ? 0 : 1;
  return i >= 0;
}

bool ResidentTrainer::is_frozen(const std::string& name) const {
  const std::int64_t i = state_->find(name);
  return i >= 0 && state_->gates[static_cast<std::size_t>(i)] == 0;
}

const std::vector<std::string>& ResidentTrainer::trainable() const { return state_->names; }
std::int64_t ResidentTrainer::steps() const { return state_->steps; }
const Device& ResidentTrainer::device() const { return state_->device; }
bool ResidentTrainer::is_resident() const { return state_->memory().is_resident(); }
const ProgramStats& ResidentTrainer::stats() const { return state_->memory().stats(); }

std::string ResidentTrainer::explain() const {
  return fmt::format("trains {} parameters with {}\n{}", state_->names.size(), state_->optimizer->name(),
                     state_->memory().explain());
}

}  // namespace wholestep
