#include <fmt/format.h>

#include "graph/op.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::nn {
namespace {

Tensor find_or_declare(Graph& graph, std::string_view name, const TensorType& type) {
  const Tensor known = graph.find(name);
  if (!known) return graph.input(std::string(name), type.shape, type.dtype);
  const std::string& op = graph.node(known.id()).op->name;
  if (op == "input" && known.type() == type) return known;
  throw Error(ErrorCode::duplicate_name,
              fmt::format("{}: the name \"{}\" is reserved for an input of {}, but the graph has {} of {}",
                          graph.name(), name, to_string(type), op, to_string(known.type())));
}

std::int64_t next_stream(const Graph& graph) {
  std::int64_t next = 0;
  for (const NodeId id : graph.nodes_of("random_bits")) {
    next = std::max(next, graph.node(id).attrs.get<std::int64_t>("stream") + 1);
  }
  return next;
}

}  // namespace

Tensor step_seed(Graph& graph) { return find_or_declare(graph, kStepSeed, {DType::i32, {4}}); }
Tensor step_training(Graph& graph) { return find_or_declare(graph, kStepTraining, {DType::boolean, {}}); }

Tensor dropout(Graph& graph, Tensor x, double rate) {
  if (!(rate >= 0 && rate < 1)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("dropout: expected 0 <= rate < 1, got {}", rate));
  }
  if (!x.valid() || !is_float(x.dtype())) {
    throw Error(ErrorCode::dtype_mismatch, fmt::format("dropout: expected floating-point x, got {}",
                                                       x.valid() ? to_string(x.type()) : "a tensor of no graph"));
  }
  if (rate == 0) return x;
  const Tensor uniform = random_uniform(step_seed(graph), x.shape(), next_stream(graph));
  const Tensor dropped = select(greater_equal(uniform, rate), mul(x, 1 / (1 - rate)), 0.0);
  return select(broadcast(step_training(graph), x.shape()), dropped, x);
}

}  // namespace wholestep::nn
