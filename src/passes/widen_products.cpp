// Products of bf16 and f16 matrices as f32 products of widened operands, rounded once: the same numbers, since a half
// product accumulates in f32 anyway. Each operand is then converted once, rather than in every tile that reads it.
#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep::passes {

Graph widen_products(const Graph& graph) {
  Rebuild rebuild(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    if (node.op->kind != OpKind::contraction || (node.type.dtype != DType::bf16 && node.type.dtype != DType::f16)) {
      rebuild.set(id, rebuild.copy(id));
      continue;
    }
    std::vector<Tensor> wide;
    for (const Tensor operand : rebuild.operands(id)) wide.push_back(cast(operand, DType::f32));
    rebuild.set(id, cast(rebuild.to().apply(node.op->name, wide, node.attrs), node.type.dtype));
  }
  return share_common(rebuild.finish());
}

}  // namespace wholestep::passes
