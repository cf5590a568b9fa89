#include "train/update.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/random.h"
#include "graph/op.h"
#include "train/gradient_rules.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::train {
namespace {

Tensor element(Tensor vector, std::int64_t index) { return reshape(slice(vector, {index}, {index + 1}), {}); }

struct BlockInputs {
  Tensor lr;
  Tensor gates;
  std::unordered_map<std::string, Tensor> scalars;  // by name
  Tensor refreshes;                                 // invalid: none is due
};

BlockInputs declare_block(Graph& graph, const std::vector<ParameterRule>& rules, RefreshKinds refreshes) {
  const auto params = static_cast<std::int64_t>(rules.size());
  BlockInputs block;
  if (refreshes != 0) block.refreshes = declare_input(graph, std::string(kRefreshes), {params}, DType::i32);
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

bool has_refresh(const OptimizerRule& rule, RefreshKinds refreshes, int kind) {
  return kind <= rule.refresh_kinds() && (refreshes >> (kind - 1) & 1) != 0;
}

/// Appends to a graph with gradients all that moves parameters.
class UpdateBuilder {
 public:
  UpdateBuilder(Graph& graph, const std::vector<ParameterRule>& rules, const UpdateOptions& options,
                RefreshKinds refreshes)
      : graph_(graph),
        rules_(rules),
        options_(options),
        refreshes_(refreshes),
        block_(declare_block(graph, rules, refreshes)) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      gates_.push_back(element(block_.gates, static_cast<std::int64_t>(i)));
    }
  }

  void append(Gradients gradients) {
    if (gradients.divisor.valid()) {
      const Tensor factor = reciprocal(gradients.divisor);
      for (Tensor& grad : gradients.grads) grad = grad * cast(factor, grad.dtype());
      for (Tensor& curvature : gradients.curvatures) {
        if (curvature.valid()) curvature = curvature * cast(factor, curvature.dtype());
      }
    }
    if (may_skip(options_)) skip_unless_finite(gradients);
    clip(gradients.grads);
    for (std::size_t i = 0; i < rules_.size(); ++i)
      move(i, gradients.params[i], gradients.grads[i], gradients.curvatures[i]);
  }

 private:
  void skip_unless_finite(const Gradients& gradients) {
    const Tensor finite = all_finite(gradients.grads, gates_);
    gate_updates(graph_, finite);
    if (gradients.loss_scale.valid()) {
      reserve(graph_, std::string(kGoodSteps), "the steps since the loss scale moved");
      const Tensor good = graph_.state(std::string(kGoodSteps), {}, DType::i32);
      update_loss_scale(gradients.loss_scale, good, finite, *options_.loss_scaling);
    }
    for (Tensor& gate : gates_) gate = logical_and(gate, finite);
    std::vector<Tensor> outputs;
    for (NodeId id : graph_.outputs()) outputs.push_back(graph_.tensor(id));
    outputs.push_back(finite);
    graph_.set_outputs(outputs);
  }

  void clip(std::vector<Tensor>& grads) {
    if (options_.clip_value) {
      for (Tensor& grad : grads) grad = clip_by_value(grad, *options_.clip_value);
    }
    if (!options_.clip_norm) return;
    const Tensor factor = clip_factor(global_norm(grads, gates_), *options_.clip_norm);
    for (Tensor& grad : grads) grad = grad * cast(factor, grad.dtype());
  }

