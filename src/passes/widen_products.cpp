// Products of bf16 and f16 matrices as f32 products of widened operands, rounded once: the same numbers, since a half
// product accumulates in f32 anyway. Each operand is then converted once, rather than in every tile that reads it.
#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep::passes {

Graph widen_products(const Graph& graph) {
  return share_common(rewrite(graph, [&](Rebuild& rebuild, NodeId id) {
    const Node& node = graph.node(id);
    const bool half = node.type.dtype == DType::bf16 || node.type.dtype == DType::f16;
    if (node.op->kind != OpKind::contraction || !half) return Tensor();
    std::vector<Tensor> wide;
    for (const Tensor operand : rebuild.operands(id)) wide.push_back(cast(operand, DType::f32));
    return cast(rebuild.to().apply(node.op->name, wide, node.attrs), node.type.dtype);
  }));
}

}  // namespace wholestep::passes
