// Probabilities from logits. Decomposed so that the largest element, the exponentials and their sum are the same nodes
// wherever they are needed again: in gradients, and in cross-entropy.
#include <cmath>

#include "ops/shape_rules.h"

namespace wholestep {
namespace {

TensorType infer_softmax(const InferArgs& args) {
  if (!is_float(args.operands[0].dtype)) args.fail(ErrorCode::dtype_mismatch, "expected a floating-point type");
  rules::axis_attr(args, args.operands[0].shape);
  return args.operands[0];
}

template <bool kLog>
void evaluate_softmax(const EvalArgs& args) {
  const HostValue& x = *args.operands[0];
  const rules::Rows rows(x.type.shape, args.node.attrs.get<std::int64_t>("axis"));
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(rows.start(row) + i * rows.stride); };
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < rows.extent; ++i) largest = std::max(largest, x.real[at(i)]);
    double sum = 0;
    for (std::int64_t i = 0; i < rows.extent; ++i) sum += std::exp(x.real[at(i)] - largest);
    for (std::int64_t i = 0; i < rows.extent; ++i) {
      const double shifted = x.real[at(i)] - largest;
      args.result.real[at(i)] = kLog ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
}

template <bool kLog>
Tensor decompose_softmax(Graph&, const Node& node, const std::vector<Tensor>& operands) {
  const std::int64_t axis = node.attrs.get<std::int64_t>("axis");
  Tensor x = rules::widen(operands[0]);
  const Shape shape = x.shape();
  Tensor shifted = sub(x, broadcast(reduce_max(x, {axis}, true), shape));
  Tensor exponential = exp(shifted);
  Tensor sum = reduce_sum(exponential, {axis}, true);
  Tensor result = kLog ? sub(shifted, broadcast(log(sum), shape)) : div(exponential, broadcast(sum, shape));
  return rules::narrow(result, operands[0].dtype());
}

std::vector<Tensor> gradient_of_softmax(const GradientArgs& args) {
  const std::int64_t axis = args.node.attrs.get<std::int64_t>("axis");
  Tensor y = args.output, g = args.cotangent;
  Tensor mean = reduce_sum(mul(g, y), {axis}, true);
  return {mul(y, sub(g, broadcast(mean, g.shape())))};
}

std::vector<Tensor> gradient_of_log_softmax(const GradientArgs& args) {
  const std::int64_t axis = args.node.attrs.get<std::int64_t>("axis");
  Tensor g = args.cotangent;
  Tensor total = broadcast(reduce_sum(g, {axis}, true), g.shape());
  return {sub(g, mul(softmax(args.operands[0], axis), total))};
}

}  // namespace

/// exp(x) / sum(exp(x)) along `axis`, without overflow. Throws `invalid_argument`, `dtype_mismatch` unless floating
/// point.
Tensor softmax(Tensor x, std::int64_t axis /* = -1 */) {
  Graph& graph = rules::graph_of("softmax", x);
  return graph.apply("softmax", {x}, {{"axis", rules::normalize_axis("softmax", axis, x.shape())}});
}

/// log(softmax(x)) along `axis`, without overflow or cancellation. Throws as `softmax`.
Tensor log_softmax(Tensor x, std::int64_t axis /* = -1 */) {
  Graph& graph = rules::graph_of("log_softmax", x);
  return graph.apply("log_softmax", {x}, {{"axis", rules::normalize_axis("log_softmax", axis, x.shape())}});
}

void register_softmax(OpTable& table) {
  const auto along = [](std::int64_t axis) { return Attrs{{"axis", axis}}; };
  OpDef soft{.name = "softmax",
             .doc = "exp(x) / sum(exp(x)) along an axis, computed from x - max(x); bf16 and f16 in f32.",
             .kind = OpKind::composite};
  soft.attrs = {{"axis", "the axis along which the result sums to 1"}};
  soft.infer = infer_softmax;
  soft.examples = {
      {{{f32, {6}}}, along(0)},     {{{f32, {3, 10}}}, along(1)},
      {{{f32, {10, 3}}}, along(0)}, {{{f32, {2, 5, 3}}}, along(1)},
      {{{f32, {4, 1}}}, along(1)},  {{{f32, {0, 4}}}, along(1)},
      {{{f32, {4, 0}}}, along(1)},  {{{f64, {2, 33}}}, along(1)},
      {{{bf16, {2, 7}}}, along(1)}, {{{f32, {2, 9}}}, along(1), {{-80, 80}}},
  };
  OpDef log_soft = soft;
  soft.evaluate = evaluate_softmax<false>;
  soft.decompose = decompose_softmax<false>;
  soft.gradient = gradient_of_softmax;
  table.add(std::move(soft));

  log_soft.name = "log_softmax";
  log_soft.doc = "x - log(sum(exp(x))) along an axis, computed from x - max(x); bf16 and f16 in f32.";
  log_soft.evaluate = evaluate_softmax<true>;
  log_soft.decompose = decompose_softmax<true>;
  log_soft.gradient = gradient_of_log_softmax;
  table.add(std::move(log_soft));
}

}  // namespace wholestep
