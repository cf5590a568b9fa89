#include "train/update_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "graph/op.h"

namespace wholestep::train {
namespace {

// Layers through which an update task propagates gradients, beside inner products.
constexpr std::array<std::string_view, 3> kActivations = {"relu", "sigmoid", "tanh"};

// Hyper-parameters of Core ML's two optimizers. All others have to be at zero, where they do nothing.
struct TaskOptimizer {
  std::string_view name;
  std::vector<std::string_view> hyper_parameters;
};
const TaskOptimizer kOptimizers[] = {{"sgd", {"lr", "momentum"}}, {"adam", {"lr", "beta1", "beta2", "eps"}}};

std::optional<std::string> why_not_optimizer(const OptimizerRule& rule) {
  const auto known = std::ranges::find(kOptimizers, rule.name(), &TaskOptimizer::name);
  if (known == std::end(kOptimizers)) {
    return fmt::format("optimizer {}: an update task has SGD and Adam alone", rule.name());
  }
  for (const auto& [name, value] : rule.hyper_parameters()) {
    if (value == 0 || std::ranges::find(known->hyper_parameters, name) != known->hyper_parameters.end()) continue;
    return fmt::format("optimizer {} with {} {}: an update task's has no {}", rule.name(), name, value, name);
  }
  return std::nullopt;
}

class Walk {
 public:
  Walk(const Graph& graph, const std::vector<std::string>& train)
      : graph_(graph), trained_(train.begin(), train.end()) {}

  std::optional<std::string> run() {
    const Node& loss = graph_.node(graph_.outputs()[0]);
    if (loss.op->name != "cross_entropy" && loss.op->name != "squared_error") {
      return fmt::format("loss '{}': an update task has cross-entropy and squared error alone", loss.op->name);
    }
    const NodeId prediction = loss.operands[0], target = loss.operands[1];
    if (!is(target, "input")) {
      return fmt::format("op '{}': the target of the loss has to be an input", graph_.node(target).op->name);
    }
    if (find_before(prediction, [&](NodeId id) { return id == target; }) >= 0) {
      return fmt::format(
          "input \"{}\" is the target of the loss and an input of the model: an update task has these apart",
          graph_.node(target).name);
    }
    NodeId at = prediction;
    while (const std::optional<NodeId> before = step_back(at)) at = *before;
    if (!reason_.empty()) return reason_;
    if (const NodeId param = find_before(at, [&](NodeId id) { return is_trained(id); }); param >= 0) {
      return fmt::format("op '{}': an update task does not propagate through it, and \"{}\" is trained before it",
                         graph_.node(at).op->name, graph_.node(param).name);
    }
    for (const std::string& name : trained_) {
      if (!layers_of_.contains(name)) return fmt::format("parameter \"{}\" is of no inner product", name);
    }
    return std::nullopt;
  }

 private:
  bool is(NodeId id, std::string_view op) const { return graph_.node(id).op->name == op; }
  bool is_trained(NodeId id) const { return is(id, "param") && trained_.contains(graph_.node(id).name); }

  // The value before the layer that ends at `id`; nothing where that is no layer to propagate through.
  std::optional<NodeId> step_back(NodeId id) {
    const Node& node = graph_.node(id);
    if (std::ranges::find(kActivations, node.op->name) != kActivations.end()) return node.operands[0];
    if (node.op->name == "reshape") {  // flattening keeps the examples apart
      const Shape &from = graph_.node(node.operands[0]).type.shape, &to = node.type.shape;
      if (from.empty() || to.size() != 2 || from[0] != to[0]) return std::nullopt;
      return node.operands[0];
    }
    if (node.op->name == "matmul") return inner_product(id, -1);
    if (node.op->name != "add") return std::nullopt;
    for (const std::size_t side : {0u, 1u}) {
      const NodeId product = node.operands[side], added = node.operands[1 - side];
      if (!is(product, "matmul") || !is(added, "broadcast")) continue;
      const NodeId bias = graph_.node(added).operands[0];
      if (is(bias, "param") && graph_.node(bias).type.shape.size() == 1) return inner_product(product, bias);
    }
    return std::nullopt;
  }

  std::optional<NodeId> inner_product(NodeId product, NodeId bias) {
    const Node& node = graph_.node(product);
    const NodeId x = node.operands[0], weight = node.operands[1];
    if (!is(weight, "param") || node.type.shape.size() != 2 || node.attrs.get<bool>("transpose_a")) return std::nullopt;
    const std::string& name = graph_.node(weight).name;
    if (bias >= 0 && is_trained(weight) != is_trained(bias)) {
      reason_ = fmt::format("of weight \"{}\" and bias \"{}\" one is trained: an update task trains both or none", name,
                            graph_.node(bias).name);
      return std::nullopt;
    }
    if (bias >= 0 && graph_.node(bias).type.shape[0] != node.type.shape[1]) {
      if (is_trained(bias)) {
        reason_ =
            fmt::format("bias \"{}\" is {}: an inner product of {} channels trains {} values", graph_.node(bias).name,
                        to_string(graph_.node(bias).type), node.type.shape[1], node.type.shape[1]);
      }
      return std::nullopt;
    }
    for (const NodeId param : {weight, bias}) {
      if (param < 0 || !is_trained(param)) continue;
      if (graph_.node(param).type.dtype != DType::f32) {
        reason_ = fmt::format("parameter \"{}\" is {}: an update task trains f32", graph_.node(param).name,
                              to_string(graph_.node(param).type));
        return std::nullopt;
      }
      if (!layers_of_.insert(graph_.node(param).name).second) {
        reason_ = fmt::format("parameter \"{}\" is of two layers", graph_.node(param).name);
        return std::nullopt;
      }
    }
    return x;
  }

  // The first node found that `wanted` is true for, of `id` and what it is computed from; -1 where there is none.
  template <class Predicate>
  NodeId find_before(NodeId id, Predicate wanted) const {
    std::vector<NodeId> pending{id};
    std::set<NodeId> seen;
    while (!pending.empty()) {
      const NodeId at = pending.back();
      pending.pop_back();
      if (!seen.insert(at).second) continue;
      if (wanted(at)) return at;
      pending.insert(pending.end(), graph_.node(at).operands.begin(), graph_.node(at).operands.end());
    }
    return -1;
  }

  const Graph& graph_;
  std::set<std::string> trained_, layers_of_;
  std::string reason_;
};

}  // namespace

std::optional<std::string> why_no_update_task(const Graph& graph, const std::vector<std::string>& train,
                                              const OptimizerRule& rule) {
  if (auto reason = why_not_optimizer(rule)) return reason;
  if (!graph.updates().empty()) {
    return fmt::format("state \"{}\" has an update of its own: an update task moves weights alone",
                       graph.node(graph.updates()[0].target).name);
  }
  return Walk(graph, train).run();
}

}  // namespace wholestep::train
