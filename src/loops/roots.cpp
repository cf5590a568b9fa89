#include "loops/roots.h"

#include <algorithm>

#include "graph/op.h"
#include "loops/lowering.h"

namespace wholestep::loops {
namespace {

// What one op's own lowering writes, its operands being loads.
struct Trace {
  int cost = 0;               // rough instructions per element
  int functions = 0;          // of those: functions like `exp`
  bool only_moves = false;    // a single load, not guarded
  bool needs_memory = false;  // reads its operand in another dimension structure, which only memory allows
  Affine address;             // of the load, where it only moves
  std::vector<Axis> axes;     // variables of the element's position, ones left out
  std::int64_t depth = 1;     // elements that a reduction combines
  std::int64_t steps = 1;     // of its innermost axis
};

int cost_of(const Expr& e) {
  switch (e.kind) {
    case ExprKind::unary:
      return is_one_instruction(e.unary) ? 1 : 6;
    case ExprKind::binary:
      switch (e.binary) {
        case BinaryOp::div:
        case BinaryOp::rem:
        case BinaryOp::pow:
        case BinaryOp::atan2:
          return 6;
        default:
          return 1;
      }
    case ExprKind::fma:
    case ExprKind::select:
    case ExprKind::cast:
      return 1;
    default:
      return 0;
  }
}

bool is_function(const Expr& e) {
  if (e.kind == ExprKind::unary) return !is_one_instruction(e.unary) && e.unary != UnaryOp::sqrt;
  return e.kind == ExprKind::binary && (e.binary == BinaryOp::pow || e.binary == BinaryOp::atan2);
}

Trace trace(const Graph& graph, NodeId id) {
  Trace result;
  Kernel scratch;
  Var next = 0;
  Lowering lowering(graph, scratch, next);
  Stage stage;
  Index at;
  for (std::int64_t extent : graph.node(id).type.shape) {
    at.push_back(extent == 1 ? Affine(0) : Affine::of(next));
    if (extent != 1) result.axes.push_back({next++, extent});
  }
  const ExprId value = lowering.lower_root(id, at, stage, [&](NodeId, const Index&, bool affine) {
    result.needs_memory = result.needs_memory || !affine;
    return Access{Access::Kind::memory};
  });
  for (const Expr& e : scratch.exprs) {
    result.cost += cost_of(e);
    result.functions += is_function(e) ? 1 : 0;
  }
  for (const Axis& axis : stage.reduce_axes) result.depth *= axis.extent;
  if (!stage.reduce_axes.empty()) result.steps = stage.reduce_axes.back().extent;
  const Expr& last = scratch.exprs[static_cast<std::size_t>(value)];
  result.only_moves = last.kind == ExprKind::load && last.guards.empty() && !result.needs_memory;
  if (result.only_moves) result.address = last.index;
  return result;
}

// A value used twice is recomputed while it costs less than storing and loading it.
constexpr int kRecompute = 5;
// Ops in one expression: bounds the depth of the recursion that writes it.
constexpr int kLargest = 150;

// A left operand of a contraction that is cheap to make from inputs of half its size or less is not worth memory of its
// own: the contraction makes it, a tile at a time.
constexpr int kMostMaking = 16;
constexpr std::int64_t kMostDepth = 1024;

bool is_made_from_narrower(const Graph& graph, NodeId id, const std::vector<Trace>& traces) {
  const std::size_t most = size_of(graph.node(id).type.dtype) / 2;
  int cost = 0;
  bool narrower = false;
  std::vector<NodeId> pending{id};
  while (!pending.empty()) {
    const Node& node = graph.node(pending.back());
    cost += traces[static_cast<std::size_t>(pending.back())].cost;
    pending.pop_back();
    if (cost > kMostMaking) return false;
    if (node.op->kind == OpKind::source) {
      if (num_elements(node.type.shape) == 1) continue;
      if (size_of(node.type.dtype) > most) return false;
      narrower = true;
    } else if (node.op->kind == OpKind::elementwise) {
      pending.insert(pending.end(), node.operands.begin(), node.operands.end());
    } else if (node.op->kind == OpKind::view) {
      // Where there is an index, what it picks from is the data.
      const std::vector<int>& whole = node.op->whole_operands;
      for (int k : whole) pending.push_back(node.operands[static_cast<std::size_t>(k)]);
      if (whole.empty()) pending.insert(pending.end(), node.operands.begin(), node.operands.end());
    } else {
      return false;
    }
  }
  return narrower;
}

bool widens_bf16(const Graph& graph, const Node& node) {
  return node.op->name == "cast" && node.type.dtype == DType::f32 &&
         graph.node(node.operands[0]).type.dtype == DType::bf16;
}

// What a contraction reads: its operand, or what that is a view of.
struct Operand {
  NodeId id;
  bool only_user = true;  // of all views passed
  NodeId widened = -1;    // the cast passed, where `through_cast` asks for one
};

Operand operand_of(const Graph& graph, NodeId contraction, std::size_t side, bool through_cast,
                   const std::vector<Trace>& traces, const std::vector<int>& users) {
  Operand result{graph.node(contraction).operands[side]};
  for (;;) {
    const Node& node = graph.node(result.id);
    const Trace& view = traces[static_cast<std::size_t>(result.id)];
    if (through_cast && result.widened < 0 && widens_bf16(graph, node)) {
      result.widened = result.id;
    } else {
      if (!view.only_moves || node.op->kind != OpKind::view) return result;
      result.only_user = result.only_user && users[static_cast<std::size_t>(result.id)] == 1;
      // The right one is loaded as vectors along its last dimension: a view that gives that another stride is copied.
      const bool innermost_kept = side == 0 || view.axes.empty() || view.address.coefficient(view.axes.back().var) == 1;
      if (!innermost_kept) return result;
    }
    result.id = node.operands[0];
  }
}

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

Roots choose_roots(const Graph& graph, const FuseOptions& options) {
  const std::size_t count = graph.nodes().size();
  Roots roots;
  roots.is_root.assign(count, false);
  roots.is_source.assign(count, false);
  roots.is_destination.assign(count, false);
  roots.reads.resize(count);
  std::vector<bool> live(count, false), forced(count, false);
  auto mark = [](std::vector<bool>& flags, NodeId id) { flags[static_cast<std::size_t>(id)] = true; };
  for (NodeId id : options.alone) {
    for (NodeId operand : graph.node(id).operands) mark(forced, operand);
  }
  for (NodeId id : graph.outputs()) mark(live, id), mark(roots.is_destination, id);
  for (const Update& update : graph.updates()) mark(live, update.value), mark(roots.is_destination, update.value);

  std::vector<Trace> traces(count);
  std::vector<NodeId> contractions;
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
    const OpKind kind = node.op->kind;
    if (kind == OpKind::sequential) {
      for (NodeId operand : node.operands) mark(forced, operand);
    }
    if (kind == OpKind::source || kind == OpKind::scatter || kind == OpKind::sequential) continue;
    traces[i] = trace(graph, static_cast<NodeId>(i));
    for (int k : node.op->whole_operands) mark(forced, node.operands[static_cast<std::size_t>(k)]);
    if (traces[i].needs_memory) mark(forced, node.operands[0]);
    if (kind == OpKind::contraction) contractions.push_back(static_cast<NodeId>(i));
  }
  // Operands of a contraction are read many times: from memory, through views that only move.
  std::vector<int> made_by_users(count, 0);
  for (NodeId id : contractions) {
    const Trace& product = traces[static_cast<std::size_t>(id)];
    const auto operand = [&](std::size_t side, bool through) {
      return operand_of(graph, id, side, through, traces, users);
    };
    const bool pairs =
        options.pairs && product.steps % 2 == 0 && operand(0, true).widened >= 0 && operand(1, true).widened >= 0;
    const Operand left = operand(0, pairs), right = operand(1, pairs);
    if (left.only_user && product.depth <= kMostDepth && is_made_from_narrower(graph, left.id, traces)) {
      ++made_by_users[static_cast<std::size_t>(left.id)];
      if (left.widened >= 0) ++made_by_users[static_cast<std::size_t>(left.widened)];
    } else {
      mark(forced, left.id);
    }
    mark(forced, right.id);
  }

