#include "runtime/index_bounds.h"

#include <algorithm>
#include <string_view>

#include "graph/op.h"
#include "passes/passes.h"
#include "wholestep/session.h"

namespace wholestep::runtime {
namespace {

// The op's result holds exactly the elements of its operand, as integers.
bool only_moves(const Graph& graph, const Node& node) {
  const std::string_view op = node.op->name;
  if (op == "cast") return is_integer(node.type.dtype) && is_integer(graph.node(node.operands[0]).type.dtype);
  return op == "reshape" || op == "transpose" || op == "broadcast";
}

}  // namespace

std::vector<plan::IndexBound> index_bounds(const Graph& written) {
  const Graph graph = passes::eliminate_dead(written);
  std::vector<plan::IndexBound> bounds;
  for (const Node& node : graph.nodes()) {
    if (!node.op->index_operand) continue;
    std::vector<TensorType> operands;
    for (NodeId id : node.operands) operands.push_back(graph.node(id).type);
    const std::int64_t bound = node.op->index_operand->bound(operands, node.attrs);

    const Node* source = &graph.node(node.operands[static_cast<std::size_t>(node.op->index_operand->operand)]);
    while (only_moves(graph, *source)) source = &graph.node(source->operands[0]);
    if (source->op->name != "input") continue;
    const auto known = std::ranges::find(bounds, source->name, &plan::IndexBound::input);
    if (known == bounds.end()) {
      bounds.push_back({source->name, bound});
    } else {
      known->bound = std::min(known->bound, bound);
    }
  }
  return bounds;
}

}  // namespace wholestep::runtime

namespace wholestep {

std::optional<std::int64_t> index_bound(const Graph& graph, const std::string& input) {
  for (const plan::IndexBound& bound : runtime::index_bounds(graph)) {
    if (bound.input == input) return bound.bound;
  }
  return std::nullopt;
}

}  // namespace wholestep
