#include "ops/shape_rules.h"

namespace wholestep {
namespace {

TensorType infer_concat(const InferArgs& args) {
  TensorType result = args.operands[0];
  const auto axis = static_cast<std::size_t>(rules::axis_attr(args, result.shape));
  for (std::size_t i = 1; i < args.operands.size(); ++i) {
    const TensorType& x = args.operands[i];
    if (x.dtype != result.dtype) {
      args.fail(ErrorCode::dtype_mismatch, "operand " + std::to_string(i) + " has another element type than operand 0");
    }
    bool fits = x.shape.size() == result.shape.size();
    for (std::size_t d = 0; fits && d < x.shape.size(); ++d) fits = d == axis || x.shape[d] == result.shape[d];
    if (!fits) {
      args.fail(
          ErrorCode::shape_mismatch,
          "operand " + std::to_string(i) + " must have the shape of operand 0 but for axis " + std::to_string(axis));
    }
    result.shape[axis] = rules::add_extents(args, result.shape[axis], x.shape[axis]);
  }
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_concat(const EvalArgs& args) {
  const auto axis = static_cast<std::size_t>(args.node.attrs.get<std::int64_t>("axis"));
  const std::vector<std::int64_t> strides = row_major_strides(args.result.type.shape);
  std::int64_t offset = 0;
  for (const HostValue* x : args.operands) {
    rules::for_each_index(x->type.shape, [&](std::int64_t flat, const std::vector<std::int64_t>& at) {
      rules::copy_element(*x, flat, args.result, rules::dot(at, strides) + offset * strides[axis]);
    });
    offset += x->type.shape[axis];
  }
}

std::vector<Tensor> gradient_of_concat(const GradientArgs& args) {
  const auto axis = static_cast<std::size_t>(args.node.attrs.get<std::int64_t>("axis"));
  std::vector<Tensor> grads;
  std::vector<std::int64_t> starts(args.node.type.shape.size(), 0), limits = args.node.type.shape;
  for (std::size_t i = 0; i < args.operands.size(); ++i) {
    limits[axis] = starts[axis] + args.operands[i].shape()[axis];
    grads.push_back(args.wanted[i] ? slice(args.cotangent, starts, limits) : Tensor());
    starts[axis] = limits[axis];
  }
  return grads;
}

loops::ExprId lower_concat(LowerContext& ctx, const loops::Index& at) {
  const auto axis = static_cast<std::size_t>(ctx.node().attrs.get<std::int64_t>("axis"));
  std::int64_t end = ctx.node().type.shape[axis];
  loops::ExprId result = loops::kNoExpr;
  for (int i = static_cast<int>(ctx.node().operands.size()); i-- > 0;) {
    const std::int64_t start = end - ctx.operand_type(i).shape[axis];
    const std::vector<loops::Guard> guards{{at[axis], start, end}};
    loops::Index index = at;
    index[axis] = at[axis] - loops::Affine(start);
    const loops::ExprId part = ctx.operand_guarded(i, index, guards);
    result = result == loops::kNoExpr ? part : ctx.exprs().select(ctx.exprs().in_range(guards), part, result);
    end = start;
  }
  return result;
}

}  // namespace

/// `parts` one after another along `axis`; all other extents and the element types are equal. Throws `shape_mismatch`,
/// `dtype_mismatch`, `invalid_argument`.
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "concat: expected at least one operand, got none");
  Graph& graph = rules::graph_of("concat", parts[0]);
  axis = rules::normalize_axis("concat", axis, parts[0].shape());
  return graph.apply("concat", parts, {{"axis", axis}});
}

void register_concat(OpTable& table) {
  OpDef def{.name = "concat", .doc = "Operands one after another along an axis.", .kind = OpKind::view};
  def.max_operands = -1;
  def.attrs = {{"axis", "the axis along which they follow each other"}};
  def.infer = infer_concat;
  def.evaluate = evaluate_concat;
  def.gradient = gradient_of_concat;
  def.lower = lower_concat;
  const auto along = [](std::int64_t axis) { return Attrs{{"axis", axis}}; };
  def.examples = {
      {{{f32, {3}}, {f32, {2}}}, along(0)},
      {{{f32, {2, 3}}, {f32, {2, 1}}, {f32, {2, 4}}}, along(1)},
      {{{f32, {2, 3}}, {f32, {4, 3}}}, along(0)},
      {{{f32, {5, 2, 2}}}, along(1)},
      {{{f32, {0, 2}}, {f32, {3, 2}}, {f32, {0, 2}}}, along(0)},
      {{{i32, {17}}, {i32, {16}}}, along(0)},
  };
  table.add(std::move(def));
}

}  // namespace wholestep
