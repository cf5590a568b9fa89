#include "ops/shape_rules.h"

namespace wholestep {
namespace {

// Sizes and operand layouts of one product.
struct Product {
  bool transpose_a, transpose_b;
  std::int64_t m, k, n;

  Product(const Shape& a, const Shape& b, const Attrs& attrs)
      : transpose_a(attrs.get<bool>("transpose_a")), transpose_b(attrs.get<bool>("transpose_b")) {
    m = a[a.size() - (transpose_a ? 1 : 2)];
    k = a[a.size() - (transpose_a ? 2 : 1)];
    n = b[b.size() - (transpose_b ? 2 : 1)];
  }
};

TensorType infer_matmul(const InferArgs& args) {
  const TensorType &a = args.operands[0], &b = args.operands[1];
  const std::size_t rank = a.shape.size();
  if (a.dtype != b.dtype) args.fail(ErrorCode::dtype_mismatch, "expected operands of one element type");
  if (a.dtype == DType::boolean) args.fail(ErrorCode::dtype_mismatch, "expected numbers, got bool");
  if (rank < 2 || b.shape.size() != rank) {
    args.fail(ErrorCode::shape_mismatch, "expected two operands of one rank, at least 2");
  }
  if (!std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin())) {
    args.fail(ErrorCode::shape_mismatch, "expected equal batch axes before the last two");
  }
  const Product p(a.shape, b.shape, args.attrs);
  const std::int64_t inner_b = b.shape[rank - (p.transpose_b ? 1 : 2)];
  if (p.k != inner_b) {
    args.fail(ErrorCode::shape_mismatch, "expected inner extents to agree, got " + std::to_string(p.k) + " and " +
                                             std::to_string(inner_b) + " with transpose_a " +
                                             (p.transpose_a ? "true" : "false") + " and transpose_b " +
                                             (p.transpose_b ? "true" : "false"));
  }
  TensorType result = a;
  result.shape[rank - 2] = p.m;
  result.shape[rank - 1] = p.n;
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_matmul(const EvalArgs& args) {
  const HostValue &a = *args.operands[0], &b = *args.operands[1];
  const Product p(a.type.shape, b.type.shape, args.node.attrs);
  const bool is_real = is_float(a.type.dtype);
  for (std::int64_t out = 0; out < args.result.size(); ++out) {
    const std::int64_t column = out % p.n, row = out / p.n % p.m, batch = out / p.n / p.m;
    double real = 0;
    std::int64_t integer = 0;
    for (std::int64_t i = 0; i < p.k; ++i) {
      const auto at_a = static_cast<std::size_t>(batch * p.m * p.k + (p.transpose_a ? i * p.m + row : row * p.k + i));
      const auto at_b =
          static_cast<std::size_t>(batch * p.k * p.n + (p.transpose_b ? column * p.k + i : i * p.n + column));
      if (is_real) {
        real += a.real[at_a] * b.real[at_b];
      } else {
        integer = rules::wrapping_add(integer, rules::wrapping_mul(a.integer[at_a], b.integer[at_b]));
      }
    }
    if (is_real) {
      args.result.real[static_cast<std::size_t>(out)] = real;
    } else {
      args.result.integer[static_cast<std::size_t>(out)] = integer;
    }
  }
}

// Products again, with the flags that make each operand's layout come out: no transposed copy is ever made.
std::vector<Tensor> gradient_of_matmul(const GradientArgs& args) {
  const bool ta = args.node.attrs.get<bool>("transpose_a"), tb = args.node.attrs.get<bool>("transpose_b");
  Tensor a = args.operands[0], b = args.operands[1], g = args.cotangent;
  Tensor grad_a, grad_b;
  if (args.wanted[0]) grad_a = ta ? matmul(b, g, tb, true) : matmul(g, b, false, !tb);
  if (args.wanted[1]) grad_b = tb ? matmul(g, a, true, ta) : matmul(a, g, !ta, false);
  return {grad_a, grad_b};
}

loops::ExprId lower_matmul(LowerContext& ctx, const loops::Index& at) {
  const Product p(ctx.operand_type(0).shape, ctx.operand_type(1).shape, ctx.node().attrs);
  const std::size_t row = at.size() - 2, column = at.size() - 1;
  return rules::narrow(ctx, ctx.reduce(loops::ReduceOp::sum, {p.k}, [&](const loops::Index& inner) {
    loops::Index a = at, b = at;
    a[row] = p.transpose_a ? inner[0] : at[row];
    a[column] = p.transpose_a ? at[row] : inner[0];
    b[row] = p.transpose_b ? at[column] : inner[0];
    b[column] = p.transpose_b ? inner[0] : at[column];
    return ctx.exprs().binary(loops::BinaryOp::mul, rules::widen(ctx, ctx.operand(0, a)),
                              rules::widen(ctx, ctx.operand(1, b)));
  }));
}

// `x` with its batch axes, all but the last two, repeated to `batch`.
Tensor broadcast_batch(Tensor x, Shape batch) {
  batch.insert(batch.end(), x.shape().end() - 2, x.shape().end());
  return broadcast(x, std::move(batch));
}

// NumPy's common shape of two shapes.
Shape common_shape(const Shape& a, const Shape& b, Tensor x, Tensor y) {
  Shape result(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t from_a = i < a.size() ? a[a.size() - 1 - i] : 1, from_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) {
      throw Error(ErrorCode::shape_mismatch, "matmul: batch axes " + to_string(a) + " and " + to_string(b) +
                                                 " do not broadcast (operands: " + to_string(x.type()) + ", " +
                                                 to_string(y.type()) + ")");
    }
    result[result.size() - 1 - i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

}  // namespace

/// Matrix product over the last two axes, [..., m, k] times [..., k, n]; a flag says that an operand is stored with its
/// last two axes swapped. Batch axes before them broadcast as in NumPy; many matrices times one matrix are computed as
/// one product. bf16 and f16 accumulate in f32. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor matmul(Tensor a, Tensor b, bool transpose_a /* = false */, bool transpose_b /* = false */) {
  Graph& graph = rules::graph_of("matmul", a);
  rules::graph_of("matmul", b);
  const Attrs attrs{{"transpose_a", transpose_a}, {"transpose_b", transpose_b}};
  if (a.rank() < 2 || b.rank() < 2) return graph.apply("matmul", {a, b}, attrs);
  if (a.rank() > 2 && b.rank() == 2 && !transpose_a) {
    Shape shape = a.shape();
    Tensor product =
        matmul(reshape(a, {rules::elements({shape.begin(), shape.end() - 1}), shape.back()}), b, false, transpose_b);
    shape.back() = product.shape()[1];
    return reshape(product, shape);
  }
  const Shape batch =
      common_shape({a.shape().begin(), a.shape().end() - 2}, {b.shape().begin(), b.shape().end() - 2}, a, b);
  return graph.apply("matmul", {broadcast_batch(a, batch), broadcast_batch(b, batch)}, attrs);
}

void register_matmul(OpTable& table) {
  OpDef def{
      .name = "matmul",
      .doc =
          "Matrix product over the last two axes; the others are equal. bf16 and f16 accumulate in f32; integers wrap.",
      .kind = OpKind::contraction};
  def.min_operands = 2;
  def.max_operands = 2;
  def.attrs = {{"transpose_a", "the first operand is [..., k, m]"},
               {"transpose_b", "the second operand is [..., n, k]"}};
  def.infer = infer_matmul;
  def.evaluate = evaluate_matmul;
  def.gradient = gradient_of_matmul;
  def.lower = lower_matmul;
  const auto flags = [](bool a, bool b) { return Attrs{{"transpose_a", a}, {"transpose_b", b}}; };
  def.examples = {
      {{{f32, {3, 4}}, {f32, {4, 5}}}, flags(false, false)},
      {{{f32, {4, 3}}, {f32, {4, 5}}}, flags(true, false)},
      {{{f32, {3, 4}}, {f32, {5, 4}}}, flags(false, true)},
      {{{f32, {4, 3}}, {f32, {5, 4}}}, flags(true, true)},
      {{{f32, {1, 1}}, {f32, {1, 1}}}, flags(false, false)},
      {{{f32, {17, 19}}, {f32, {19, 35}}}, flags(false, false)},
      {{{f32, {2, 3, 4}}, {f32, {2, 4, 2}}}, flags(false, false)},
      {{{f32, {2, 2, 4, 3}}, {f32, {2, 2, 5, 4}}}, flags(true, true)},
      {{{f32, {3, 0}}, {f32, {0, 2}}}, flags(false, false)},
      {{{f32, {0, 3}}, {f32, {3, 2}}}, flags(false, false)},
      {{{i32, {2, 3}}, {i32, {3, 4}}}, flags(false, false)},
      {{{bf16, {3, 8}}, {bf16, {8, 4}}}, flags(false, false)},
      {{{f64, {5, 6}}, {f64, {6, 7}}}, flags(false, false)},
  };
  table.add(std::move(def));
}

}  // namespace wholestep
