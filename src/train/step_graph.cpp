#include "train/step_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "graph/op.h"
#include "optim/rule.h"
#include "passes/rebuild.h"
#include "train/gradient_rules.h"
#include "train/step_inputs.h"
#include "train/update.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::train {
namespace {

constexpr std::string_view kAverage = "average";

Gradients append_backward(Graph& graph, const std::vector<std::string>& train, const UpdateOptions& options) {
  Gradients out;
  std::vector<NodeId> updated;
  for (const Update& update : graph.updates()) updated.push_back(update.target);
  std::ranges::sort(updated);
  for (const std::string& name : train) {
    out.params.push_back(graph.find(name));
    if (std::ranges::binary_search(updated, out.params.back().id())) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: \"{}\" is to be trained, but the graph updates it itself", graph.name(), name));
    }
  }
  const Tensor loss = graph.tensor(graph.outputs()[0]);
  if (options.loss_scaling) out.loss_scale = out.divisor = declare_loss_scale(graph);
  const Tensor cotangent =
      out.loss_scale.valid() ? cast(out.loss_scale, loss.dtype()) : graph.constant(1.0, loss.dtype());
  for (Tensor grad : append_gradients(graph, loss, cotangent, out.params)) {
    out.grads.push_back(cast(grad, optim::update_dtype(grad.dtype())));
  }
  out.curvatures.resize(out.params.size());
  return out;
}

// Hutchinson's estimate of the Hessian's diagonal, u * (H u) with random signs u: H u is the gradient of the sum of all
// <gradient, u>.
void append_curvatures(Graph& graph, const std::vector<ParameterRule>& rules, Gradients& gradients) {
  std::vector<Tensor> wanted, signs;
  std::vector<std::size_t> positions;
  Tensor sum;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].rule->needs_curvature()) continue;
    const Tensor grad = gradients.grads[i];
    const Shape shape = grad.shape();
    const std::string name = graph.node(gradients.params[i].id()).name;
    const Tensor negative = less(random_uniform(nn::step_seed(graph), shape, stream_of(name)), 0.5);
    const Tensor one = graph.full(shape, 1, grad.dtype());
    signs.push_back(select(negative, -one, one));
    const Tensor product = reduce_sum(grad * signs.back());
    sum = sum.valid() ? sum + cast(product, sum.dtype()) : product;
    wanted.push_back(gradients.params[i]);
    positions.push_back(i);
  }
  if (wanted.empty()) return;
  const std::vector<Tensor> products = append_gradients(graph, sum, graph.constant(1.0, sum.dtype()), wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    gradients.curvatures[positions[i]] = cast(products[i], signs[i].dtype()) * signs[i];
  }
}

