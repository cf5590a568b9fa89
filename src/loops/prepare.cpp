#include <set>

#include "graph/op.h"
#include "loops/fuse.h"
#include "wholestep/ops.h"

namespace wholestep::loops {
namespace {

// The same value, a cast being the last thing that is done to it where views alone come after one.
Tensor cast_last(Graph& graph, Tensor x) {
  const Node node = graph.node(x.id());
  if (node.op->name != "reshape" && node.op->name != "transpose") return x;
  const Node inner = graph.node(cast_last(graph, graph.tensor(node.operands[0])).id());
  if (inner.op->name != "cast") return x;
  return cast(graph.apply(node.op->name, {graph.tensor(inner.operands[0])}, node.attrs), inner.type.dtype);
}

// The copy that this becomes is then of what is not widened yet, where the product reads that.
Tensor transpose_last_two(Graph& graph, Tensor x) {
  std::vector<std::int64_t> perm;
  for (int i = 0; i < x.rank(); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return cast_last(graph, graph.apply("transpose", {x}, {{"perm", perm}}));
}

}  // namespace

Graph prepare(const Graph& graph) {
  Graph result(graph.name());
  std::vector<Tensor> made(graph.nodes().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    std::vector<Tensor> operands;
    for (NodeId id : node.operands) operands.push_back(made[static_cast<std::size_t>(id)]);
    Attrs attrs = node.attrs;
    if (node.op->kind == OpKind::contraction && attrs.get<bool>("transpose_b")) {
      operands[1] = transpose_last_two(result, operands[1]);
      attrs.set("transpose_b", false);
    }
    if (node.op->name == "input") {
      made[i] = result.input(node.name, node.type.shape, node.type.dtype);
    } else if (node.op->name == "param") {
      made[i] = result.param(node.name, node.type.shape, node.type.dtype);
    } else if (node.op->name == "state") {
      made[i] = result.state(node.name, node.type.shape, node.type.dtype);
    } else {
      made[i] = result.apply(node.op->name, operands, attrs);
    }
  }
  // A destination is a value of its own, computed by one kernel: sources and values with two destinations are copied.
  std::set<NodeId> taken;
  auto destination = [&](NodeId id) {
    Tensor value = made[static_cast<std::size_t>(id)];
    const bool source = result.node(value.id()).op->kind == OpKind::source;
    if (source || !taken.insert(value.id()).second) {
      value = result.apply("reshape", {value}, {{"shape", std::vector<std::int64_t>(value.shape())}});
    }
    return value;
  };
  for (const Update& update : graph.updates()) {
    result.set_update(made[static_cast<std::size_t>(update.target)], destination(update.value));
  }
  std::vector<Tensor> outputs;
  for (NodeId id : graph.outputs()) outputs.push_back(destination(id));
  if (!outputs.empty()) result.set_outputs(outputs);
  return result;
}

}  // namespace wholestep::loops
