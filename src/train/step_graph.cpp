#include "train/step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "train/step_inputs.h"
#include "wholestep/ops.h"

namespace wholestep::train {
namespace {

void reserve(const Graph& graph, const std::string& name, const std::string& purpose) {
  if (graph.find_id(name) < 0) return;
  throw Error(ErrorCode::duplicate_name,
              fmt::format("{}: the name \"{}\" is reserved for {}, but the graph has it", graph.name(), name, purpose));
}

Tensor declare_input(Graph& graph, const std::string& name, Shape shape, DType dtype) {
  reserve(graph, name, "what changes each step");
  return graph.input(name, std::move(shape), dtype);
}

Tensor element(Tensor vector, std::int64_t index) { return reshape(slice(vector, {index}, {index + 1}), {}); }

struct StepBlock {
  Tensor lr;
  Tensor gates;
  std::unordered_map<std::string, Tensor> scalars;  // by name
};

StepBlock declare_step_block(Graph& graph, const std::vector<ParameterRule>& rules) {
  const auto params = static_cast<std::int64_t>(rules.size());
  StepBlock block;
  block.lr = declare_input(graph, std::string(kLearningRate), {}, DType::f32);
  block.gates = declare_input(graph, std::string(kGates), {params}, DType::boolean);
  for (const std::string& name : scalar_names(rules)) {
    block.scalars.emplace(name, declare_input(graph, scalars_input(name), {params}, DType::f32));
  }
  return block;
}

// `target` takes `value` where `gate` is true, and keeps its bits where it is false.
void update_where(Graph& graph, Tensor gate, Tensor target, Tensor value) {
  graph.set_update(target, select(broadcast(gate, target.shape()), value, target));
}

void append_update(Graph& graph, const StepBlock& block, std::int64_t index, Tensor param, Tensor grad,
                   const ParameterRule& chosen) {
  const OptimizerRule& rule = *chosen.rule;
  const std::string name = graph.node(param.id()).name;
  OptimizerArgs args{graph, param, grad, {}, chosen.lr_scale == 1 ? block.lr : block.lr * chosen.lr_scale, {}};
  for (const OptimizerSlot& slot : rule.slots(param.type())) {
    const std::string state = slot_state(name, slot.name);
    reserve(graph, state, fmt::format("slot \"{}\" of parameter \"{}\"", slot.name, name));
    args.slots.push_back(graph.state(state, slot.type.shape, slot.type.dtype));
  }
  for (const StepScalar& scalar : rule.scalars()) {
    args.scalars.push_back(element(block.scalars.at(scalar.name), index));
  }

  const OptimizerResult moved = rule.append(args);
  if (moved.slots.size() != args.slots.size()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("optimizer {}: {} slots declared, {} returned", rule.name(),
                                                         args.slots.size(), moved.slots.size()));
  }
  const Tensor gate = element(block.gates, index);
  update_where(graph, gate, param, moved.param);
  for (std::size_t i = 0; i < args.slots.size(); ++i) update_where(graph, gate, args.slots[i], moved.slots[i]);
}

}  // namespace

std::vector<ParameterRule> rules_of(const OptimizerRule& optimizer, const Graph& forward,
                                    const std::vector<std::string>& train) {
  std::vector<std::pair<std::string, TensorType>> params;
  for (const std::string& name : train) params.emplace_back(name, forward.node(forward.find_id(name)).type);
  optimizer.check_parameters(params);
  std::vector<ParameterRule> rules;
  for (const auto& [name, type] : params) rules.push_back(optimizer.rule_for(name, type));
  return rules;
}

std::string scalars_input(std::string_view name) { return fmt::format("step/{}", name); }

std::vector<std::string> scalar_names(const std::vector<ParameterRule>& rules) {
  std::vector<std::string> names;
  for (const ParameterRule& chosen : rules) {
    for (const StepScalar& scalar : chosen.rule->scalars()) {
      if (std::ranges::find(names, scalar.name) == names.end()) names.push_back(scalar.name);
    }
  }
  return names;
}

std::string slot_state(std::string_view param, std::string_view slot) { return fmt::format("{}/{}", param, slot); }

Graph make_step_graph(const Graph& forward, const std::vector<std::string>& train,
                      const std::vector<ParameterRule>& rules) {
  Graph graph = in_mode(forward, true);
  std::vector<Tensor> params;
  std::vector<NodeId> updated;
  for (const Update& update : graph.updates()) updated.push_back(update.target);
  std::ranges::sort(updated);
  for (const std::string& name : train) {
    params.push_back(graph.find(name));
    if (std::ranges::binary_search(updated, params.back().id())) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: \"{}\" is to be trained, but the graph updates it itself", graph.name(), name));
    }
  }

  const Tensor loss = graph.tensor(graph.outputs()[0]);
  const std::vector<Tensor> grads = append_gradients(graph, loss, graph.constant(1.0, loss.dtype()), params);
  const StepBlock block = declare_step_block(graph, rules);
  for (std::size_t i = 0; i < params.size(); ++i) {
    append_update(graph, block, static_cast<std::int64_t>(i), params[i], grads[i], rules[i]);
  }
  return graph;
}

}  // namespace wholestep::train
