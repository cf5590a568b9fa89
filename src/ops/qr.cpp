// A = Q R by Householder reflections.
#include <cmath>

#include "ops/matrices.h"

namespace wholestep {
namespace {

using namespace matrices;
using elementwise::Scalar;
using loops::Affine;
using loops::Guard;
using loops::Index;
using loops::ReduceOp;

TensorType infer_householder(const InferArgs& args) {
  const TensorType& a = matrix(args, 0);
  const TensorType result = with_matrix(a, rows(a.shape) + 1, rows(a.shape) + columns(a.shape) + 1);
  rules::check_shape(args, result.shape);
  return result;
}

// For the part x of column k from row k on, divided by its largest magnitude so that no square that matters underflows:
// v = x + sign(x_k) |x| e_k, and H = I - v v^T / (|x| (|x| + |x_k|)). Where x is its first element alone, H = I.
void evaluate_householder(const EvalArgs& args) {
  const Shape &in = args.operands[0]->type.shape, &out = args.result.type.shape;
  const std::int64_t m = rows(in), n = columns(in), last = m + n;
  std::vector<double> source = args.operands[0]->real;
  for_each_matrix(in, [&](std::int64_t number) {
    const View a(source, in, number), s(args.result.real, out, number);
    for (std::int64_t i = 0; i <= m; ++i) {
      for (std::int64_t j = 0; j <= last; ++j) s(i, j) = i < m && j < n ? a(i, j) : i < m && j < last && j - n == i;
    }
    for (std::int64_t k = 0; k < std::min(m - 1, n); ++k) {
      double largest = 0, below = 0;
      for (std::int64_t i = k; i < m; ++i) largest = std::max(largest, std::abs(s(i, k)));
      const double scale = largest == 0 ? 1 : largest;
      for (std::int64_t i = k + 1; i < m; ++i) below += s(i, k) / scale * (s(i, k) / scale);
      const bool flat = below == 0;
      const double head = s(k, k) / scale, norm = std::sqrt(head * head + below);
      const double factor = flat ? 0 : 1 / (norm * (norm + std::abs(head)));
      for (std::int64_t i = 0; i < m; ++i) s(i, last) = i < k || flat ? 0 : s(i, k) / scale;
      if (!flat) s(k, last) = head + (head < 0 ? -norm : norm);
      for (std::int64_t j = k; j < last; ++j) {
        double total = 0;
        for (std::int64_t i = k; i < m; ++i) total += s(i, last) * s(i, j);
        s(m, j) = factor * total;
      }
      for (std::int64_t i = k; i < m; ++i) {
        for (std::int64_t j = k; j < last; ++j) s(i, j) -= s(i, last) * s(m, j);
      }
      s(m, k) = 0;
    }
  });
}

void write_householder(SequenceContext& ctx) {
  using Write = SequenceContext::Write;
  const Formulas f(ctx);
  const Shape& shape = ctx.node().type.shape;
  const std::int64_t m = rows(shape) - 1, last = columns(shape) - 1, n = last - m;

  ctx.write({m + 1, last + 1}, [&](const Index& at) -> std::vector<Write> {
    const Affine &i = at[0], &j = at[1];
    const Scalar a = f.operand(0, i, j, {Guard{i, 0, m}, Guard{j, 0, n}});
    const Scalar unit = f.scalar(ctx.exprs().in_range({Guard{i, 0, m}, Guard{j - i, n, n + 1}}));
    return {f.write(i, j, select(f.within(j, 0, n), a, select(unit, f.number(1), f.number(0))))};
  });
  ctx.repeat(std::max<std::int64_t>(0, std::min(m - 1, n)), [&](const Affine& k) {
    const loops::ExprId from = f.index(k).id(), below_k = f.index(k + Affine(1)).id();
    const Scalar largest = f.scalar(
        ctx.reduce(ReduceOp::max, {{m, from}}, [&](const Index& at) { return f.magnitude(f.result(at[0], k)).id(); }));
    const Scalar scale = select(f.is_zero(largest), f.number(1), largest);
    const auto scaled = [&](const Affine& i) { return f.result(i, k) / scale; };
    const Scalar below = f.scalar(ctx.reduce(ReduceOp::sum, {{m, below_k}}, [&](const Index& at) {
      const Scalar x = scaled(at[0]);
      return (x * x).id();
    }));
    const Scalar flat = f.is_zero(below);
    const auto norm = [&](Scalar head) { return f.root(head * head + below); };
    ctx.write({m}, [&](const Index& at) -> std::vector<Write> {
      const Scalar x = scaled(at[0]);
      const Scalar first = x + f.with_sign(norm(x), x);
      const Scalar rest = select(f.within(at[0] - k, 1, m), x, f.number(0));
      const Scalar v = select(f.within(at[0] - k, 0, 1), first, rest);
      return {f.write(at[0], last, select(flat, f.number(0), v))};
    });
    ctx.write_sum(
        {{last, from}}, {{m, from}},
        [&](const Index& at, const Index& over) { return (f.result(over[0], last) * f.result(over[0], at[0])).id(); },
        [&](const Index& at, loops::ExprId sum) {
          const Scalar head = scaled(k);
          const Scalar factor = 1 / (norm(head) * (norm(head) + f.magnitude(head)));
          const Scalar inside = select(f.within(at[0] - k, 0, last), factor * f.scalar(sum), f.number(0));
          return f.write(m, at[0], select(flat, f.number(0), inside));
        });
    ctx.write({{m, from}, {last, from}}, [&](const Index& at) -> std::vector<Write> {
      return {f.write(at[0], at[1], f.result(at[0], at[1]) - f.result(at[0], last) * f.result(m, at[1]))};
    });
    // Columns that are done have no part in later steps.
    ctx.write({}, [&](const Index&) -> std::vector<Write> { return {f.write(m, k, f.number(0))}; });
  });
}

TensorType infer_qr(const InferArgs& args, bool q) {
  const TensorType& a = matrix(args, 0);
  const std::int64_t m = rows(a.shape), n = columns(a.shape), k = std::min(m, n);
  if (m == 0 || n == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  return q ? with_matrix(a, m, k) : with_matrix(a, k, n);
}

Tensor decompose_qr(Graph& graph, Tensor a, bool q) {
  const std::int64_t m = rows(a.shape()), n = columns(a.shape()), k = std::min(m, n);
  const Tensor work = graph.apply("householder", {a});
  return q ? transposed(part(work, 0, k, n, n + m)) : band(part(work, 0, k, 0, n), 0, n);
}

void evaluate_qr(const EvalArgs& args, bool q) {
  const HostValue& a = *args.operands[0];
  const std::int64_t m = rows(a.type.shape), n = columns(a.type.shape), k = std::min(m, n);
  Node node = args.node;
  HostValue work(with_matrix(a.type, m + 1, m + n + 1));
  evaluate_householder({node, {&a}, work});
  for_each_matrix(a.type.shape, [&](std::int64_t number) {
    const View s(work.real, work.type.shape, number), out(args.result.real, args.result.type.shape, number);
    for (std::int64_t i = 0; i < k; ++i) {
      if (q) {
        for (std::int64_t j = 0; j < m; ++j) out(j, i) = s(i, n + j);
      } else {
        for (std::int64_t j = 0; j < n; ++j) out(i, j) = j < i ? 0 : s(i, j);
      }
    }
  });
}

// Walter and Lehmann, 2010 (the formula of JAX and PyTorch), for as many rows as columns or more: M = R R'^T - Q'^T Q
// for cotangents Q', R', and A' = (Q' + Q sym(M)) R^-T, where sym takes the lower triangle of M and mirrors it.
// `cotangent` is Q' or R', the other one being zero.
Tensor gradient_of_tall(Tensor q, Tensor r, Tensor cotangent, bool of_q) {
  const Tensor m = of_q ? -matmul(cotangent, q, true) : matmul(r, cotangent, false, true);
  const Tensor strictly_lower = band(m, -rows(m.shape()), -1);
  const Tensor symmetric = strictly_lower + transposed(strictly_lower) + band(m, 0, 0);
  const Tensor product = matmul(q, symmetric);
  const Tensor sum = of_q ? cotangent + product : product;
  return transposed(triangular_solve(r, transposed(sum), false, false));
}

// With more columns than rows, A = [X | Y] and R = [U | V]: X = Q U is square, and V = Q^T Y.
std::vector<Tensor> gradient_of_qr(const GradientArgs& args, bool of_q) {
  const Tensor a = args.operands[0], q = qr_q(a), r = qr_r(a), cotangent = args.cotangent;
  const std::int64_t m = rows(a.shape()), n = columns(a.shape()), axis = std::ssize(a.shape()) - 1;
  if (m >= n) return {gradient_of_tall(q, r, cotangent, of_q)};
  const Tensor u = part(r, 0, m, 0, m), y = part(a, 0, m, m, n);
  if (of_q) return {concat({gradient_of_tall(q, u, cotangent, true), args.graph.full(y.shape(), 0, y.dtype())}, axis)};
  const Tensor of_u = part(cotangent, 0, m, 0, m), of_v = part(cotangent, 0, m, m, n);
  const Tensor by_q = matmul(y, of_v, false, true);
  const Tensor x = gradient_of_tall(q, u, of_u, false) + gradient_of_tall(q, u, by_q, true);
  return {concat({x, matmul(q, of_v)}, axis)};
}

}  // namespace

/// The orthogonal factor of A = Q R for `a` [..., m, n]: [..., m, min(m, n)], by Householder reflections as LAPACK's,
/// whose signs it has. Work grows with m^2 (m + n). Its gradient needs the first min(m, n) columns to be independent.
/// Throws `shape_mismatch`, `dtype_mismatch`.
Tensor qr_q(Tensor a) { return rules::graph_of("qr_q", a).apply("qr_q", {a}); }

/// The triangular factor of A = Q R, [..., min(m, n), n]; see `qr_q`.
Tensor qr_r(Tensor a) { return rules::graph_of("qr_r", a).apply("qr_r", {a}); }

void register_qr(OpTable& table) {
  OpDef householder{
      .name = "householder",
      .doc = "Householder reflections of [A | I], which leave [R | Q^T]; the last row and column are work.",
      .kind = OpKind::sequential};
  householder.compute_in = ComputeIn::wide;
  householder.infer = infer_householder;
  householder.evaluate = evaluate_householder;
  householder.gradient = NotDifferentiable{"qr_q and qr_r have the gradients", true};
  householder.sequence = write_householder;
  householder.examples = {
      {{{f32, {5, 3}}}}, {{{f32, {3, 5}}}}, {{{f64, {2, 4, 4}}}}, {{{f32, {1, 3}}}}, {{{f32, {35, 9}}}}};
  table.add(std::move(householder));

  for (const bool q : {true, false}) {
    OpDef qr{.name = q ? "qr_q" : "qr_r",
             .doc = q ? "Orthogonal factor of A = Q R, with LAPACK's signs."
                      : "Triangular factor of A = Q R, with LAPACK's signs.",
             .kind = OpKind::composite};
    qr.compute_in = ComputeIn::wide;
    qr.infer = [q](const InferArgs& args) { return infer_qr(args, q); };
    qr.evaluate = [q](const EvalArgs& args) { evaluate_qr(args, q); };
    qr.gradient = GradientRule([q](const GradientArgs& args) { return gradient_of_qr(args, q); });
    qr.decompose = [q](Graph& graph, const Node&, const std::vector<Tensor>& operands) {
      return decompose_qr(graph, operands[0], q);
    };
    qr.examples = {{{{f32, {4, 3}}}}, {{{f64, {3, 3}}}}, {{{f64, {2, 3, 2}}}}, {{{f64, {2, 3}}}}, {{{f32, {2, 3, 5}}}}};
    table.add(std::move(qr));
  }
}

}  // namespace wholestep
