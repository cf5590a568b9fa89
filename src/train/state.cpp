#include "train/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "graph/op.h"
#include "passes/passes.h"
#include "runtime/check.h"
#include "runtime/compile.h"
#include "train/gradient_rules.h"
#include "train/step_graph.h"
#include "train/validate.h"

namespace wholestep {
namespace {

using train::CheckpointTensor;
using train::Specialisation;

const TensorType& type_of(const Graph& graph, const std::string& name) { return graph.node(graph.find_id(name)).type; }

std::vector<CheckpointTensor> list_checkpoint_tensors(const Graph& graph, const std::vector<std::string>& names,
                                                      const std::vector<ParameterRule>& rules,
                                                      const UpdateOptions& update) {
  std::vector<CheckpointTensor> tensors;
  for (NodeId id : graph.nodes_of("param"))
    tensors.push_back({graph.node(id).name, graph.node(id).name, graph.node(id).type});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorType& type = type_of(graph, names[i]);
    for (const OptimizerSlot& slot : rules[i].rule->slots(type)) {
      const std::string state = train::slot_state(names[i], slot.name);
      tensors.push_back({"optimizer/" + state, state, slot.type});
    }
    if (!update.ema_decay) continue;
    tensors.push_back({"average/" + names[i], train::average_state(names[i]), train::average_type(type)});
  }
  if (update.loss_scaling) {
    for (const auto& [name, dtype] : {std::pair(train::kLossScale, DType::f32), {train::kGoodSteps, DType::i32}}) {
      tensors.push_back({std::string(name), std::string(name), {dtype, {}}});
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

std::string describe(const std::vector<std::pair<std::string, TensorType>>& inputs) {
  std::vector<std::string> words;
  for (const auto& [name, type] : inputs) words.push_back(fmt::format("\"{}\" {}", name, to_string(type)));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string describe(const Inputs& inputs) {
  std::vector<std::pair<std::string, TensorType>> types;
  for (const auto& [name, view] : inputs) types.emplace_back(name, view.type);
  return describe(types);
}

/// Whether the builder made a graph for the inputs that it was asked to take.
void check_built(const Graph& graph, std::int64_t extent, const Inputs& inputs) {
  for (const auto& [name, view] : inputs) {
    const NodeId id = graph.find_id(name);
    if (id >= 0 && runtime::fits(graph.node(id).type, view)) continue;
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: the graph builder was asked for a leading extent of {}, and its graph {}",
                            graph.name(), extent,
                            id < 0 ? fmt::format("has no input \"{}\"", name)
                                   : fmt::format("takes {} as input \"{}\", where {} is given",
                                                 to_string(graph.node(id).type), name, to_string(view.type))));
  }
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
                              Optimizer rule, Device on, CompileOptions how, UpdateOptions around)
    : device(std::move(on)),
      options(std::move(how)),
      update(train::complete(around, options.precision)),
      optimizer(std::move(rule)),
      rules(train::check_and_choose_rules(graph, trained, initial, optimizer)),
      block(std::move(trained), rules) {
  checkpoint_tensors = list_checkpoint_tensors(graph, names(), rules, update);
  block.set_lr(optimizer->lr());

  add(graph);
  for (const auto& [name, value] : initial) {
    memory().upload(name, value);
    if (block.find(name) >= 0) restart_average(name, value);
  }
  if (update.loss_scaling) {
    memory().upload(std::string(train::kLossScale), Array::scalar(static_cast<float>(update.loss_scaling->initial)));
  }
}

std::vector<OptimizerSlot> ResidentTrainer::State::slots_of(std::size_t i) const {
  return train::slots_with_average(rules[i], type_of(programs.front()->forward, names()[i]), update);
}

std::unique_ptr<runtime::Program> ResidentTrainer::State::compile(const Graph& graph) const {
  CompileOptions as_written = options;
  as_written.precision = Precision::f32;
  auto program = runtime::compile(graph, device, as_written, programs.empty() ? nullptr : &memory());
  block.attach(*program);
  return program;
}

std::unique_ptr<runtime::Program> ResidentTrainer::State::compile_step(const Graph& graph,
                                                                       train::RefreshKinds refreshes) const {
  return compile(train::make_step_graph(graph, names(), rules, update, refreshes));
}

// Gradients follow the casts of the precision policy; the update is none of its business.
Specialisation& ResidentTrainer::State::add(const Graph& graph) {
  auto made = std::make_unique<Specialisation>(graph);
  const Graph precise = passes::apply_precision(graph, options.precision);
  made->step = compile_step(precise, 0);
  // What a step with refreshes would be refused for is refused now.
  if (const train::RefreshKinds all = train::all_refreshes(rules); all != 0) {
    train::make_step_graph(precise, names(), rules, update, all);
  }
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
  check_built(graph, extent, inputs);
  return &add(graph);
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

StepResult ResidentTrainer::State::step(const Inputs& inputs) {
  train::check_nothing_pending(pending);
  Specialisation& chosen = program_for(inputs);
  block.write();
  if (block.due() == 0) return take_step(*chosen.step, inputs);
  chosen.step->check(inputs);
  std::unique_ptr<runtime::Program>& refreshing = chosen.refreshing_steps[block.due()];
  if (!refreshing) refreshing = compile_step(passes::apply_precision(chosen.forward, options.precision), block.due());
  return take_step(*refreshing, inputs);
}

StepResult ResidentTrainer::State::take_step(runtime::Program& program, const Inputs& inputs) {
  StepResult result{program.run(inputs)};
  if (train::may_skip(update)) {
    result.skipped = !result.values.back().as<bool>()[0];
    result.values.pop_back();
  }
  block.count(result.skipped, update);
  return result;
}

double ResidentTrainer::State::loss_scale() const {
  return update.loss_scaling ? memory().download(std::string(train::kLossScale)).item() : 1;
}

float ResidentTrainer::State::accumulate(const Inputs& inputs) {
  if (pending > 0 && !accumulating->accumulate->accepts(inputs)) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{} micro-batches are pending with inputs {}: one of the same types was expected, got {}",
                            pending, describe(accumulating->accumulate->inputs()), describe(inputs)));
  }
  Specialisation& chosen = pending > 0 ? *accumulating : program_for(inputs);
  chosen.step->check(inputs);
  if (!update_by_sums) update_by_sums = compile_update(0);
  if (!chosen.accumulate) {
    const Graph forward = passes::apply_precision(chosen.forward, options.precision);
    auto made = compile(train::make_accumulate_graph(forward, names(), update));
    made->share_state_of(*update_by_sums);
    chosen.accumulate = std::move(made);
  }
  block.write(pending);
  const StepResult result{chosen.accumulate->run(inputs)};
  accumulating = &chosen;
  ++pending;
  return result.loss();
}

std::unique_ptr<runtime::Program> ResidentTrainer::State::compile_update(train::RefreshKinds refreshes) const {
  auto made = compile(train::make_update_graph(programs.front()->forward, names(), rules, update,
                                               train::GradientsFrom::sums, refreshes));
  if (update_by_sums) made->share_state_of(*update_by_sums);
  return made;
}

std::int64_t ResidentTrainer::State::step_accumulated() {
  if (pending == 0) return 0;
  block.write(0, pending);
  runtime::Program* program = update_by_sums.get();
  if (block.due() != 0) {
    std::unique_ptr<runtime::Program>& refreshing = refreshing_updates[block.due()];
    if (!refreshing) refreshing = compile_update(block.due());
    program = refreshing.get();
  }
  const std::int64_t count = std::exchange(pending, 0);
  take_step(*program, {});
  return count;
}

void ResidentTrainer::State::restart_average(const std::string& name, const ArrayView& value) {
  if (!update.ema_decay) return;
  const TensorType& type = type_of(programs.front()->forward, name);
  memory().upload(train::average_state(name), train::as_average(Array::from_bytes(type, value.data, value.bytes)));
}

Graph ResidentTrainer::State::evaluation_graph(const Graph& forward, Weights weights) const {
  if (weights == Weights::average) train::require_averages(update);
  return passes::apply_precision(train::make_evaluation_graph(forward, names(), rules, weights), options.precision);
}

StepResult ResidentTrainer::State::evaluate(const Inputs& inputs, Weights weights) {
  Specialisation& chosen = program_for(inputs);
  std::unique_ptr<runtime::Program>& program = chosen.evaluate[static_cast<std::size_t>(weights)];
  if (!program) {
    chosen.step->check(inputs);
    program = compile(evaluation_graph(chosen.forward, weights));
  }
  block.write();
  return {program->run(inputs)};
}

// The rest of the public interface is one line each.

ResidentTrainer::ResidentTrainer(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial,
                                 Optimizer optimizer, Device device, CompileOptions options, UpdateOptions update)
    : state_(std::make_unique<State>(graph, std::move(train), initial, std::move(optimizer), std::move(device),
                                     std::move(options), update)) {}
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
float ResidentTrainer::accumulate(const Inputs& inputs) { return state_->accumulate(inputs); }
std::int64_t ResidentTrainer::step_accumulated() { return state_->step_accumulated(); }
std::int64_t ResidentTrainer::pending_accumulation() const { return state_->pending; }
std::int64_t ResidentTrainer::drop_accumulation() { return std::exchange(state_->pending, 0); }
std::int64_t ResidentTrainer::skipped_steps() const { return state_->block.skipped_steps; }
double ResidentTrainer::loss_scale() const { return state_->loss_scale(); }

StepResult ResidentTrainer::forward_only(const Inputs& inputs, Weights weights) {
  return state_->evaluate(inputs, weights);
}

std::vector<float> ResidentTrainer::run(std::span<const Inputs> batches) {
  for (const Inputs& batch : batches) state_->program_for(batch).step->check(batch);
  std::vector<float> losses;
  losses.reserve(batches.size());
  for (const Inputs& batch : batches) losses.push_back(state_->step(batch).loss());
  return losses;
}

void ResidentTrainer::set_lr(double lr) { state_->block.set_lr(lr); }
double ResidentTrainer::lr() const { return state_->block.lr(); }
void ResidentTrainer::set_seed(std::uint64_t seed) { state_->block.seed = seed; }
std::uint64_t ResidentTrainer::seed() const { return state_->block.seed; }

bool ResidentTrainer::set_frozen(const std::string& name, bool frozen) {
  const std::int64_t i = state_->block.find(name);
  if (i >= 0) state_->block.gates[static_cast<std::size_t>(i)] = frozen ? 0 : 1;
  return i >= 0;
}

bool ResidentTrainer::is_frozen(const std::string& name) const {
  const std::int64_t i = state_->block.find(name);
  return i >= 0 && state_->block.gates[static_cast<std::size_t>(i)] == 0;
}

const std::vector<std::string>& ResidentTrainer::trainable() const { return state_->names(); }
std::int64_t ResidentTrainer::steps() const { return state_->block.steps; }
const Device& ResidentTrainer::device() const { return state_->device; }
bool ResidentTrainer::is_resident() const { return state_->memory().is_resident(); }
const ProgramStats& ResidentTrainer::stats() const { return state_->memory().stats(); }

std::string ResidentTrainer::explain() const {
  std::string report =
      fmt::format("trains {} parameters with {}{}\n{}", state_->names().size(), state_->optimizer->name(),
                  train::describe(state_->update), state_->memory().explain());
  const auto steps = state_->dataset_steps.find(0);
  if (steps == state_->dataset_steps.end()) return report;
  for (const auto& made : steps->second) {
    report += fmt::format("\non datasets, {} rows a step\n{}", made->rows.size(), made->program->explain());
  }
  return report;
}

}  // namespace wholestep
