// Reverse-mode differentiation, graph to graph: nodes are visited from the output back, each once, and their ops' rules
// append the cotangents of their operands.
#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "graph/names.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

std::string describe(const Node& node) {
  return node.name.empty() ? fmt::format("{} of type {}", node.op->name, to_string(node.type))
                           : fmt::format("{} '{}' of type {}", node.op->name, node.name, to_string(node.type));
}

/// Cotangents of `leaves` through the nodes from `first` on. Earlier nodes are not entered: those among `leaves` count
/// as independent of each other. Where a leaf depends on another, the derivative of that other one is the total one.
class Backward {
 public:
  Backward(Graph& graph, NodeId first, NodeId root, const std::vector<Tensor>& leaves) : graph_(graph), first_(first) {
    for (const Tensor& leaf : leaves) leaves_.insert(leaf.id());
    for (NodeId id = first; id <= root; ++id) active_.push_back(is_leaf(id) || carries(graph.node(id)));
  }

  /// One cotangent per leaf; an invalid tensor where the root does not depend on it.
  std::vector<Tensor> run(Tensor root, Tensor cotangent, const std::vector<Tensor>& leaves) {
    accumulate(root.id(), cotangent);
    for (NodeId id = root.id(); id >= first_; --id) {
      const auto found = cotangents_.find(id);
      if (found != cotangents_.end()) visit(id, found->second);
    }
    std::vector<Tensor> results;
    for (const Tensor& leaf : leaves) {
      const auto found = cotangents_.find(leaf.id());
      results.push_back(found == cotangents_.end() ? Tensor() : found->second);
    }
    return results;
  }

 private:
  bool is_leaf(NodeId id) const { return leaves_.contains(id); }
  bool is_active(NodeId id) const {
    return id < first_ ? is_leaf(id) : static_cast<bool>(active_[static_cast<std::size_t>(id - first_)]);
  }

  /// Whether a change of a leaf passes through the node. An op that must not be differentiated does pass it on, so that
  /// asking is noticed.
  bool carries(const Node& node) const {
    if (!is_float(node.type.dtype)) return false;
    const auto* flat = std::get_if<NotDifferentiable>(&node.op->gradient);
    if (flat && !flat->error) return false;
    for (NodeId operand : node.operands) {
      if (is_active(operand)) return true;
    }
    return false;
  }

  void accumulate(NodeId id, Tensor cotangent) {
    const auto [at, is_first] = cotangents_.try_emplace(id, cotangent);
    if (!is_first) at->second = add(at->second, cotangent);
  }

  void visit(NodeId id, Tensor cotangent) {
    const Node node = graph_.node(id);
    if (!carries(node)) return;
    GradientArgs args{graph_, node, {}, graph_.tensor(id), cotangent, {}};
    for (NodeId operand : node.operands) {
      args.operands.push_back(graph_.tensor(operand));
      args.wanted.push_back(is_active(operand));
    }
    const std::vector<Tensor> parts = apply_rule(args);
    if (parts.size() != node.operands.size()) {
      throw Error(ErrorCode::internal, fmt::format("the gradient of {} gave {} cotangents for {} operands",
                                                   describe(node), parts.size(), node.operands.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].valid() || !args.wanted[i]) continue;
      if (parts[i].type() != args.operands[i].type()) {
        throw Error(ErrorCode::internal,
                    fmt::format("the gradient of {} gave {} for operand {} of type {}", describe(node),
                                to_string(parts[i].type()), i, to_string(args.operands[i].type())));
      }
      accumulate(node.operands[i], parts[i]);
    }
  }

  std::vector<Tensor> apply_rule(const GradientArgs& args) {
    const OpDef& op = *args.node.op;
    if (const auto* rule = std::get_if<GradientRule>(&op.gradient)) return (*rule)(args);
    if (const auto* none = std::get_if<NotDifferentiable>(&op.gradient)) {
      throw Error(ErrorCode::not_differentiable,
                  fmt::format("{} has no gradient: {}", describe(args.node), none->reason));
    }
    if (!op.decompose) {
      throw Error(ErrorCode::internal, fmt::format("op '{}' has neither gradient nor decomposition", op.name));
    }
    return through_decomposition(args);
  }

