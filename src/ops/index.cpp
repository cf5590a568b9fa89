// Positions as values: iota, and labels as rows of ones and zeros.
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

TensorType infer_iota(const InferArgs& args) {
  const auto& shape = args.attrs.get<std::vector<std::int64_t>>("shape");
  const DType dtype = args.attrs.get<DType>("dtype");
  rules::check_shape(args, shape);
  rules::axis_attr(args, shape);
  if (dtype == DType::boolean) args.fail(ErrorCode::dtype_mismatch, "expected a number type, got bool");
  return {dtype, shape};
}

void evaluate_iota(const EvalArgs& args) {
  const auto axis = static_cast<std::size_t>(args.node.attrs.get<std::int64_t>("axis"));
  rules::for_each_index(args.result.type.shape, [&](std::int64_t flat, const std::vector<std::int64_t>& at) {
    rules::set_element(args.result, flat, static_cast<double>(at[axis]));
  });
}

TensorType infer_one_hot(const InferArgs& args) {
  const TensorType& labels = args.operands[0];
  const std::int64_t depth = args.attrs.get<std::int64_t>("depth");
  if (!is_integer(labels.dtype)) args.fail(ErrorCode::dtype_mismatch, "expected integer labels");
  if (depth < 0) args.fail(ErrorCode::invalid_argument, "expected depth >= 0, got " + std::to_string(depth));
  TensorType result{args.attrs.get<DType>("dtype"), labels.shape};
  result.shape.push_back(depth);
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_one_hot(const EvalArgs& args) {
  const std::int64_t depth = args.node.attrs.get<std::int64_t>("depth");
  for (std::int64_t i = 0; i < args.result.size(); ++i) {
    const std::int64_t label = args.operands[0]->integer[static_cast<std::size_t>(i / depth)];
    rules::set_element(args.result, i, label == i % depth ? 1 : 0);
  }
}

Tensor decompose_one_hot(Graph& graph, const Node& node, const std::vector<Tensor>& operands) {
  const Shape shape = node.type.shape;
  const DType dtype = node.type.dtype;
  // Narrow lanes compare faster, but must hold every position and every label.
  const bool wide = operands[0].dtype() == DType::i64 || shape.back() > std::numeric_limits<std::int32_t>::max();
  const DType index = wide ? DType::i64 : DType::i32;
  Tensor labels = broadcast(unsqueeze(rules::narrow(operands[0], index), -1), shape);
  Tensor positions = iota(graph, shape, -1, index);
  return rules::narrow(equal(positions, labels), dtype);
}

}  // namespace

/// Each element's own position along `axis`: 0, 1, 2, ... Throws `invalid_argument`, `dtype_mismatch` for bool.
Tensor iota(Graph& graph, Shape shape, std::int64_t axis, DType dtype) {
  axis = rules::normalize_axis("iota", axis, shape);
  return graph.apply("iota", {}, {{"shape", std::move(shape)}, {"axis", axis}, {"dtype", dtype}});
}

/// [..., depth]: 1 where the last index is the integer label, else 0; all 0 for a label outside [0, depth). Labels that
/// are graph inputs are checked before a run. With dtype bool it is a mask. Throws `dtype_mismatch`,
/// `invalid_argument`.
Tensor one_hot(Tensor labels, std::int64_t depth, DType dtype /* = DType::f32 */) {
  return rules::graph_of("one_hot", labels).apply("one_hot", {labels}, {{"depth", depth}, {"dtype", dtype}});
}

void register_index(OpTable& table) {
  using Extents = std::vector<std::int64_t>;
  OpDef positions{.name = "iota",
                  .doc = "Each element's own position along an axis; it wraps or rounds as a cast from i64 does.",
                  .kind = OpKind::view};
  positions.min_operands = 0;
  positions.max_operands = 0;
  positions.attrs = {{"shape", "extents"}, {"axis", "the axis that is counted"}, {"dtype", "element type, not bool"}};
  positions.infer = infer_iota;
  positions.evaluate = evaluate_iota;
  positions.gradient = NotDifferentiable{"it has no operands"};
  positions.lower = [](LowerContext& ctx, const loops::Index& at) {
    const auto axis = static_cast<std::size_t>(ctx.node().attrs.get<std::int64_t>("axis"));
    return rules::narrow(ctx, ctx.exprs().index(at[axis]));
  };
  const auto counted = [](Extents shape, std::int64_t axis, DType dtype) {
    return Attrs{{"shape", std::move(shape)}, {"axis", axis}, {"dtype", dtype}};
  };
  positions.examples = {
      {{}, counted({7}, 0, i32)},    {{}, counted({3, 4}, 0, f32)}, {{}, counted({3, 4}, 1, i64)},
      {{}, counted({2, 0}, 0, f32)}, {{}, counted({300}, 0, u8)},   {{}, counted({2, 33, 2}, 1, f64)},
      {{}, counted({300}, 0, bf16)},
  };
  table.add(std::move(positions));

  OpDef hot{.name = "one_hot",
            .doc = "1 where the last index is the integer label, else 0; labels outside [0, depth) have no 1.",
            .kind = OpKind::composite};
  hot.attrs = {{"depth", "extent of the new last axis"}, {"dtype", "element type of the result"}};
  hot.infer = infer_one_hot;
  hot.evaluate = evaluate_one_hot;
  hot.gradient = NotDifferentiable{"labels are integers"};
  hot.decompose = decompose_one_hot;
  hot.index_operand = IndexOperand{
      0, [](const std::vector<TensorType>&, const Attrs& attrs) { return attrs.get<std::int64_t>("depth"); }};
  const auto of = [](std::int64_t depth, DType dtype) { return Attrs{{"depth", depth}, {"dtype", dtype}}; };
  hot.examples = {
      {{{i32, {4}}}, of(5, f32)}, {{{i64, {2, 3}}}, of(7, f64)},   {{{i32, {}}}, of(5, i32)},
      {{{i32, {0}}}, of(5, f32)}, {{{u8, {6}}}, of(300, boolean)},
  };
  table.add(std::move(hot));
}

}  // namespace wholestep
