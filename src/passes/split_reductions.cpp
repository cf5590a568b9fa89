// Reductions of many elements to a few results, in two steps: first to as many partial results as give every worker
// some, then to the result. The norm of a gradient is one number; computed in one step it is one worker's job, who
// fetches what all the others have just written.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep::passes {
namespace {

constexpr std::int64_t kFewResults = 16;
constexpr std::int64_t kManyElements = 1 << 14;
// Partial results of one result, and elements of each.
constexpr std::int64_t kLeastParts = 16, kMostParts = 1024, kLeastElements = 64;

/// A reduction in two steps: over the inner part of axis `axis`, whose extent is `outer` times as long, and all reduced
/// axes behind it; then over its outer part and those before it.
struct Split {
  std::size_t axis;
  std::int64_t outer;
};

/// The sizes alone decide, as they must for equal bits on all machines.
std::optional<Split> split_of(const Shape& shape, const std::vector<std::int64_t>& axes) {
  std::int64_t all = 1;
  for (const std::int64_t axis : axes) all *= shape[static_cast<std::size_t>(axis)];
  std::int64_t before = 1;
  for (const std::int64_t axis : axes) {
    const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
    for (std::int64_t outer = std::min(extent, kMostParts / before); outer * before >= kLeastParts; --outer) {
      if (extent % outer == 0 && all / (outer * before) >= kLeastElements)
        return Split{static_cast<std::size_t>(axis), outer};
    }
    before *= extent;
    if (before > kMostParts) break;
  }
  return std::nullopt;
}

Tensor in_two_steps(const Node& node, Tensor x, const std::vector<std::int64_t>& axes, const Split& split) {
  Graph& graph = x.graph();
  const auto cut = static_cast<std::int64_t>(split.axis);
  Shape shape = x.shape();
  shape[split.axis] /= split.outer;
  shape.insert(shape.begin() + cut, split.outer);
  std::vector<std::int64_t> inner, outer;
  for (const std::int64_t axis : axes) {
    if (axis <= cut) outer.push_back(axis);
    if (axis >= cut) inner.push_back(axis + 1);
  }
  const auto reduce = [&](Tensor of, const std::vector<std::int64_t>& over) {
    return graph.apply(node.op->name, {of}, {{"axes", over}, {"keepdims", true}});
  };
  return reshape(reduce(reduce(reshape(x, shape), inner), outer), node.type.shape);
}

}  // namespace

Graph split_reductions(const Graph& graph) {
  return share_common(rewrite(graph, [&](Rebuild& rebuild, NodeId id) {
    const Node& node = graph.node(id);
    const bool rounded_between = node.type.dtype == DType::bf16 || node.type.dtype == DType::f16;
    if (node.op->kind != OpKind::reduction || rounded_between) return Tensor();
    const Shape& shape = graph.node(node.operands[0]).type.shape;
    if (num_elements(node.type.shape) > kFewResults || num_elements(shape) < kManyElements) return Tensor();
    const auto& axes = node.attrs.get<std::vector<std::int64_t>>("axes");
    const std::optional<Split> split = split_of(shape, axes);
    return split ? in_two_steps(node, rebuild.operands(id)[0], axes, *split) : Tensor();
  }));
}

}  // namespace wholestep::passes
