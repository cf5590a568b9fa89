#include <map>

#include "graph/op.h"
#include "plan/plan.h"

namespace wholestep::plan {

std::vector<IndexBound> index_bounds(const Graph& graph) {
  std::map<NodeId, std::int64_t> bounds;
  for (const Node& node : graph.nodes()) {
    if (!node.op->index_operand) continue;
    NodeId source = node.operands[static_cast<std::size_t>(node.op->index_operand->operand)];
    while (graph.node(source).op->name == "cast" || graph.node(source).op->name == "reshape")
      source = graph.node(source).operands[0];
    if (graph.node(source).op->name != "input") continue;
    std::vector<TensorType> operands;
    for (NodeId operand : node.operands) operands.push_back(graph.node(operand).type);
    const std::int64_t bound = node.op->index_operand->bound(operands, node.attrs);
    auto [found, fresh] = bounds.emplace(source, bound);
    if (!fresh) found->second = std::min(found->second, bound);
  }
  std::vector<IndexBound> result;
  for (const auto& [source, bound] : bounds) result.push_back({graph.node(source).name, bound});
  return result;
}

}  // namespace wholestep::plan
