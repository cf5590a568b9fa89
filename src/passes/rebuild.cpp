#include "passes/rebuild.h"

#include <fmt/format.h>

#include "graph/op.h"
#include "graph/text.h"

namespace wholestep::passes {

Rebuild::Rebuild(const Graph& from) : from_(from), to_(from.name()), new_ids_(from.nodes().size(), -1) {}

std::vector<Tensor> Rebuild::operands(NodeId id) {
  std::vector<Tensor> tensors;
  for (NodeId operand : from_.node(id).operands) tensors.push_back(of(operand));
  return tensors;
}

Tensor Rebuild::copy(NodeId id) {
  const Node& node = from_.node(id);
  if (!is_signature(node)) return to_.apply(node.op->name, operands(id), node.attrs);
  if (node.op->name == "param") return to_.param(node.name, node.type.shape, node.type.dtype, init_of(node));
  if (node.op->name == "state") return to_.state(node.name, node.type.shape, node.type.dtype);
  return to_.input(node.name, node.type.shape, node.type.dtype);
}

void Rebuild::set(NodeId id, Tensor value) {
  const Node& node = from_.node(id);
  if (value.type() != node.type)
    throw Error(ErrorCode::internal, fmt::format("{} of {} was replaced by a value of {}", node.op->name,
                                                 to_string(node.type), to_string(value.type())));
  new_ids_[static_cast<std::size_t>(id)] = value.id();
}

Graph Rebuild::finish() {
  std::vector<Tensor> outputs;
  for (NodeId id : from_.outputs()) outputs.push_back(of(id));
  to_.set_outputs(outputs);
  for (const Update& update : from_.updates()) to_.set_update(of(update.target), of(update.value));
  return std::move(to_);
}

Graph rewrite(const Graph& graph, const std::function<Tensor(Rebuild&, NodeId)>& make) {
  Rebuild rebuild(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Tensor made = make(rebuild, id);
    rebuild.set(id, made.valid() ? made : rebuild.copy(id));
  }
  return rebuild.finish();
}

bool is_signature(const Node& node) { return text::is_named(*node.op); }

}  // namespace wholestep::passes
