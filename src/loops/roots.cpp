#include "loops/roots.h"

#include <algorithm>

#include "graph/op.h"
#include "loops/fuse.h"

namespace wholestep::loops {
namespace {

// Rough instructions per element of an element-wise op.
int weight(const Node& node) {
  static const std::vector<std::string> kCheap = {
      "abs",         "add",         "cast",       "equal",   "greater", "greater_equal", "less", "less_equal",
      "logical_and", "logical_not", "logical_or", "maximum", "minimum", "mul",           "neg",  "not_equal",
      "relu",        "select",      "square",     "sub"};
  if (node.op->kind == OpKind::view) return 0;
  return std::binary_search(kCheap.begin(), kCheap.end(), node.op->name) ? 1 : 6;
}

// A value used twice is recomputed while it costs less than storing and loading it.
constexpr int kRecompute = 5;
// Bounds an expression, and with it the depth of recursion that writes it.
constexpr int kLargest = 150;

}  // namespace

void Roots::add_nodes_of(const Graph& graph, NodeId root, std::vector<NodeId>& nodes) const {
  std::vector<NodeId> pending{root};
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (std::find(nodes.begin(), nodes.end(), id) != nodes.end()) continue;
    nodes.push_back(id);
    for (NodeId operand : graph.node(id).operands)
      if (!in_memory(operand)) pending.push_back(operand);
  }
  std::sort(nodes.begin(), nodes.end());
}

Roots choose_roots(const Graph& graph, bool fusion) {
  const std::size_t count = graph.nodes().size();
  Roots roots;
  roots.is_root.assign(count, false);
  roots.is_source.assign(count, false);
  roots.is_destination.assign(count, false);
  roots.reads.resize(count);
  std::vector<bool> live(count, false), forced(count, false);
  auto mark = [](std::vector<bool>& flags, NodeId id) { flags[static_cast<std::size_t>(id)] = true; };
  for (NodeId id : graph.outputs()) mark(live, id), mark(roots.is_destination, id);
  for (const Update& update : graph.updates()) mark(live, update.value), mark(roots.is_destination, update.value);

  // A value read at moved positions must lie in memory: strip the views that only move.
  auto force_memory = [&](NodeId id, bool through_views) {
    while (through_views) {
      const Node& node = graph.node(id);
      const std::string& name = node.op->name;
      const bool moves =
          name == "transpose" || name == "broadcast" || name == "slice" ||
          (name == "reshape" && reshape_is_affine(node.type.shape, graph.node(node.operands[0]).type.shape));
      if (!moves) break;
      id = node.operands[0];
    }
    mark(forced, id);
  };
  std::vector<int> users(count, 0);
  for (std::size_t i = count; i-- > 0;) {
    const Node& node = graph.nodes()[i];
    if (!live[i]) continue;
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      const NodeId operand = node.operands[k];
      mark(live, operand);
      if (std::find(node.operands.begin(), node.operands.begin() + static_cast<std::ptrdiff_t>(k), operand) ==
          node.operands.begin() + static_cast<std::ptrdiff_t>(k)) {
        ++users[static_cast<std::size_t>(operand)];
      }
    }
    for (int k : node.op->whole_operands) force_memory(node.operands[static_cast<std::size_t>(k)], false);
    if (node.op->kind == OpKind::contraction) {
      // The second operand is loaded as vectors: unit stride along its last dimension, or a copy that has it.
      force_memory(node.operands[0], true);
      const Node& right = graph.node(node.operands[1]);
      const bool transposed_view = right.op->name == "transpose" &&
                                   !right.attrs.get<std::vector<std::int64_t>>("perm").empty() &&
                                   right.attrs.get<std::vector<std::int64_t>>("perm").back() + 1 !=
                                       static_cast<std::int64_t>(right.type.shape.size());
      force_memory(node.operands[1], !transposed_view);
    }
    if (node.op->name == "reshape" && !reshape_is_affine(node.type.shape, graph.node(node.operands[0]).type.shape)) {
      force_memory(node.operands[0], false);
    }
    if (node.op->name == "broadcast") {
      const NodeId operand = node.operands[0];
      const TensorType& from = graph.node(operand).type;
      if (num_elements(from.shape) > 1 && num_elements(node.type.shape) > num_elements(from.shape) &&
          weight(graph.node(operand)) > 1) {
        mark(forced, operand);
      }
    }
  }

  std::vector<int> cost(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    if (!live[i]) continue;
    const OpKind kind = node.op->kind;
    if (kind == OpKind::source) {
      roots.is_source[i] = true;
      cost[i] = 1;
      continue;
    }
    int total = weight(node);
    for (NodeId operand : node.operands) total += cost[static_cast<std::size_t>(operand)];
    const bool own_stage = kind == OpKind::reduction || kind == OpKind::contraction || kind == OpKind::scatter;
    const bool shared = users[i] > 1 && total > kRecompute && num_elements(node.type.shape) > 1;
    roots.is_root[i] = !fusion || own_stage || forced[i] || roots.is_destination[i] || shared || total > kLargest;
    cost[i] = roots.is_root[i] ? 1 : total;
  }

  // What each root reads, through everything that is expanded into it.
  std::vector<std::size_t> seen(count, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!roots.is_root[i]) continue;
    std::vector<NodeId> pending(graph.nodes()[i].operands);
    while (!pending.empty()) {
      const NodeId id = pending.back();
      pending.pop_back();
      if (seen[static_cast<std::size_t>(id)] == i) continue;
      seen[static_cast<std::size_t>(id)] = i;
      if (roots.in_memory(id)) {
        roots.reads[i].push_back(id);
      } else {
        for (NodeId operand : graph.node(id).operands) pending.push_back(operand);
      }
    }
    std::sort(roots.reads[i].begin(), roots.reads[i].end());
  }
  return roots;
}

}  // namespace wholestep::loops
