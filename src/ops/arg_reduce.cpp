// Positions of extremes.
#include <cmath>

#include "ops/shape_rules.h"

namespace wholestep {
namespace {

TensorType infer_arg(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const std::int64_t axis = rules::axis_attr(args, x.shape);
  if (x.shape[static_cast<std::size_t>(axis)] == 0) {
    args.fail(ErrorCode::invalid_argument, "axis " + std::to_string(axis) + " is empty: no element has a position");
  }
  return {DType::i64, rules::reduced_shape(x.shape, {axis}, args.attrs.get<bool>("keepdims"))};
}

template <bool kLargest>
void evaluate_arg(const EvalArgs& args) {
  const HostValue& x = *args.operands[0];
  const rules::Rows rows(x.type.shape, args.node.attrs.get<std::int64_t>("axis"));
  const bool is_real = is_float(x.type.dtype);
  const auto precedes = [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if (!is_real) return kLargest ? x.integer[i] > x.integer[j] : x.integer[i] < x.integer[j];
    if (std::isnan(x.real[j])) return false;
    return std::isnan(x.real[i]) || (kLargest ? x.real[i] > x.real[j] : x.real[i] < x.real[j]);
  };
  for (std::int64_t row = 0; row < rows.count; ++row) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < rows.extent; ++i) {
      if (precedes(rows.start(row) + i * rows.stride, rows.start(row) + best * rows.stride)) best = i;
    }
    args.result.integer[static_cast<std::size_t>(row)] = best;
  }
}

// The smallest position at which the extreme, or a NaN, stands.
template <bool kLargest>
Tensor decompose_arg(Graph& graph, const Node& node, const std::vector<Tensor>& operands) {
  Tensor x = operands[0];
  const Shape shape = x.shape();
  const std::int64_t axis = node.attrs.get<std::int64_t>("axis");
  const bool keepdims = node.attrs.get<bool>("keepdims");
  const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
  Tensor extreme = kLargest ? reduce_max(x, {axis}, true) : reduce_min(x, {axis}, true);
  Tensor hit = equal(x, broadcast(extreme, shape));
  if (is_float(x.dtype())) hit = logical_or(hit, is_nan(x));
  const DType index = extent <= std::numeric_limits<std::int32_t>::max() ? DType::i32 : DType::i64;
  Tensor none = graph.full(shape, static_cast<double>(extent - 1), index);
  Tensor position = select(hit, iota(graph, shape, axis, index), none);
  return rules::narrow(reduce_min(position, {axis}, keepdims), DType::i64);
}

Tensor arg(std::string_view op, Tensor x, std::int64_t axis, bool keepdims) {
  Graph& graph = rules::graph_of(op, x);
  axis = rules::normalize_axis(op, axis, x.shape());
  return graph.apply(op, {x}, {{"axis", axis}, {"keepdims", keepdims}});
}

}  // namespace

/// Position (i64) of the largest element along `axis`: the first of equal ones, the first NaN where there is one.
/// Throws `invalid_argument` where the axis is empty or missing.
Tensor argmax(Tensor x, std::int64_t axis, bool keepdims /* = false */) { return arg("argmax", x, axis, keepdims); }

/// Position (i64) of the smallest element along `axis`, otherwise as `argmax`.
Tensor argmin(Tensor x, std::int64_t axis, bool keepdims /* = false */) { return arg("argmin", x, axis, keepdims); }

void register_arg_reduce(OpTable& table) {
  const auto along = [](std::int64_t axis, bool keepdims) { return Attrs{{"axis", axis}, {"keepdims", keepdims}}; };
  OpDef largest{.name = "argmax",
                .doc = "Position of the largest element along an axis; the first of ties, the first NaN before all.",
                .kind = OpKind::composite};
  largest.attrs = {{"axis", "the axis that is searched"}, {"keepdims", "whether it stays, with extent 1"}};
  largest.infer = infer_arg;
  largest.gradient = NotDifferentiable{"positions do not move with small changes"};
  largest.examples = {
      {{{f32, {7}}}, along(0, false)},       {{{f32, {3, 10}}}, along(1, false)},    {{{f32, {10, 3}}}, along(0, true)},
      {{{i32, {2, 5, 3}}}, along(1, false)}, {{{u8, {4, 33}}}, along(1, true)},      {{{f32, {0, 4}}}, along(1, false)},
      {{{f32, {4, 1}}}, along(1, false)},    {{{boolean, {5, 4}}}, along(1, false)},
  };
  OpDef smallest = largest;
  largest.evaluate = evaluate_arg<true>;
  largest.decompose = decompose_arg<true>;
  table.add(std::move(largest));

  smallest.name = "argmin";
  smallest.doc = "Position of the smallest element along an axis; the first of ties, the first NaN before all.";
  smallest.evaluate = evaluate_arg<false>;
  smallest.decompose = decompose_arg<false>;
  table.add(std::move(smallest));
}

}  // namespace wholestep
