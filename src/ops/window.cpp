// Views that leave elements out or add some around: slice and pad.
#include <cmath>

#include "core/convert.h"
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

using rules::graph_of;
using Extents = std::vector<std::int64_t>;

const Extents& per_axis(const InferArgs& args, std::string_view name) {
  const Extents& values = args.attrs.get<Extents>(name);
  if (values.size() != args.operands[0].shape.size()) {
    args.fail(ErrorCode::invalid_argument, "expected one value of " + std::string(name) + " for each of the " +
                                               std::to_string(args.operands[0].shape.size()) + " axes, got " +
                                               to_string(values));
  }
  return values;
}

TensorType infer_slice(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const Extents& starts = per_axis(args, "starts");
  const Extents& limits = per_axis(args, "limits");
  const Extents& strides = per_axis(args, "strides");
  TensorType result{x.dtype, {}};
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (starts[i] < 0 || limits[i] < starts[i] || limits[i] > x.shape[i] || strides[i] < 1) {
      args.fail(ErrorCode::invalid_argument, "expected 0 <= start <= limit <= " + std::to_string(x.shape[i]) +
                                                 " and stride >= 1 for axis " + std::to_string(i) + ", got " +
                                                 std::to_string(starts[i]) + ", " + std::to_string(limits[i]) +
                                                 " and " + std::to_string(strides[i]));
    }
    result.shape.push_back(limits[i] == starts[i] ? 0 : (limits[i] - starts[i] - 1) / strides[i] + 1);
  }
  return result;
}

void evaluate_slice(const EvalArgs& args) {
  const Extents& starts = args.node.attrs.get<Extents>("starts");
  const Extents& strides = args.node.attrs.get<Extents>("strides");
  const Extents from = row_major_strides(args.operands[0]->type.shape);
  rules::for_each_index(args.result.type.shape, [&](std::int64_t flat, const Extents& at) {
    std::int64_t source = 0;
    for (std::size_t i = 0; i < at.size(); ++i) source += (starts[i] + at[i] * strides[i]) * from[i];
    rules::copy_element(*args.operands[0], source, args.result, flat);
  });
}

// `x` with stride - 1 zeros between its neighbours along `axis`.
Tensor dilate(Tensor x, std::size_t axis, std::int64_t stride) {
  const std::int64_t extent = x.shape()[axis];
  if (extent <= 1) return x;
  Shape merged = x.shape();
  merged[axis] = extent * stride;
  Tensor columns = unsqueeze(x, static_cast<std::int64_t>(axis) + 1);
  Extents low(columns.shape().size(), 0), high = low;
  high[axis + 1] = stride - 1;
  Tensor padded = reshape(pad(columns, low, high, 0), merged);
  merged[axis] = (extent - 1) * stride + 1;
  return slice(padded, Extents(merged.size(), 0), merged);
}

std::vector<Tensor> gradient_of_slice(const GradientArgs& args) {
  const Shape shape = args.operands[0].shape();
  const Extents& starts = args.node.attrs.get<Extents>("starts");
  const Extents& strides = args.node.attrs.get<Extents>("strides");
  Tensor grad = args.cotangent;
  Extents high;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] > 1) grad = dilate(grad, i, strides[i]);
    high.push_back(shape[i] - starts[i] - grad.shape()[i]);
  }
  return {pad(grad, starts, high, 0)};
}

loops::ExprId lower_slice(LowerContext& ctx, const loops::Index& at) {
  const Extents& starts = ctx.node().attrs.get<Extents>("starts");
  const Extents& strides = ctx.node().attrs.get<Extents>("strides");
  loops::Index from;
  for (std::size_t i = 0; i < at.size(); ++i) {
    // A stride past the end means the first element alone: keep index arithmetic far from overflow.
    const std::int64_t stride = std::min(strides[i], std::max<std::int64_t>(ctx.operand_type(0).shape[i], 1));
    from.push_back(at[i] * stride + loops::Affine(starts[i]));
  }
  return ctx.operand(0, from);
}

TensorType infer_pad(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  const Extents& low = per_axis(args, "low");
  const Extents& high = per_axis(args, "high");
  const double value = args.attrs.get<double>("value");
  if (!is_float(x.dtype) && static_cast<double>(saturate_to_integer(value, x.dtype)) != value) {
    args.fail(ErrorCode::invalid_argument,
              std::to_string(value) + " is not a value of " + std::string(to_string(x.dtype)));
  }
  TensorType result{x.dtype, {}};
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (low[i] < 0 || high[i] < 0) {
      args.fail(ErrorCode::invalid_argument, "expected low >= 0 and high >= 0 for axis " + std::to_string(i) +
                                                 ", got " + std::to_string(low[i]) + " and " + std::to_string(high[i]));
    }
    result.shape.push_back(rules::add_extents(args, rules::add_extents(args, x.shape[i], low[i]), high[i]));
  }
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_pad(const EvalArgs& args) {
  const Shape& from = args.operands[0]->type.shape;
  const Extents& low = args.node.attrs.get<Extents>("low");
  const Extents strides = row_major_strides(from);
  const double value = args.node.attrs.get<double>("value");
  rules::for_each_index(args.result.type.shape, [&](std::int64_t flat, const Extents& at) {
    std::int64_t source = 0;
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::int64_t position = at[i] - low[i];
      inside = inside && position >= 0 && position < from[i];
      source += position * strides[i];
    }
    if (inside) {
      rules::copy_element(*args.operands[0], source, args.result, flat);
    } else {
      rules::set_element(args.result, flat, value);
    }
  });
}