  std::vector<int> cost(count, 0), size(count, 1);
  roots.functions.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    if (!live[i]) continue;
    const OpKind kind = node.op->kind;
    if (kind == OpKind::source) {
      roots.is_source[i] = true;
      continue;
    }
    cost[i] = traces[i].cost;
    roots.functions[i] = traces[i].functions;
    for (NodeId operand : node.operands) {
      const std::size_t o = static_cast<std::size_t>(operand);
      // Spread over more elements, a costly value is kept.
      const std::int64_t elements = num_elements(graph.node(operand).type.shape);
      if (kind == OpKind::view && !roots.in_memory(operand) && elements > 1 && cost[o] >= kRecompute &&
          num_elements(node.type.shape) > elements) {
        roots.is_root[o] = true;
      }
      if (roots.in_memory(operand)) continue;
      cost[i] += cost[o];
      size[i] = std::min(size[i] + size[o], 2 * kLargest);
      roots.functions[i] = std::min(roots.functions[i] + roots.functions[o], 2 * kMostFunctions);
    }
    const bool own_stage = kind == OpKind::reduction || kind == OpKind::contraction || kind == OpKind::scatter ||
                           kind == OpKind::sequential;
    const bool shared =
        users[i] > 1 && users[i] != made_by_users[i] && cost[i] >= kRecompute && num_elements(node.type.shape) > 1;
    const bool large = size[i] > kLargest || roots.functions[i] > kMostFunctions;
    roots.is_root[i] = !options.enabled || own_stage || forced[i] || roots.is_destination[i] || shared || large;
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
