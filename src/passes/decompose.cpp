#include <fmt/format.h>

#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"

namespace wholestep::passes {
namespace {

/// Far above the depth of any chain of composites of composites.
constexpr int kMostRounds = 64;

}  // namespace

Graph decompose(const Graph& graph, const std::function<bool(const OpDef&)>& keep, Report* report) {
  const auto to_replace = [&](const Node& node) { return node.op->decompose && !(keep && keep(*node.op)); };
  Graph current = graph;
  std::string last;
  for (int round = 0; round < kMostRounds; ++round) {
    Rebuild rebuild(current);
    bool replaced = false;
    for (std::size_t i = 0; i < current.nodes().size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      const Node& node = current.node(id);
      if (to_replace(node)) {
        rebuild.set(id, node.op->decompose(rebuild.to(), node, rebuild.operands(id)));
        if (report) report->decomposed.push_back(node.op->name);
        replaced = true;
        last = node.op->name;
      } else {
        rebuild.set(id, rebuild.copy(id));
      }
    }
    if (!replaced) return current;
    current = rebuild.finish();
  }
  throw Error(ErrorCode::internal,
              fmt::format("op '{}' still decomposes into composites after {} rounds", last, kMostRounds));
}

}  // namespace wholestep::passes