  /// The gradient of a composite that has no rule of its own: that of the ops which it stands for.
  std::vector<Tensor> through_decomposition(const GradientArgs& args) {
    const auto first = static_cast<NodeId>(graph_.nodes().size());
    const Tensor value = args.node.op->decompose(graph_, args.node, args.operands);
    std::vector<Tensor> leaves;
    std::unordered_set<NodeId> seen;
    for (std::size_t i = 0; i < args.operands.size(); ++i) {
      if (args.wanted[i] && seen.insert(args.operands[i].id()).second) leaves.push_back(args.operands[i]);
    }
    const std::vector<Tensor> found = Backward(graph_, first, value.id(), leaves).run(value, args.cotangent, leaves);
    // An operand given twice takes the whole cotangent at its first place.
    std::vector<Tensor> parts(args.operands.size());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      std::size_t place = 0;
      while (args.operands[place].id() != leaves[leaf].id()) ++place;
      parts[place] = found[leaf];
    }
    return parts;
  }

  Graph& graph_;
  NodeId first_;
  std::unordered_set<NodeId> leaves_;
  std::vector<bool> active_;  // of the nodes from first_ on
  std::unordered_map<NodeId, Tensor> cotangents_;
};

void check_in(const Graph& graph, const Tensor& tensor, std::string_view role) {
  if (tensor.valid() && &tensor.graph() == &graph) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("append_gradients: {} is not a tensor of graph '{}'", role, graph.name()));
}

void check_float(const Graph& graph, const Tensor& tensor, std::string_view role) {
  if (is_float(tensor.dtype())) return;
  throw Error(ErrorCode::not_differentiable, fmt::format("gradients: {} is {}; expected a floating-point tensor", role,
                                                         describe(graph.node(tensor.id()))));
}

/// "d_output"; numbered where the graph is itself a gradient and has one.
std::string cotangent_name(const Graph& graph) {
  std::string name = "d_output";
  for (int i = 2; graph.find_id(name) >= 0; ++i) name = fmt::format("d_output_{}", i);
  return name;
}

}  // namespace

std::vector<Tensor> append_gradients(Graph& graph, Tensor output, Tensor cotangent, const std::vector<Tensor>& wrt) {
  check_in(graph, output, "the output");
  check_in(graph, cotangent, "the cotangent");
  check_float(graph, output, "the output");
  if (cotangent.dtype() != output.dtype() || cotangent.shape() != output.shape()) {
    throw Error(cotangent.dtype() != output.dtype() ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                fmt::format("append_gradients: the cotangent is {}, the output {}", to_string(cotangent.type()),
                            to_string(output.type())));
  }
  for (const Tensor& tensor : wrt) {
    check_in(graph, tensor, "a tensor to differentiate by");
    check_float(graph, tensor, "a tensor to differentiate by");
  }
  std::vector<Tensor> gradients = Backward(graph, 0, output.id(), wrt).run(output, cotangent, wrt);
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (!gradients[i].valid()) gradients[i] = graph.full(wrt[i].shape(), 0, wrt[i].dtype());
  }
  return gradients;
}

Graph gradients_with_loss(const Graph& graph, const std::vector<std::string>& wrt) {
  if (graph.outputs().empty()) {
    throw Error(ErrorCode::no_outputs, fmt::format("graph '{}' has no outputs, so no loss", graph.name()));
  }
  const TensorType loss = graph.node(graph.outputs()[0]).type;
  if (!is_float(loss.dtype) || !loss.shape.empty()) {
    throw Error(ErrorCode::loss_not_scalar,
                fmt::format("graph '{}': the loss must be a floating-point scalar, its first output is {}",
                            graph.name(), describe(graph.node(graph.outputs()[0]))));
  }
  if (wrt.empty()) {
    throw Error(ErrorCode::empty_wrt, fmt::format("graph '{}': gradients with respect to nothing", graph.name()));
  }
  Graph result = graph;
  std::vector<Tensor> tensors;
  std::unordered_set<std::string> names;
  for (const std::string& name : wrt) {
    const Tensor tensor = result.find(name);
    if (!tensor.valid()) {
      throw Error(ErrorCode::unknown_name,
                  fmt::format("gradients: graph '{}' has no parameter, input or state '{}'; parameters: {}",
                              graph.name(), name, list_names(graph, "param")));
    }
    if (!names.insert(name).second) {
      throw Error(ErrorCode::duplicate_name, fmt::format("gradients: '{}' is asked for twice", name));
    }
    check_float(result, tensor, fmt::format("'{}'", name));
    tensors.push_back(tensor);
  }
  const Tensor cotangent = result.input(cotangent_name(graph), {}, loss.dtype);
  std::vector<Tensor> outputs;
  for (NodeId id : graph.outputs()) outputs.push_back(result.tensor(id));
  for (const Tensor& gradient : append_gradients(result, outputs[0], cotangent, tensors)) outputs.push_back(gradient);
  result.set_outputs(outputs);
  return result;
}

}  // namespace wholestep
