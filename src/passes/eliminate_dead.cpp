#include "passes/passes.h"
#include "passes/rebuild.h"

namespace wholestep::passes {

Graph eliminate_dead(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  for (NodeId id : graph.outputs()) live[static_cast<std::size_t>(id)] = true;
  for (const Update& update : graph.updates()) live[static_cast<std::size_t>(update.value)] = true;
  for (std::size_t id = live.size(); id-- > 0;) {
    const Node& node = graph.nodes()[id];
    if (is_signature(node)) live[id] = true;
    if (live[id])
      for (NodeId operand : node.operands) live[static_cast<std::size_t>(operand)] = true;
  }
  Rebuild rebuild(graph);
  for (std::size_t id = 0; id < live.size(); ++id)
    if (live[id]) rebuild.set(static_cast<NodeId>(id), rebuild.copy(static_cast<NodeId>(id)));
  return rebuild.finish();
}

}  // namespace wholestep::passes
