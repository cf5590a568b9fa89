// Views that keep every element: reshape, transpose, broadcast, and the names people use for special cases of them.
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

using rules::graph_of;
using Extents = std::vector<std::int64_t>;

TensorType infer_reshape(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const Extents& shape = args.attrs.get<Extents>("shape");
  rules::check_shape(args, shape);
  if (rules::elements(shape) != rules::elements(x.shape)) {
    args.fail(ErrorCode::shape_mismatch, to_string(x.shape) + " has " + std::to_string(rules::elements(x.shape)) +
                                             " elements, but " + to_string(shape) + " has " +
                                             std::to_string(rules::elements(shape)));
  }
  return {x.dtype, shape};
}

void evaluate_reshape(const EvalArgs& args) {
  args.result.real = args.operands[0]->real;
  args.result.integer = args.operands[0]->integer;
}

Extents inverse_permutation(const Extents& perm) {
  Extents inverse(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return inverse;
}

TensorType infer_transpose(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const Extents& perm = args.attrs.get<Extents>("perm");
  Extents sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != rules::all_axes(x.shape)) {
    args.fail(ErrorCode::invalid_argument,
              "perm " + to_string(perm) + " is not an order of the axes of " + to_string(x.shape));
  }
  TensorType result{x.dtype, {}};
  for (const std::int64_t axis : perm) result.shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return result;
}

void evaluate_transpose(const EvalArgs& args) {
  const Extents& perm = args.node.attrs.get<Extents>("perm");
  const Extents from = row_major_strides(args.operands[0]->type.shape);
  Extents strides;
  for (const std::int64_t axis : perm) strides.push_back(from[static_cast<std::size_t>(axis)]);
  rules::for_each_index(args.result.type.shape, [&](std::int64_t flat, const Extents& at) {
    rules::copy_element(*args.operands[0], rules::dot(at, strides), args.result, flat);
  });
}

loops::ExprId lower_transpose(LowerContext& ctx, const loops::Index& at) {
  const Extents& perm = ctx.node().attrs.get<Extents>("perm");
  loops::Index from(at.size());
  for (std::size_t i = 0; i < perm.size(); ++i) from[static_cast<std::size_t>(perm[i])] = at[i];
  return ctx.operand(0, from);
}

// Whether `from` can be repeated to `to`: right-aligned, each extent equal or 1.
bool broadcasts(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  return std::equal(from.rbegin(), from.rend(), to.rbegin(),
                    [](std::int64_t a, std::int64_t b) { return a == b || a == 1; });
}

TensorType infer_broadcast(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const Extents& shape = args.attrs.get<Extents>("shape");
  rules::check_shape(args, shape);
  if (!broadcasts(x.shape, shape)) {
    args.fail(ErrorCode::shape_mismatch, to_string(x.shape) + " does not broadcast to " + to_string(shape) +
                                             ": aligned at the right, every extent must be equal or 1");
  }
  return {x.dtype, shape};
}

void evaluate_broadcast(const EvalArgs& args) {
  const Shape& from = args.operands[0]->type.shape;
  const Extents own = row_major_strides(from);
  Extents strides(args.result.type.shape.size(), 0);
  const std::size_t added = strides.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) strides[added + i] = from[i] == 1 ? 0 : own[i];
  rules::for_each_index(args.result.type.shape, [&](std::int64_t flat, const Extents& at) {
    rules::copy_element(*args.operands[0], rules::dot(at, strides), args.result, flat);
  });
}

std::vector<Tensor> gradient_of_broadcast(const GradientArgs& args) {
  const Shape from = args.operands[0].shape();
  const Shape& to = args.node.type.shape;
  const std::size_t added = to.size() - from.size();
  Extents repeated;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (i < added || from[i - added] != to[i]) repeated.push_back(static_cast<std::int64_t>(i));
  }
  return {reshape(repeated.empty() ? args.cotangent : reduce_sum(args.cotangent, repeated), from)};
}

