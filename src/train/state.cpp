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

}  // namespace

namespace train {

bool Specialisation::accepts(const Inputs& given) const {
  return given.size() == inputs.size() && std::ranges::all_of(given, [&](const auto& value) {
           const auto input = std::ranges::find(inputs, value.first, &std::pair<std::string, TensorType>::first);
           return input != inputs.end() && runtime::fits(input->second, value.second);
         });
}

}  // namespace train

ResidentTrainer::State::State(const Graph& graph, std::vector<std::string> trained, const NamedArrays& initial,
                              Optimizer rule, Device on, CompileOptions how, UpdateOptions around)
    : device(std::move(on)),
      options(std::move(how)),
      update(train::complete(around, options.precision)),
      optimizer(std::move(rule)),
      rules(train::check_and_choose_rules(graph, trained, initial, optimizer)),
      block(std::move(trained), rules),
      memory(graph.name(), backend::open(device)) {
  checkpoint_tensors = list_checkpoint_tensors(graph, names(), rules, update);
  block.set_lr(optimizer->lr());

  add(graph);
  for (const auto& [name, value] : initial) {
    memory.upload(name, value);
    if (block.find(name) >= 0) restart_average(name, value);
  }
  if (update.loss_scaling) {
    memory.upload(train::kLossScale, Array::scalar(static_cast<float>(update.loss_scaling->initial)));
  }
}

std::vector<OptimizerSlot> ResidentTrainer::State::slots_of(std::size_t i) const {
  return train::slots_with_average(rules[i], type_of(programs.front()->forward, names()[i]), update);
}

std::unique_ptr<runtime::Program> ResidentTrainer::State::compile(const Graph& graph) {
  CompileOptions as_written = options;
  as_written.precision = Precision::f32;
  auto program = runtime::compile(graph, device, as_written, &memory);
  block.attach(*program);
  return program;
}

Graph ResidentTrainer::State::step_graph(const Graph& graph, train::RefreshKinds refreshes) const {
  return train::make_step_graph(graph, names(), rules, update, refreshes);
}

// Gradients follow the casts of the precision policy; the update is none of its business.
runtime::Program& ResidentTrainer::State::step_of(Specialisation& program, train::RefreshKinds refreshes) {
  std::unique_ptr<runtime::Program>& made = program.steps[refreshes];
  if (!made) made = compile(step_graph(passes::apply_precision(program.forward, options.precision), refreshes));
  return *made;
}

// What a step, with refreshes or without, would be refused for is refused now.
Specialisation& ResidentTrainer::State::add(const Graph& graph) {
  const Graph precise = passes::apply_precision(graph, options.precision);
  const Graph step = step_graph(precise, 0);
  verify(step);
  if (const train::RefreshKinds all = train::all_refreshes(rules); all != 0) verify(step_graph(precise, all));
  for (const std::string_view kind : {"param", "state"}) {
    for (const NodeId id : step.nodes_of(kind)) memory.add(step.node(id).name, step.node(id).type);
  }
  return *programs.emplace_back(std::make_unique<Specialisation>(graph));
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
  if (extent == 0) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("{}: inputs {}: no examples, at least one was expected",
                                                       programs.front()->forward.name(), describe(inputs)));
  }
  const Graph graph = builder(extent);
  train::check_loss(graph);
  train::check_same_model(programs.front()->forward, graph);
  check_built(graph, extent, inputs);
  return &add(graph);
}

Specialisation& ResidentTrainer::State::program_for(const Inputs& inputs) {
  if (programs.size() == 1 && !builder) return *programs.front();
  if (programs[current]->accepts(inputs)) return *programs[current];
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!programs[i]->accepts(inputs)) continue;
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
  return take_step(step_of(chosen, block.due()), inputs);
}

// Where only the number of examples is another, the refusal says how a trainer takes it.
std::vector<Array> ResidentTrainer::State::run(runtime::Program& program, const Inputs& inputs) {
  try {
    return program.run(inputs);
  } catch (const Error& error) {
    const bool shape = error.code() == ErrorCode::shape_mismatch || error.code() == ErrorCode::wrong_length;
    if (!shape || builder || leading_extent(inputs) < 0) throw;
    throw Error(error.code(),
                fmt::format("{}; for other numbers of examples give the trainer a graph by set_graph_builder or "
                            "specialise",
                            error.what()));
  }
}

StepResult ResidentTrainer::State::take_step(runtime::Program& program, const Inputs& inputs) {
  StepResult result{run(program, inputs)};
  if (train::may_skip(update)) {
    result.skipped = !result.values.back().as<bool>()[0];
    result.values.pop_back();
  }
  block.count(result.skipped, update);
  return result;
}

