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

bool is_better_turned(const Graph& graph, const Node& product, const Stored& second) {
  const auto elements = [&](NodeId id) { return num_elements(graph.node(id).type.shape); };
  const std::int64_t copied = elements(product.operands[0]) + num_elements(product.type.shape);
  return second.transposed && elements(second.id) >= kLeastElements && elements(second.id) / kTimesLarger >= copied;
}

}  // namespace

Graph turn_products(const Graph& graph) {
  return rewrite(graph, [&](Rebuild& rebuild, NodeId id) {
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::contraction) return Tensor();
    const Stored second = second_operand(graph, node);
    if (!is_better_turned(graph, node, second)) return Tensor();
    const Attrs attrs{{"transpose_a", false}, {"transpose_b", !node.attrs.get<bool>("transpose_a")}};
    const Tensor turned = rebuild.to().apply(node.op->name, {rebuild.of(second.id), rebuild.operands(id)[0]}, attrs);
    return transpose(turned, swapped(node.type.shape.size()));
  });
}

}  // namespace wholestep::passes
