// A matrix product whose second operand is stored transposed, as one whose first is.
//
// A product reads its second operand as vectors along its rows, so that one which is stored transposed has to be copied
// into that order first. For the gradient of a layer's input that is the weight, which is often much larger than what
// it is multiplied with. a b^T is (b a^T)^T: there the smaller operand and the result are what is copied. The terms of
// each sum, and their order, are the same.
#include <cstdint>
#include <numeric>
#include <utility>

#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep::passes {
namespace {

// How much larger the second operand has to be than what is copied in its place, and how large at all: the result is
// then no longer what an epilogue is computed from.
constexpr std::int64_t kTimesLarger = 4, kLeastElements = 65536;

// The order of axes that swaps the last two.
std::vector<std::int64_t> swapped(std::size_t rank) {
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::swap(order[rank - 2], order[rank - 1]);
  return order;
}

/// The second operand of a product as it is in memory.
struct Stored {
  NodeId id;
  bool transposed;
};

Stored second_operand(const Graph& graph, const Node& product) {
  const Stored given{product.operands[1], product.attrs.get<bool>("transpose_b")};
  const Node& node = graph.node(given.id);
  const bool swaps = node.op->name == "transpose" &&
                     node.attrs.get<std::vector<std::int64_t>>("perm") == swapped(node.type.shape.size());
  return swaps ? Stored{node.operands[0], !given.transposed} : given;
}

bool is_better_turned(const Graph& graph, const Node& node) {
  if (node.op->kind != OpKind::contraction || !second_operand(graph, node).transposed) return false;
  const auto elements = [&](NodeId id) { return num_elements(graph.node(id).type.shape); };
  const std::int64_t copied = elements(node.operands[0]) + num_elements(node.type.shape);
  return elements(node.operands[1]) >= kLeastElements && elements(node.operands[1]) / kTimesLarger >= copied;
}

}  // namespace

Graph turn_products(const Graph& graph) {
  Rebuild rebuild(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    if (!is_better_turned(graph, node)) {
      rebuild.set(id, rebuild.copy(id));
      continue;
    }
    const Tensor first = rebuild.operands(id)[0], second = rebuild.of(second_operand(graph, node).id);
    const Attrs attrs{{"transpose_a", false}, {"transpose_b", !node.attrs.get<bool>("transpose_a")}};
    rebuild.set(id,
                transpose(rebuild.to().apply(node.op->name, {second, first}, attrs), swapped(node.type.shape.size())));
  }
  return rebuild.finish();
}

}  // namespace wholestep::passes
