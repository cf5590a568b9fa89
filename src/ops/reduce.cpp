// Reductions over axes: sum, product, largest, smallest, mean.
#include <cmath>

#include "ops/shape_rules.h"

namespace wholestep {
namespace {

using loops::ReduceOp;
using rules::graph_of;
using Extents = std::vector<std::int64_t>;

TensorType infer_reduction(const InferArgs& args) {
  const TensorType& x = args.operands[0];
  return {x.dtype, rules::reduced_shape(x.shape, rules::axes_attr(args, x.shape), args.attrs.get<bool>("keepdims"))};
}

TensorType infer_arithmetic(const InferArgs& args) {
  if (args.operands[0].dtype == DType::boolean) {
    args.fail(ErrorCode::dtype_mismatch, "expected numbers; cast bool to the type in which to count");
  }
  return infer_reduction(args);
}

TensorType infer_mean(const InferArgs& args) {
  if (!is_float(args.operands[0].dtype)) args.fail(ErrorCode::dtype_mismatch, "expected a floating-point type");
  return infer_reduction(args);
}

// result = start, then result[o] = combine(result[o], x[i]) for every element i that is reduced into o, in order.
template <class Real, class Integer>
void fold(const EvalArgs& args, double real_start, std::int64_t integer_start, const Real& real,
          const Integer& integer) {
  const HostValue& x = *args.operands[0];
  const Extents& axes = args.node.attrs.get<Extents>("axes");
  const Extents kept = row_major_strides(rules::reduced_shape(x.type.shape, axes, true));
  Extents strides = kept;
  for (const std::int64_t axis : axes) strides[static_cast<std::size_t>(axis)] = 0;
  const bool is_real = is_float(x.type.dtype);
  std::fill(args.result.real.begin(), args.result.real.end(), real_start);
  std::fill(args.result.integer.begin(), args.result.integer.end(), integer_start);
  rules::for_each_index(x.type.shape, [&](std::int64_t flat, const Extents& at) {
    const auto from = static_cast<std::size_t>(flat);
    const auto to = static_cast<std::size_t>(rules::dot(at, strides));
    if (is_real) {
      args.result.real[to] = real(args.result.real[to], x.real[from]);
    } else {
      args.result.integer[to] = integer(args.result.integer[to], x.integer[from]);
    }
  });
}

double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double smaller(double a, double b) { return std::isnan(a) || a < b ? a : b; }

void evaluate_sum(const EvalArgs& args) {
  fold(args, 0, 0, [](double a, double b) { return a + b; }, rules::wrapping_add);
}
void evaluate_prod(const EvalArgs& args) {
  fold(args, 1, 1, [](double a, double b) { return a * b; }, rules::wrapping_mul);
}
void evaluate_max(const EvalArgs& args) {
  fold(args, -std::numeric_limits<double>::infinity(), rules::integer_range(args.node.type.dtype).first, larger,
       [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}
void evaluate_min(const EvalArgs& args) {
  fold(args, std::numeric_limits<double>::infinity(), rules::integer_range(args.node.type.dtype).second, smaller,
       [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}

// Number of elements that go into one of the result.
double group_size(const Shape& shape, const Extents& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= shape[static_cast<std::size_t>(axis)];
  return static_cast<double>(count);
}

void evaluate_mean(const EvalArgs& args) {
  evaluate_sum(args);
  const double count = group_size(args.operands[0]->type.shape, args.node.attrs.get<Extents>("axes"));
  for (double& value : args.result.real) value /= count;
}

// A result of the reduction, with or without the reduced axes, repeated to the operand's shape.
Tensor spread(const GradientArgs& args, Tensor reduced) {
  const Shape shape = args.operands[0].shape();
  return broadcast(reshape(reduced, rules::reduced_shape(shape, args.node.attrs.get<Extents>("axes"), true)), shape);
}

// `x` moved by `by` places along its last axis, towards the end or the start, with ones where nothing moves in.
Tensor shift(Tensor x, std::int64_t by, bool towards_end) {
  Extents low(x.shape().size(), 0), high = low, starts = low, limits = x.shape();
  (towards_end ? low : high).back() = by;
  if (!towards_end) {
    starts.back() = by;
    limits.back() += by;
  }
  return slice(pad(x, low, high, 1), starts, limits);
}

// Along the last axis, the product of all elements before (`forward`) or after each one; doubling distances.
Tensor running_product(Tensor x, bool forward) {
  Tensor product = shift(x, 1, forward);
  for (std::int64_t distance = 1; distance < x.shape().back(); distance *= 2) {
    product = mul(product, shift(product, distance, forward));
  }
  return product;
}

// The product of all the others in each group. No division, so zeros are right, in every derivative.
std::vector<Tensor> gradient_of_prod(const GradientArgs& args) {
  Tensor x = args.operands[0];
  const Shape shape = x.shape();
  const Extents& axes = args.node.attrs.get<Extents>("axes");
  if (rules::elements(shape) == 0) return {args.graph.full(shape, 0, x.dtype())};
  Extents perm, inverse(shape.size());
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!rules::contains(axes, axis)) perm.push_back(axis);
  }
  const std::size_t kept = perm.size();
  perm.insert(perm.end(), axes.begin(), axes.end());
  for (std::size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);

  Tensor moved = transpose(x, perm);
  const Shape moved_shape = moved.shape();
  Shape grouped(moved_shape.begin(), moved_shape.begin() + static_cast<std::ptrdiff_t>(kept));
  grouped.push_back(-1);
  Tensor groups = reshape(moved, grouped);
  Tensor others = mul(running_product(groups, true), running_product(groups, false));
  return {mul(spread(args, args.cotangent), transpose(reshape(others, moved_shape), inverse))};
}

// Split equally between ties, as in JAX.
std::vector<Tensor> gradient_of_extreme(const GradientArgs& args) {
  Tensor x = args.operands[0];
  const Extents& axes = args.node.attrs.get<Extents>("axes");
  Tensor hits = cast(equal(x, spread(args, args.output)), x.dtype());
  Tensor count = reduce_sum(hits, axes, true);
  return {mul(hits, spread(args, div(reshape(args.cotangent, count.shape()), count)))};
}

std::vector<Tensor> gradient_of_mean(const GradientArgs& args) {
  const double count = group_size(args.operands[0].shape(), args.node.attrs.get<Extents>("axes"));
  return {spread(args, div(args.cotangent, count))};
}

Tensor decompose_mean(Graph&, const Node& node, const std::vector<Tensor>& operands) {
  const Extents axes = node.attrs.get<Extents>("axes");
  const bool keepdims = node.attrs.get<bool>("keepdims");
  Tensor x = operands[0];
  return rules::narrow(div(reduce_sum(rules::widen(x), axes, keepdims), group_size(x.shape(), axes)), x.dtype());
}

// Lowers to `op` over the reduced axes; to `boolean_op` for booleans.
LowerRule lower_to(ReduceOp op, ReduceOp boolean_op) {
  return [op, boolean_op](LowerContext& ctx, const loops::Index& at) {
    const TensorType& x = ctx.operand_type(0);
    const Extents& axes = ctx.node().attrs.get<Extents>("axes");
    const bool keepdims = ctx.node().attrs.get<bool>("keepdims");
    Extents extents;
    for (const std::int64_t axis : axes) extents.push_back(x.shape[static_cast<std::size_t>(axis)]);
    return rules::narrow(
        ctx, ctx.reduce(x.dtype == DType::boolean ? boolean_op : op, extents, [&](const loops::Index& inner) {
          loops::Index index;
          std::size_t reduced = 0, kept = 0;
          for (std::size_t i = 0; i < x.shape.size(); ++i) {
            const bool is_reduced = rules::contains(axes, static_cast<std::int64_t>(i));
            index.push_back(is_reduced ? inner[reduced++] : at[kept]);
            if (!is_reduced || keepdims) ++kept;
          }
          return rules::widen(ctx, ctx.operand(0, index));
        }));
  };
}

Tensor reduce(std::string_view op, Tensor x, std::vector<std::int64_t> axes, bool keepdims) {
  Graph& graph = graph_of(op, x);
  axes = rules::normalize_axes(op, std::move(axes), x.shape());
  return graph.apply(op, {x}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
}

Tensor reduce_all(std::string_view op, Tensor x) {
  graph_of(op, x);
  return reduce(op, x, rules::all_axes(x.shape()), false);
}

}  // namespace

/// Sum over `axes` (none: `x` unchanged), which stay as extents of 1 where `keepdims`; 0 over no elements. Integers
/// wrap; bf16 and f16 accumulate in f32. Throws `invalid_argument`, `dtype_mismatch` for bool.
Tensor reduce_sum(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce("reduce_sum", x, std::move(axes), keepdims);
}

/// Sum of all elements, a scalar.
Tensor reduce_sum(Tensor x) { return reduce_all("reduce_sum", x); }

/// `reduce_sum`.
Tensor sum(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce_sum(x, std::move(axes), keepdims);
}

/// `reduce_sum` of all elements.
Tensor sum(Tensor x) { return reduce_sum(x); }

/// Product over `axes`; 1 over no elements. Otherwise as `reduce_sum`.
Tensor reduce_prod(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce("reduce_prod", x, std::move(axes), keepdims);
}

/// Product of all elements, a scalar.
Tensor reduce_prod(Tensor x) { return reduce_all("reduce_prod", x); }

/// `reduce_prod`.
Tensor prod(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce_prod(x, std::move(axes), keepdims);
}

/// `reduce_prod` of all elements.
Tensor prod(Tensor x) { return reduce_prod(x); }

/// Largest element over `axes`; NaN where one is NaN; -infinity or the smallest integer over no elements. Throws
/// `invalid_argument`.
Tensor reduce_max(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce("reduce_max", x, std::move(axes), keepdims);
}

/// Largest of all elements, a scalar.
Tensor reduce_max(Tensor x) { return reduce_all("reduce_max", x); }

/// Smallest element over `axes`; NaN where one is NaN; infinity or the largest integer over no elements. Throws
/// `invalid_argument`.
Tensor reduce_min(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce("reduce_min", x, std::move(axes), keepdims);
}

/// Smallest of all elements, a scalar.
Tensor reduce_min(Tensor x) { return reduce_all("reduce_min", x); }

/// Arithmetic mean over `axes`; NaN over no elements. Throws `invalid_argument`, `dtype_mismatch` unless floating
/// point.
Tensor reduce_mean(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce("reduce_mean", x, std::move(axes), keepdims);
}

/// Mean of all elements, a scalar.
Tensor reduce_mean(Tensor x) { return reduce_all("reduce_mean", x); }

/// `reduce_mean`.
Tensor mean(Tensor x, std::vector<std::int64_t> axes, bool keepdims /* = false */) {
  return reduce_mean(x, std::move(axes), keepdims);
}

/// `reduce_mean` of all elements.
Tensor mean(Tensor x) { return reduce_mean(x); }

void register_reduce(OpTable& table) {
  const auto over = [](Extents axes, bool keepdims) {
    return Attrs{{"axes", std::move(axes)}, {"keepdims", keepdims}};
  };
  // Near 1, so that products stay in range.
  const std::vector<std::pair<double, double>> near_one{{0.5, 1.5}};
  std::vector<OpExample> floats = {
      {{{f32, {7}}}, over({0}, false), near_one},
      {{{f32, {3, 5}}}, over({1}, false), near_one},
      {{{f32, {3, 5}}}, over({0}, true), near_one},
      {{{f32, {2, 3, 4}}}, over({0, 2}, false), near_one},
      {{{f32, {2, 3, 4}}}, over({0, 1, 2}, true), near_one},
      {{{f32, {3, 33}}}, over({1}, true), near_one},
      {{{f32, {33, 3}}}, over({0}, false), near_one},
      {{{f32, {}}}, over({}, false), near_one},
      {{{f32, {2, 2}}}, over({}, false), near_one},
      {{{f32, {2, 0}}}, over({0}, false), near_one},
      {{{f32, {1, 4, 1}}}, over({0, 2}, false), near_one},
      {{{f64, {4, 4}}}, over({1}, false), near_one},
      {{{bf16, {2, 9}}}, over({1}, false), near_one},
  };
  std::vector<OpExample> numbers = floats;
  numbers.push_back({{{f32, {0, 3}}}, over({0}, false)});
  numbers.push_back({{{i32, {3, 4}}}, over({1}, false)});
  numbers.push_back({{{i64, {20}}}, over({0}, true)});
  numbers.push_back({{{u8, {19, 2}}}, over({0}, false)});
  numbers.push_back({{{i32, {0}}}, over({0}, false)});
  std::vector<OpExample> ordered = numbers;
  ordered.push_back({{{boolean, {3, 4}}}, over({1}, false)});

  OpDef sum_op{.name = "reduce_sum",
               .doc = "Sum over axes; 0 over no elements. Integers wrap; bf16 and f16 accumulate in f32.",
               .kind = OpKind::reduction};
  sum_op.attrs = {{"axes", "the axes that are reduced, ascending"}, {"keepdims", "whether they stay, with extent 1"}};
  sum_op.infer = infer_arithmetic;
  OpDef prod_op = sum_op, max_op = sum_op, min_op = sum_op, mean_op = sum_op;

  sum_op.evaluate = evaluate_sum;
  sum_op.gradient = [](const GradientArgs& args) -> std::vector<Tensor> { return {spread(args, args.cotangent)}; };
  sum_op.lower = lower_to(ReduceOp::sum, ReduceOp::logical_or);
  sum_op.examples = numbers;
  table.add(std::move(sum_op));

  prod_op.name = "reduce_prod";
  prod_op.doc = "Product over axes; 1 over no elements. Integers wrap; bf16 and f16 accumulate in f32.";
  prod_op.evaluate = evaluate_prod;
  prod_op.gradient = gradient_of_prod;
  prod_op.lower = lower_to(ReduceOp::prod, ReduceOp::logical_and);
  prod_op.examples = numbers;
  table.add(std::move(prod_op));

  max_op.name = "reduce_max";
  max_op.doc =
      "Largest element over axes; NaN where one is NaN; -infinity or the smallest integer over no elements. "
      "Gradients are split equally between ties.";
  max_op.infer = infer_reduction;
  max_op.evaluate = evaluate_max;
  max_op.gradient = gradient_of_extreme;
  max_op.lower = lower_to(ReduceOp::max, ReduceOp::logical_or);
  max_op.examples = ordered;
  table.add(std::move(max_op));

  min_op.name = "reduce_min";
  min_op.doc =
      "Smallest element over axes; NaN where one is NaN; infinity or the largest integer over no elements. "
      "Gradients are split equally between ties.";
  min_op.infer = infer_reduction;
  min_op.evaluate = evaluate_min;
  min_op.gradient = gradient_of_extreme;
  min_op.lower = lower_to(ReduceOp::min, ReduceOp::logical_and);
  min_op.examples = ordered;
  table.add(std::move(min_op));

  mean_op.name = "reduce_mean";
  mean_op.doc = "Arithmetic mean over axes; NaN over no elements. bf16 and f16 are summed and divided in f32.";
  mean_op.kind = OpKind::composite;
  mean_op.infer = infer_mean;
  mean_op.evaluate = evaluate_mean;
  mean_op.gradient = gradient_of_mean;
  mean_op.decompose = decompose_mean;
  mean_op.examples = floats;
  table.add(std::move(mean_op));
}

}  // namespace wholestep
