// Long sums of products, cut into pieces that are summed apart.
//
// The forward product of a layer reads a large weight for a small result: 784 x 128 numbers for 64 x 128. Cut along the
// depth, each piece reads rows of the weight that nothing else reads, and the update writes the same rows. Workers that
// take pieces in order then find them in their own cache, where a cut along the result has every worker read what
// another has just written. The result exists once per piece, which is why it has to be small.
#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep::passes {
namespace {

constexpr std::int64_t kMostPieces = 8;
constexpr std::int64_t kLeastDepth = 128;  // of a piece
// Pieces of the result, written once and read once, cost this share of the operands' size at most.
constexpr double kShareOfOperands = 0.25;

struct Product {
  bool transpose_a, transpose_b;
  std::int64_t batch = 1, m, k, n;

  explicit Product(const Node& node, const Shape& a)
      : transpose_a(node.attrs.get<bool>("transpose_a")), transpose_b(node.attrs.get<bool>("transpose_b")) {
    for (std::size_t i = 0; i + 2 < a.size(); ++i) batch *= a[i];
    k = a[a.size() - (transpose_a ? 2 : 1)];
    m = node.type.shape[a.size() - 2];
    n = node.type.shape[a.size() - 1];
  }

  /// A divisor of k: 1 where cutting is not worth it. The sizes alone decide, as they must for equal bits on all
  /// machines.
  std::int64_t pieces() const {
    if (batch * m * n == 0 || k < 2 * kLeastDepth) return 1;
    const double operands = static_cast<double>(k) * static_cast<double>(m + n);
    const double result = static_cast<double>(m) * static_cast<double>(n);
    const auto affordable =
        static_cast<std::int64_t>(std::min(kShareOfOperands * operands / result, static_cast<double>(kMostPieces)));
    std::int64_t pieces = std::min(affordable / batch, k / kLeastDepth);
    while (pieces > 1 && k % pieces != 0) --pieces;
    return std::max<std::int64_t>(pieces, 1);
  }
};

// [..., rows, columns] as [..., pieces, rows, columns / pieces], or [..., pieces, rows / pieces, columns].
Tensor cut(Tensor x, bool columns, std::int64_t pieces) {
  const std::size_t rank = x.shape().size();
  Shape shape = x.shape();
  const std::size_t axis = columns ? rank - 1 : rank - 2;
  shape[axis] /= pieces;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), pieces);
  const Tensor split = reshape(x, shape);
  if (!columns) return split;
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i <= rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  std::swap(order[rank - 2], order[rank - 1]);
  return transpose(split, order);
}

}  // namespace

Graph split_depth(const Graph& graph) {
  return rewrite(graph, [&](Rebuild& rebuild, NodeId id) {
    const Node& node = graph.node(id);
    const bool wide_float = node.type.dtype == DType::f32 || node.type.dtype == DType::f64;
    if (node.op->kind != OpKind::contraction || !wide_float) return Tensor();
    const Product product(node, graph.node(node.operands[0]).type.shape);
    const std::int64_t pieces = product.pieces();
    if (pieces <= 1) return Tensor();
    const std::vector<Tensor> operands = rebuild.operands(id);
    const Tensor parts = rebuild.to().apply(
        node.op->name, {cut(operands[0], !product.transpose_a, pieces), cut(operands[1], product.transpose_b, pieces)},
        node.attrs);
    return reduce_sum(parts, {parts.rank() - 3});
  });
}

}  // namespace wholestep::passes