loops::ExprId lower_broadcast(LowerContext& ctx, const loops::Index& at) {
  const Shape& from = ctx.operand_type(0).shape;
  loops::Index index;
  for (std::size_t i = 0; i < from.size(); ++i) {
    index.push_back(from[i] == 1 ? loops::Affine(0) : at[at.size() - from.size() + i]);
  }
  return ctx.operand(0, index);
}

}  // namespace

/// The elements of `x` in row-major order under another shape of as many elements. One extent may be -1: it is what
/// the others leave. Throws `shape_mismatch`, `invalid_argument`.
Tensor reshape(Tensor x, Shape shape) {
  Graph& graph = graph_of("reshape", x);
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown != shape.end()) {
    std::int64_t left = rules::elements(x.shape());
    bool divides = true;
    for (auto extent = shape.begin(); extent != shape.end(); ++extent) {
      if (extent == unknown) continue;
      divides = divides && *extent > 0 && left % *extent == 0;
      if (divides) left /= *extent;
    }
    if (!divides) {
      throw Error(ErrorCode::shape_mismatch, "reshape: no extent in place of -1 makes " + to_string(shape) +
                                                 " hold the elements of " + to_string(x.type()));
    }
    *unknown = left;
  }
  if (shape == x.shape()) return x;
  return graph.apply("reshape", {x}, {{"shape", std::move(shape)}});
}

/// Axis i of the result is axis `perm[i]` of `x`. Throws `invalid_argument`.
Tensor transpose(Tensor x, std::vector<std::int64_t> perm) {
  Graph& graph = graph_of("transpose", x);
  for (std::int64_t& axis : perm) axis = rules::normalize_axis("transpose", axis, x.shape());
  return graph.apply("transpose", {x}, {{"perm", std::move(perm)}});
}

/// `x` with its last two axes swapped. Throws `invalid_argument` for a rank below 2.
Tensor transpose(Tensor x) {
  graph_of("transpose", x);
  if (x.rank() < 2) {
    throw Error(ErrorCode::invalid_argument,
                "transpose: expected at least two axes to swap, got " + to_string(x.type()));
  }
  std::vector<std::int64_t> perm = rules::all_axes(x.shape());
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return transpose(x, std::move(perm));
}

/// `x` repeated to `shape` as NumPy does: aligned at the right, extents of 1 and missing ones are repeated. `x` itself
/// where it has that shape. Throws `shape_mismatch`.
Tensor broadcast(Tensor x, Shape shape) {
  Graph& graph = graph_of("broadcast", x);
  if (shape == x.shape()) return x;
  return graph.apply("broadcast", {x}, {{"shape", std::move(shape)}});
}

/// `x` with the axes from `first` on made one: [a, b, c] with first 1 is [a, b * c]. Throws `invalid_argument`.
Tensor flatten(Tensor x, std::int64_t first /* = 0 */) {
  graph_of("flatten", x);
  if (x.rank() == 0) return reshape(x, {1});
  first = rules::normalize_axis("flatten", first, x.shape());
  Shape shape(x.shape().begin(), x.shape().begin() + first);
  shape.push_back(rules::elements({x.shape().begin() + first, x.shape().end()}));
  return reshape(x, std::move(shape));
}

/// `x` without `axes`, each of extent 1. Throws `invalid_argument`, `shape_mismatch`.
Tensor squeeze(Tensor x, std::vector<std::int64_t> axes) {
  graph_of("squeeze", x);
  axes = rules::normalize_axes("squeeze", std::move(axes), x.shape());
  for (const std::int64_t axis : axes) {
    if (x.shape()[static_cast<std::size_t>(axis)] != 1) {
      throw Error(ErrorCode::shape_mismatch, "squeeze: axis " + std::to_string(axis) + " of " + to_string(x.type()) +
                                                 " has another extent than 1");
    }
  }
  return reshape(x, rules::reduced_shape(x.shape(), axes, false));
}

/// `x` with a new axis of extent 1 that is axis `axis` of the result. Throws `invalid_argument`.
Tensor unsqueeze(Tensor x, std::int64_t axis) {
  graph_of("unsqueeze", x);
  Shape shape = x.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank - 1 || axis > rank) {
    throw Error(ErrorCode::invalid_argument, "unsqueeze: axis " + std::to_string(axis) + " of the result, expected " +
                                                 std::to_string(-rank - 1) + " to " + std::to_string(rank) +
                                                 " where the operand is " + to_string(x.type()));
  }
  if (axis < 0) axis += rank + 1;
  shape.insert(shape.begin() + axis, 1);
  return reshape(x, std::move(shape));
}