std::vector<Tensor> gradient_of_pad(const GradientArgs& args) {
  const Extents& low = args.node.attrs.get<Extents>("low");
  Extents limits = low;
  for (std::size_t i = 0; i < limits.size(); ++i) limits[i] += args.operands[0].shape()[i];
  return {slice(args.cotangent, low, limits)};
}

loops::ExprId lower_pad(LowerContext& ctx, const loops::Index& at) {
  const Shape& from = ctx.operand_type(0).shape;
  const Extents& low = ctx.node().attrs.get<Extents>("low");
  const double value = ctx.node().attrs.get<double>("value");
  loops::Index index;
  std::vector<loops::Guard> guards;
  for (std::size_t i = 0; i < at.size(); ++i) {
    index.push_back(at[i] - loops::Affine(low[i]));
    if (ctx.node().type.shape[i] != from[i]) guards.push_back({at[i], low[i], low[i] + from[i]});
  }
  if (guards.empty()) return ctx.operand(0, index);
  const loops::ExprId inside = ctx.operand_guarded(0, index, guards);
  if (value == 0 && !std::signbit(value)) return inside;
  return ctx.exprs().select(ctx.exprs().in_range(guards), inside, ctx.exprs().constant(value, ctx.node().type.dtype));
}

}  // namespace

/// Elements `starts`, `starts + strides`, ... before `limits` along each axis; `strides` empty means 1 everywhere.
/// Negative starts and limits count from the end. Throws `invalid_argument`.
Tensor slice(Tensor x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
             std::vector<std::int64_t> strides /* = {} */) {
  Graph& graph = graph_of("slice", x);
  if (strides.empty()) strides.assign(x.shape().size(), 1);
  for (Extents* values : {&starts, &limits}) {
    for (std::size_t i = 0; i < std::min(values->size(), x.shape().size()); ++i) {
      std::int64_t& value = (*values)[i];
      const std::int64_t extent = x.shape()[i];
      if (value < -extent || value > extent) {
        throw Error(ErrorCode::invalid_argument, "slice: " + std::string(values == &starts ? "start " : "limit ") +
                                                     std::to_string(value) + " of axis " + std::to_string(i) + " of " +
                                                     to_string(x.type()) + ", expected " + std::to_string(-extent) +
                                                     " to " + std::to_string(extent));
      }
      if (value < 0) value += extent;
    }
  }
  return graph.apply("slice", {x},
                     {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", std::move(strides)}});
}

/// `x` with `low[i]` elements of `value` before and `high[i]` after it along each axis i. Throws `invalid_argument`.
Tensor pad(Tensor x, std::vector<std::int64_t> low, std::vector<std::int64_t> high, double value /* = 0 */) {
  return graph_of("pad", x).apply("pad", {x}, {{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}});
}

void register_window(OpTable& table) {
  OpDef slice_op{.name = "slice", .doc = "Elements at regular distances along each axis.", .kind = OpKind::view};
  slice_op.attrs = {{"starts", "first element per axis"},
                    {"limits", "end per axis, exclusive"},
                    {"strides", "distance per axis, at least 1"}};
  slice_op.infer = infer_slice;
  slice_op.evaluate = evaluate_slice;
  slice_op.gradient = gradient_of_slice;
  slice_op.lower = lower_slice;
  const auto cut = [](Extents starts, Extents limits, Extents strides) {
    return Attrs{{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"strides", std::move(strides)}};
  };
  slice_op.examples = {
      {{{f32, {7}}}, cut({1}, {6}, {1})},
      {{{f32, {7}}}, cut({1}, {7}, {3})},
      {{{f32, {4, 6}}}, cut({1, 2}, {3, 6}, {1, 2})},
      {{{f32, {5, 4}}}, cut({0, 3}, {5, 4}, {2, 9})},
      {{{f32, {3, 2}}}, cut({1, 0}, {1, 2}, {1, 1})},
      {{{f32, {}}}, cut({}, {}, {})},
      {{{i32, {9}}}, cut({0}, {9}, {4})},
  };
  table.add(std::move(slice_op));

  OpDef pad_op{.name = "pad", .doc = "A constant around the operand.", .kind = OpKind::view};
  pad_op.attrs = {
      {"low", "elements before, per axis"}, {"high", "elements after, per axis"}, {"value", "the constant"}};
  pad_op.infer = infer_pad;
  pad_op.evaluate = evaluate_pad;
  pad_op.gradient = gradient_of_pad;
  pad_op.lower = lower_pad;
  const auto around = [](Extents low, Extents high, double value) {
    return Attrs{{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}};
  };
  pad_op.examples = {
      {{{f32, {5}}}, around({2}, {3}, 0)},
      {{{f32, {3, 4}}}, around({1, 0}, {0, 2}, 1.5)},
      {{{f32, {2, 3, 2}}}, around({0, 1, 0}, {0, 1, 0}, -1)},
      {{{f32, {0}}}, around({2}, {1}, 4)},
      {{{f32, {}}}, around({}, {}, 7)},
      {{{i32, {2, 2}}}, around({1, 1}, {1, 1}, 9)},
      {{{f32, {17}}}, around({16}, {1}, 0.25)},
      {{{f32, {2, 2}}}, around({0, 0}, {0, 0}, 3)},
  };
  table.add(std::move(pad_op));
}

}  // namespace wholestep