// The graph's own states take no value that comes of a batch whose gradients are not finite.
void guard_own_updates(Graph& graph, const Gradients& gradients, const UpdateOptions& options) {
  if (!may_skip(options) || graph.updates().empty()) return;
  const Tensor yes = graph.constant(1, DType::boolean);
  gate_updates(graph, all_finite(gradients.grads, std::vector<Tensor>(gradients.grads.size(), yes)));
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

RefreshKinds all_refreshes(const std::vector<ParameterRule>& rules) {
  int most = 0;
  for (const ParameterRule& chosen : rules) most = std::max(most, chosen.rule->refresh_kinds());
  return (RefreshKinds{1} << most) - 1;
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

std::string average_state(std::string_view param) { return slot_state(param, kAverage); }
TensorType average_type(const TensorType& param) { return {optim::update_dtype(param.dtype), param.shape}; }
Array as_average(const Array& value) {
  const TensorType type = average_type(value.type());
  return value.type() == type ? value : Array::from_doubles(type, value.to_doubles());
}
std::vector<OptimizerSlot> slots_with_average(const ParameterRule& chosen, const TensorType& param,
                                              const UpdateOptions& update) {
  std::vector<OptimizerSlot> slots = chosen.rule->slots(param);
  if (update.ema_decay) slots.push_back({std::string(kAverage), average_type(param)});
  return slots;
}
std::string sum_state(std::string_view param) { return fmt::format("{}/gradient_sum", param); }
std::string curvature_sum_state(std::string_view param) { return fmt::format("{}/curvature_sum", param); }
std::string curvature_input(std::string_view param) { return fmt::format("curvature/{}", param); }
std::string gradient_input(std::string_view param) { return fmt::format("gradient/{}", param); }

bool may_skip(const UpdateOptions& update) { return update.skip_non_finite || update.loss_scaling; }

Graph make_step_graph(const Graph& forward, const std::vector<std::string>& train,
                      const std::vector<ParameterRule>& rules, const UpdateOptions& update, RefreshKinds refreshes) {
  Graph graph = in_mode(forward, true);
  for (const std::string_view name : {kCount, kContinues}) reserve(graph, std::string(name), "accumulation");
  for (const std::string& name : train) {
    for (const std::string& sum : {sum_state(name), curvature_sum_state(name)}) {
      reserve(graph, sum, fmt::format("a sum over micro-batches of \"{}\"", name));
    }
  }
  Gradients gradients = append_backward(graph, train, update);
  if (refreshes != 0) append_curvatures(graph, rules, gradients);
  append_update(graph, rules, update, refreshes, std::move(gradients));
  return graph;
}

Graph make_gradient_graph(const Graph& forward, const std::vector<std::string>& train,
                          const std::vector<ParameterRule>& rules, const UpdateOptions& update,
                          RefreshKinds refreshes) {
  Graph graph = in_mode(forward, true);
  Gradients gradients = append_backward(graph, train, update);
  guard_own_updates(graph, gradients, update);
  if (refreshes != 0) append_curvatures(graph, rules, gradients);
  std::vector<Tensor> outputs;
  for (NodeId id : graph.outputs()) outputs.push_back(graph.tensor(id));
  outputs.insert(outputs.end(), gradients.grads.begin(), gradients.grads.end());
  std::ranges::copy_if(gradients.curvatures, std::back_inserter(outputs), &Tensor::valid);
  graph.set_outputs(outputs);
  return graph;
}

Graph make_accumulate_graph(const Graph& forward, const std::vector<std::string>& train,
                            const std::vector<ParameterRule>& rules, const UpdateOptions& update, bool curvatures) {
  Graph graph = in_mode(forward, true);
  Gradients gradients = append_backward(graph, train, update);
  guard_own_updates(graph, gradients, update);
  if (curvatures) append_curvatures(graph, rules, gradients);
  const Tensor continues = declare_input(graph, std::string(kContinues), {}, DType::boolean);
  const auto add_up = [&](const std::string& state, Tensor value) {
    const Tensor sum = graph.state(state, value.shape(), value.dtype());
    graph.set_update(sum, select(broadcast(continues, value.shape()), sum + value, value));
  };
  for (std::size_t i = 0; i < train.size(); ++i) {
    add_up(sum_state(train[i]), gradients.grads[i]);
    if (gradients.curvatures[i].valid()) add_up(curvature_sum_state(train[i]), gradients.curvatures[i]);
  }
  return graph;
}

Graph make_update_graph(const Graph& forward, const std::vector<std::string>& train,
                        const std::vector<ParameterRule>& rules, const UpdateOptions& update, GradientsFrom from,
                        RefreshKinds refreshes) {
  Graph graph(forward.name() + " update");
  const auto given = [&](const std::string& sum, const std::string& input, const TensorType& type) {
    return from == GradientsFrom::sums ? graph.state(sum, type.shape, type.dtype)
                                       : graph.input(input, type.shape, type.dtype);
  };
  Gradients gradients;
  for (const std::string& name : train) {
    const TensorType& type = forward.node(forward.find_id(name)).type;
    gradients.params.push_back(graph.param(name, type.shape, type.dtype));
    gradients.grads.push_back(
        given(sum_state(name), gradient_input(name), {optim::update_dtype(type.dtype), type.shape}));
  }
  gradients.curvatures.resize(gradients.params.size());
  for (std::size_t i = 0; i < train.size(); ++i) {
    if (refreshes == 0 || !rules[i].rule->needs_curvature()) continue;
    const TensorType type = gradients.grads[i].type();
    gradients.curvatures[i] = given(curvature_sum_state(train[i]), curvature_input(train[i]), type);
  }
  gradients.divisor = declare_input(graph, std::string(kCount), {}, DType::f32);
  if (update.loss_scaling) {
    gradients.loss_scale = declare_loss_scale(graph);
    gradients.divisor = gradients.divisor * gradients.loss_scale;
  }
  append_update(graph, rules, update, refreshes, std::move(gradients));
  return graph;
}

namespace {

// What `weights` has evaluation use for parameter `param`.
Tensor evaluation_value(Graph& graph, Tensor param, const OptimizerRule& rule, Weights weights) {
  const std::string name = graph.node(param.id()).name;
  if (weights == Weights::average) {
    const TensorType type = average_type(param.type());
    const Tensor average = graph.state(average_state(name), type.shape, type.dtype);
    return cast(average, param.dtype());
  }
  const auto with_slots = [&](Graph& to, Tensor value) {
    std::vector<Tensor> slots;
    for (const OptimizerSlot& slot : rule.slots(value.type())) {
      slots.push_back(to.state(slot_state(name, slot.name), slot.type.shape, slot.type.dtype));
    }
    return rule.evaluation_value(to, value, slots);
  };
  Graph trial;  // most rules evaluate the parameter itself: then the program need not know of the slots
  const Tensor alone = trial.param(name, param.shape(), param.dtype());
  return with_slots(trial, alone).id() == alone.id() ? param : with_slots(graph, param);
}

}  // namespace

Graph make_evaluation_graph(const Graph& forward, const std::vector<std::string>& train,
                            const std::vector<ParameterRule>& rules, Weights weights) {
  Graph graph = in_mode(forward, false);
  graph.clear_updates();
  passes::Rebuild rebuild(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const auto found = std::ranges::find(train, graph.node(id).name);
    Tensor value = rebuild.copy(id);
    if (graph.node(id).op->name == "param" && found != train.end()) {
      value =
          evaluation_value(rebuild.to(), value, *rules[static_cast<std::size_t>(found - train.begin())].rule, weights);
    }
    rebuild.set(id, value);
  }
  return rebuild.finish();
}

}  // namespace wholestep::train