void register_shape(OpTable& table) {
  OpDef reshape_op{.name = "reshape",
                   .doc = "The elements in row-major order under another shape of as many.",
                   .kind = OpKind::view};
  reshape_op.attrs = {{"shape", "the new extents"}};
  reshape_op.infer = infer_reshape;
  reshape_op.evaluate = evaluate_reshape;
  reshape_op.gradient = [](const GradientArgs& args) -> std::vector<Tensor> {
    return {reshape(args.cotangent, args.operands[0].shape())};
  };
  reshape_op.lower = [](LowerContext& ctx, const loops::Index& at) { return ctx.operand_reshaped(0, at); };
  reshape_op.examples = {
      {{{f32, {2, 6}}}, {{"shape", Extents{3, 4}}}},  {{{f32, {6}}}, {{"shape", Extents{1, 2, 3}}}},
      {{{f32, {}}}, {{"shape", Extents{1, 1}}}},      {{{f32, {1}}}, {{"shape", Extents{}}}},
      {{{f32, {0, 3}}}, {{"shape", Extents{5, 0}}}},  {{{i32, {4, 3, 2}}}, {{"shape", Extents{2, 12}}}},
      {{{boolean, {2, 2}}}, {{"shape", Extents{4}}}},
  };
  table.add(std::move(reshape_op));

  OpDef transpose_op{.name = "transpose", .doc = "The axes in another order.", .kind = OpKind::view};
  transpose_op.attrs = {{"perm", "axis i of the result is axis perm[i] of the operand"}};
  transpose_op.infer = infer_transpose;
  transpose_op.evaluate = evaluate_transpose;
  transpose_op.gradient = [](const GradientArgs& args) -> std::vector<Tensor> {
    return {transpose(args.cotangent, inverse_permutation(args.node.attrs.get<Extents>("perm")))};
  };
  transpose_op.lower = lower_transpose;
  transpose_op.examples = {
      {{{f32, {3, 5}}}, {{"perm", Extents{1, 0}}}},   {{{f32, {2, 3, 4}}}, {{"perm", Extents{2, 0, 1}}}},
      {{{f32, {17, 33}}}, {{"perm", Extents{1, 0}}}}, {{{f32, {2, 3, 4, 5}}}, {{"perm", Extents{0, 2, 1, 3}}}},
      {{{f32, {}}}, {{"perm", Extents{}}}},           {{{f32, {0, 2}}}, {{"perm", Extents{1, 0}}}},
      {{{u8, {4, 3}}}, {{"perm", Extents{1, 0}}}},
  };
  table.add(std::move(transpose_op));

  OpDef broadcast_op{.name = "broadcast",
                     .doc = "Repeats extents of 1 and missing outer axes, aligned at the right, as NumPy does.",
                     .kind = OpKind::view};
  broadcast_op.attrs = {{"shape", "the extents of the result"}};
  broadcast_op.infer = infer_broadcast;
  broadcast_op.evaluate = evaluate_broadcast;
  broadcast_op.gradient = gradient_of_broadcast;
  broadcast_op.lower = lower_broadcast;
  broadcast_op.examples = {
      {{{f32, {}}}, {{"shape", Extents{3, 2}}}},     {{{f32, {4}}}, {{"shape", Extents{3, 4}}}},
      {{{f32, {3, 1}}}, {{"shape", Extents{3, 5}}}}, {{{f32, {1, 3, 1}}}, {{"shape", Extents{2, 2, 3, 4}}}},
      {{{f32, {1}}}, {{"shape", Extents{0}}}},       {{{f32, {}}}, {{"shape", Extents{}}}},
      {{{i64, {2, 1}}}, {{"shape", Extents{2, 3}}}}, {{{boolean, {2}}}, {{"shape", Extents{3, 2}}}},
  };
  table.add(std::move(broadcast_op));
}

}  // namespace wholestep
