// Symmetric A = Q T Q^T with T tridiagonal, by Householder reflections.
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

// Rows of the result: n of Q, which hold A and the reflections before, then these.
enum Row : std::int64_t { kDiagonal, kOffDiagonal, kFactor, kWork, kRows };

TensorType infer_tridiagonal(const InferArgs& args) {
  const TensorType& a = square_matrix(args, 0);
  const std::int64_t n = rows(a.shape);
  if (n == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  const TensorType result = with_matrix(a, n + kRows, n);
  rules::check_shape(args, result.shape);
  return result;
}

// Golub and Van Loan, 2013, section 8.3.1: for the part x of row k behind the diagonal, divided by its largest
// magnitude so that no square that matters underflows, v = x + sign(x_1) |x| e_1, H = I - factor v v^T and
// H A H = A - v w^T - w v^T with p = factor A v, w = p - (factor / 2) (p^T v) v. Row k then holds v. Q, the product of
// all H, is made from the last one back, over the rows of their v.
void evaluate_tridiagonal(const EvalArgs& args) {
  const Shape &in = args.operands[0]->type.shape, &out = args.result.type.shape;
  const std::int64_t n = rows(in);
  std::vector<double> source = args.operands[0]->real;
  for_each_matrix(in, [&](std::int64_t number) {
    const View a(source, in, number), s(args.result.real, out, number);
    for (std::int64_t i = 0; i < n + kRows; ++i) {
      for (std::int64_t j = 0; j < n; ++j) s(i, j) = i < n ? a(i, j) : 0;
    }
    const std::int64_t diagonal = n + kDiagonal, off = n + kOffDiagonal, factors = n + kFactor, w = n + kWork;
    // w_j = factor times the sum of v_i s(i, j).
    const auto times_rows = [&](std::int64_t k) {
      for (std::int64_t j = k + 1; j < n; ++j) {
        double sum = 0;
        for (std::int64_t i = k + 1; i < n; ++i) sum += s(k, i) * s(i, j);
        s(w, j) = s(factors, k) * sum;
      }
    };
    for (std::int64_t k = 0; k < n - 1; ++k) {
      double largest = 0, below = 0, half = 0;
      for (std::int64_t j = k + 1; j < n; ++j) largest = std::max(largest, std::abs(s(k, j)));
      const double scale = largest == 0 ? 1 : largest;
      for (std::int64_t j = k + 2; j < n; ++j) below += s(k, j) / scale * (s(k, j) / scale);
      const bool flat = below == 0;
      const double head = s(k, k + 1) / scale, norm = std::sqrt(head * head + below);
      s(diagonal, k) = s(k, k);
      s(off, k + 1) = flat ? s(k, k + 1) : scale * (head < 0 ? norm : -norm);
      s(factors, k) = flat ? 0 : 1 / (norm * (norm + std::abs(head)));
      for (std::int64_t j = 0; j < n; ++j) s(k, j) = j <= k || flat ? 0 : s(k, j) / scale;
      if (!flat) s(k, k + 1) = head + (head < 0 ? -norm : norm);
      times_rows(k);
      for (std::int64_t j = k + 1; j < n; ++j) half += s(w, j) * s(k, j);
      for (std::int64_t j = k + 1; j < n; ++j) s(w, j) -= 0.5 * s(factors, k) * half * s(k, j);
      for (std::int64_t i = k + 1; i < n; ++i) {
        for (std::int64_t j = k + 1; j < n; ++j) s(i, j) -= s(k, i) * s(w, j) + s(w, i) * s(k, j);
      }
      s(w, k + 1) = 0;
    }
    s(diagonal, n - 1) = s(n - 1, n - 1);
    for (std::int64_t j = 0; j < n; ++j) s(n - 1, j) = j == n - 1;
    for (std::int64_t k = n - 2; k >= 0; --k) {
      times_rows(k);
      for (std::int64_t i = k + 1; i < n; ++i) {
        for (std::int64_t j = k + 1; j < n; ++j) s(i, j) -= s(k, i) * s(w, j);
      }
      for (std::int64_t j = 0; j < n; ++j) s(k, j) = j == k;
      for (std::int64_t i = k + 1; i < n; ++i) s(i, k) = 0;
    }
  });
}

void write_tridiagonal(SequenceContext& ctx) {
  using Write = SequenceContext::Write;
  const Formulas f(ctx);
  const std::int64_t n = columns(ctx.node().type.shape);
  const Affine diagonal(n + kDiagonal), off(n + kOffDiagonal), factors(n + kFactor), w(n + kWork);
  const auto at_one = [&](const Affine& value) { return f.within(value, 0, 1); };

  // w_j = factor times the sum of v_i s(i, j), for j > k.
  const auto times_rows = [&](const Affine& k) {
    const loops::ExprId from = f.index(k + Affine(1)).id();
    ctx.write_sum(
        {{n, from}}, {{n, from}},
        [&](const Index& at, const Index& over) { return (f.result(k, over[0]) * f.result(over[0], at[0])).id(); },
        [&](const Index& at, loops::ExprId sum) {
          const Scalar product = f.result(factors, k) * f.scalar(sum);
          return f.write(w, at[0], select(f.within(at[0] - k, 1, n), product, f.number(0)));
        });
  };

  ctx.write({n + kRows, n}, [&](const Index& at) -> std::vector<Write> {
    return {f.write(at[0], at[1], f.operand(0, at[0], at[1], {Guard{at[0], 0, n}}))};
  });
  ctx.repeat(n - 1, [&](const Affine& k) {
    const Affine next = k + Affine(1);
    const loops::ExprId from = f.index(next).id(), after_head = f.index(k + Affine(2)).id();
    const Scalar largest = f.scalar(
        ctx.reduce(ReduceOp::max, {{n, from}}, [&](const Index& at) { return f.magnitude(f.result(k, at[0])).id(); }));
    const Scalar scale = select(f.is_zero(largest), f.number(1), largest);
    const Scalar below = f.scalar(ctx.reduce(ReduceOp::sum, {{n, after_head}}, [&](const Index& at) {
      const Scalar x = f.result(k, at[0]) / scale;
      return (x * x).id();
    }));
    const Scalar flat = f.is_zero(below);
    const auto norm = [&](Scalar head) { return f.root(head * head + below); };
    ctx.write({}, [&](const Index&) -> std::vector<Write> {
      const Scalar head = f.result(k, next) / scale;
      const Scalar reflected = -(scale * f.with_sign(norm(head), head));
      const Scalar factor = 1 / (norm(head) * (norm(head) + f.magnitude(head)));
      return {f.write(diagonal, k, f.result(k, k)), f.write(off, next, select(flat, f.result(k, next), reflected)),
              f.write(factors, k, select(flat, f.number(0), factor))};
    });
    ctx.write({n}, [&](const Index& at) -> std::vector<Write> {
      const Scalar x = f.result(k, at[0]) / scale;
      const Scalar first = x + f.with_sign(norm(x), x);
      const Scalar v = select(at_one(at[0] - next), first, select(f.within(at[0] - k, 2, n), x, f.number(0)));
      return {f.write(k, at[0], select(flat, f.number(0), v))};
    });
    times_rows(k);
    const Scalar along = f.scalar(ctx.reduce(
        ReduceOp::sum, {{n, from}}, [&](const Index& at) { return (f.result(w, at[0]) * f.result(k, at[0])).id(); }));
    ctx.write({{n, from}}, [&](const Index& at) -> std::vector<Write> {
      const Scalar half = f.number(0.5) * f.result(factors, k) * along;
      return {f.write(w, at[0], f.result(w, at[0]) - half * f.result(k, at[0]))};
    });
    ctx.write({{n, from}, {n, from}}, [&](const Index& at) -> std::vector<Write> {
      const Scalar change = f.result(k, at[0]) * f.result(w, at[1]) + f.result(w, at[0]) * f.result(k, at[1]);
      return {f.write(at[0], at[1], f.result(at[0], at[1]) - change)};
    });
    // Columns that are done have no part in later steps.
    ctx.write({}, [&](const Index&) -> std::vector<Write> { return {f.write(w, next, f.number(0))}; });
  });

  ctx.write({}, [&](const Index&) -> std::vector<Write> { return {f.write(diagonal, n - 1, f.result(n - 1, n - 1))}; });
  const auto unit_row = [&](const Affine& k) {
    ctx.write({n}, [&](const Index& at) -> std::vector<Write> {
      return {f.write(k, at[0], select(at_one(at[0] - k), f.number(1), f.number(0)))};
    });
  };
  unit_row(n - 1);
  ctx.repeat(n - 1, [&](const Affine& step) {
    const Affine k = Affine(n - 2) - step;
    const loops::ExprId from = f.index(k + Affine(1)).id();
    times_rows(k);
    ctx.write({{n, from}, {n, from}}, [&](const Index& at) -> std::vector<Write> {
      return {f.write(at[0], at[1], f.result(at[0], at[1]) - f.result(k, at[0]) * f.result(w, at[1]))};
    });
    unit_row(k);
    ctx.repeat({n, from}, [&](const Affine& i) {
      ctx.write({}, [&](const Index&) -> std::vector<Write> { return {f.write(i, k, f.number(0))}; });
    });
  });
}

}  // namespace

void register_tridiagonal(OpTable& table) {
  OpDef tridiagonal{.name = "tridiagonal",
                    .doc =
                        "Symmetric A = Q T Q^T, T tridiagonal: [Q; its diagonal; 0 and the elements beside it], and "
                        "two rows of work.",
                    .kind = OpKind::sequential};
  tridiagonal.compute_in = ComputeIn::wide;
  tridiagonal.infer = infer_tridiagonal;
  tridiagonal.evaluate = evaluate_tridiagonal;
  tridiagonal.gradient = NotDifferentiable{"a part of eigenvectors", true};
  tridiagonal.sequence = write_tridiagonal;
  tridiagonal.examples = {{{{f32, {1, 1}}}}, {{{f32, {6, 6}}}}, {{{f64, {2, 3, 3}}}}, {{{f32, {9, 9}}}}};
  table.add(std::move(tridiagonal));
}

}  // namespace wholestep