  // The slots that `append` is to see: those of the refresh that is due.
  std::vector<Tensor> refreshed(std::size_t index, const OptimizerArgs& args, Tensor curvature) {
    const OptimizerRule& rule = *rules_[index].rule;
    const std::string name = graph_.node(args.param.id()).name;
    std::vector<Tensor> slots = args.slots;
    for (int kind = 1; kind <= rule.refresh_kinds(); ++kind) {
      if (!has_refresh(rule, refreshes_, kind)) continue;
      const auto normal = [&](Shape shape) {
        return random_normal(nn::step_seed(graph_), std::move(shape), stream_of(name));
      };
      const std::vector<Tensor> values = rule.append_refresh({args, kind, curvature, normal});
      const Tensor due = equal(element(block_.refreshes, static_cast<std::int64_t>(index)), static_cast<double>(kind));
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (values.at(i).id() == args.slots[i].id()) continue;
        slots[i] = select(broadcast(due, slots[i].shape()), values[i], slots[i]);
      }
    }
    return slots;
  }

  void move(std::size_t index, Tensor param, Tensor grad, Tensor curvature) {
    const OptimizerRule& rule = *rules_[index].rule;
    const double lr_scale = rules_[index].lr_scale;
    const std::string name = graph_.node(param.id()).name;
    OptimizerArgs args{graph_, param, grad, {}, lr_scale == 1 ? block_.lr : block_.lr * lr_scale, {}};
    for (const OptimizerSlot& slot : rule.slots(param.type())) {
      args.slots.push_back(declare_state(slot_state(name, slot.name), slot.type,
                                         fmt::format("slot \"{}\" of parameter \"{}\"", slot.name, name)));
    }
    for (const StepScalar& scalar : rule.scalars()) {
      args.scalars.push_back(element(block_.scalars.at(scalar.name), static_cast<std::int64_t>(index)));
    }
    const std::vector<Tensor> states = args.slots;
    args.slots = refreshed(index, args, curvature);
    const OptimizerResult moved = rule.append(args);
    if (moved.slots.size() != args.slots.size()) {
      throw Error(ErrorCode::invalid_argument, fmt::format("optimizer {}: {} slots declared, {} returned", rule.name(),
                                                           args.slots.size(), moved.slots.size()));
    }
    const Tensor gate = gates_[index];
    update_where(graph_, gate, param, moved.param);
    for (std::size_t i = 0; i < states.size(); ++i) update_where(graph_, gate, states[i], moved.slots[i]);
    if (!options_.ema_decay) return;
    const TensorType type = average_type(param.type());
    const Tensor average =
        declare_state(average_state(name), type, fmt::format("the average of parameter \"{}\"", name));
    // In this form the weights of old and new add up to 1 whatever the rounding of the decay.
    const Tensor difference = cast(moved.param, type.dtype) - average;
    update_where(graph_, gate, average, multiply_add(difference, 1 - *options_.ema_decay, average));
  }

  Tensor declare_state(const std::string& name, const TensorType& type, const std::string& purpose) {
    reserve(graph_, name, purpose);
    return graph_.state(name, type.shape, type.dtype);
  }

  Graph& graph_;
  const std::vector<ParameterRule>& rules_;
  const UpdateOptions& options_;
  RefreshKinds refreshes_;
  BlockInputs block_;
  std::vector<Tensor> gates_;
};

}  // namespace

void reserve(const Graph& graph, const std::string& name, const std::string& purpose) {
  if (graph.find_id(name) < 0) return;
  throw Error(ErrorCode::duplicate_name,
              fmt::format("{}: the name \"{}\" is reserved for {}, but the graph has it", graph.name(), name, purpose));
}

Tensor declare_input(Graph& graph, const std::string& name, Shape shape, DType dtype) {
  reserve(graph, name, "what changes each step");
  return graph.input(name, std::move(shape), dtype);
}

Tensor declare_loss_scale(Graph& graph) {
  reserve(graph, std::string(kLossScale), "the scale of the loss");
  return graph.state(std::string(kLossScale), {}, DType::f32);
}

void gate_updates(Graph& graph, Tensor gate) {
  const std::vector<Update> own = graph.updates();
  for (const Update& update : own) update_where(graph, gate, graph.tensor(update.target), graph.tensor(update.value));
}

std::int64_t stream_of(const std::string& param) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 31;
  return static_cast<std::int64_t>(random::hash_name(param.data(), param.size()) % kHalf) + kHalf;
}

void append_update(Graph& graph, const std::vector<ParameterRule>& rules, const UpdateOptions& options,
                   RefreshKinds refreshes, Gradients gradients) {
  UpdateBuilder(graph, rules, options, refreshes).append(std::move(gradients));
}

}  // namespace wholestep::train