std::int64_t ResidentTrainer::State::state_bytes() const {
  std::int64_t total = 0;
  for (const CheckpointTensor& tensor : checkpoint_tensors) total += static_cast<std::int64_t>(num_bytes(tensor.type));
  return total;
}

double ResidentTrainer::State::loss_scale() const {
  return update.loss_scaling ? memory.download(train::kLossScale).item() : 1;
}

float ResidentTrainer::State::accumulate(const Inputs& inputs) {
  if (pending > 0 && !accumulating->accepts(inputs)) {
    for (const std::unique_ptr<runtime::Program>& program : accumulating->accumulate) {
      try {
        if (program) program->check(inputs);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::shape_mismatch && error.code() != ErrorCode::wrong_length) throw;
      }
    }
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{} micro-batches are pending with inputs {}: one of the same types was expected, got {}",
                            pending, describe(accumulating->inputs), describe(inputs)));
  }
  Specialisation& chosen = pending > 0 ? *accumulating : program_for(inputs);
  const bool curvatures = block.wants_curvature();
  std::unique_ptr<runtime::Program>& program = chosen.accumulate[curvatures ? 1 : 0];
  if (!program) {
    const Graph forward = passes::apply_precision(chosen.forward, options.precision);
    program = compile(train::make_accumulate_graph(forward, names(), rules, update, curvatures));
  }
  block.write(pending);
  const StepResult result{run(*program, inputs)};
  accumulating = &chosen;
  ++pending;
  return result.loss();
}

runtime::Program& ResidentTrainer::State::update_by_sums(train::RefreshKinds refreshes) {
  std::unique_ptr<runtime::Program>& made = updates_by_sums[refreshes];
  if (!made) {
    made = compile(train::make_update_graph(programs.front()->forward, names(), rules, update,
                                            train::GradientsFrom::sums, refreshes));
  }
  return *made;
}

std::int64_t ResidentTrainer::State::step_accumulated() {
  if (pending == 0) return 0;
  block.write(0, pending);
  runtime::Program& program = update_by_sums(block.due());
  const std::int64_t count = std::exchange(pending, 0);
  take_step(program, {});
  return count;
}

void ResidentTrainer::State::restart_average(const std::string& name, const ArrayView& value) {
  if (!update.ema_decay) return;
  const TensorType& type = type_of(programs.front()->forward, name);
  memory.upload(train::average_state(name), train::as_average(Array::from_bytes(type, value.data, value.bytes)));
}

Graph ResidentTrainer::State::evaluation_graph(const Graph& forward, Weights weights) const {
  if (weights == Weights::average) train::require_averages(update);
  return passes::apply_precision(train::make_evaluation_graph(forward, names(), rules, weights), options.precision);
}

StepResult ResidentTrainer::State::evaluate(const Inputs& inputs, Weights weights) {
  Specialisation& chosen = program_for(inputs);
  std::unique_ptr<runtime::Program>& program = chosen.evaluate[static_cast<std::size_t>(weights)];
  if (!program) program = compile(evaluation_graph(chosen.forward, weights));
  block.write();
  return {run(*program, inputs)};
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
    if (!std::ranges::is_permutation(program->inputs, train::given_inputs(graph))) continue;
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
  for (const Inputs& batch : batches) state_->step_of(state_->program_for(batch)).check(batch);
  std::vector<float> losses;
  losses.reserve(batches.size());
  for (const Inputs& batch : batches) losses.push_back(state_->step(batch).loss());
  return losses;
}

void ResidentTrainer::set_lr(double lr) { state_->block.set_lr(lr); }
double ResidentTrainer::lr() const { return state_->block.lr(); }
void ResidentTrainer::set_seed(std::uint64_t seed) { state_->block.seed = seed; }
std::uint64_t ResidentTrainer::seed() const { return state_->block.seed; }

void ResidentTrainer::set_frozen(const std::string& name, bool frozen) { state_->block.gate_of(name) = frozen ? 0 : 1; }
bool ResidentTrainer::is_frozen(const std::string& name) const { return state_->block.gate_of(name) == 0; }

const std::vector<std::string>& ResidentTrainer::trainable() const { return state_->names(); }
std::int64_t ResidentTrainer::steps() const { return state_->block.steps; }
const Device& ResidentTrainer::device() const { return state_->device; }
std::int64_t ResidentTrainer::state_bytes() const { return state_->state_bytes(); }
bool ResidentTrainer::is_resident() const {
  return backend::open(state_->device)->consumes() == backend::Consumes::plan;
}
const ProgramStats& ResidentTrainer::stats() const { return state_->step_of(*state_->programs.front()).stats(); }

}  // namespace wholestep
