// Factorisations and solves of matrices, step by step in the result.
#include <algorithm>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

using elementwise::Scalar;
using loops::Affine;
using loops::BinaryOp;
using loops::ExprId;
using loops::Guard;
using loops::Index;
using loops::UnaryOp;

const TensorType& matrix(const InferArgs& args, std::size_t i) {
  const TensorType& type = args.operands[i];
  if (type.dtype != DType::f32 && type.dtype != DType::f64) {
    args.fail(ErrorCode::dtype_mismatch, "expected f32 or f64");
  }
  if (type.shape.size() < 2) args.fail(ErrorCode::shape_mismatch, "expected operands of rank 2 or more");
  return type;
}
std::int64_t rows(const Shape& shape) { return shape[shape.size() - 2]; }
std::int64_t columns(const Shape& shape) { return shape.back(); }
// `type` with its last two extents replaced.
TensorType with_matrix(TensorType type, std::int64_t rows, std::int64_t columns) {
  type.shape[type.shape.size() - 2] = rows;
  type.shape.back() = columns;
  return type;
}

/// A matrix of a batch in reference evaluation.
class MatrixView {
 public:
  MatrixView(std::vector<double>& data, const Shape& shape, std::int64_t number)
      : data_(data.data() + number * rows(shape) * columns(shape)), columns_(columns(shape)) {}
  double& operator()(std::int64_t i, std::int64_t j) const { return data_[i * columns_ + j]; }

 private:
  double* data_;
  std::int64_t columns_;
};
template <class Work>
void for_each_matrix(const Shape& shape, Work work) {
  const std::int64_t batch = rules::elements({shape.begin(), shape.end() - 2});
  for (std::int64_t number = 0; number < batch; ++number) work(number);
}

Tensor transposed(Tensor x) {
  std::vector<std::int64_t> order = rules::all_axes(x.shape());
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return transpose(x, order);
}

// The elements of `x` whose column minus row is in [low, high]; zero elsewhere.
Tensor band(Tensor x, std::int64_t low, std::int64_t high) {
  Graph& graph = x.graph();
  const Shape shape{rows(x.shape()), columns(x.shape())};
  const Tensor distance = iota(graph, shape, 1, DType::i32) - iota(graph, shape, 0, DType::i32);
  const Tensor inside =
      logical_and(greater_equal(distance, static_cast<double>(low)), less_equal(distance, static_cast<double>(high)));
  const Shape whole = x.shape();
  return select(broadcast(inside, whole), x, graph.full(whole, 0, x.dtype()));
}

// ---- Householder ----

TensorType infer_householder(const InferArgs& args) {
  const TensorType& a = matrix(args, 0);
  const TensorType result = with_matrix(a, rows(a.shape) + 1, rows(a.shape) + columns(a.shape) + 1);
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_householder(const EvalArgs& args) {
  const Shape &in = args.operands[0]->type.shape, &out = args.result.type.shape;
  const std::int64_t m = rows(in), n = columns(in), last = m + n;
  std::vector<double> source = args.operands[0]->real;
  for_each_matrix(in, [&](std::int64_t number) {
    const MatrixView a(source, in, number), s(args.result.real, out, number);
    for (std::int64_t i = 0; i <= m; ++i) {
      for (std::int64_t j = 0; j <= last; ++j) s(i, j) = i < m && j < n ? a(i, j) : i < m && j < last && j - n == i;
    }
    for (std::int64_t k = 0; k < std::min(m - 1, n); ++k) {
      double below = 0;
      for (std::int64_t i = k + 1; i < m; ++i) below += s(i, k) * s(i, k);
      const double at = s(k, k), norm = std::sqrt(at * at + below);
      const double factor = below == 0 ? 0 : 1 / (norm * (norm + std::abs(at)));
      for (std::int64_t i = 0; i < m; ++i) s(i, last) = i < k ? 0 : s(i, k);
      s(k, last) = at + (at < 0 ? -norm : norm);
      for (std::int64_t j = 0; j < last; ++j) {
        double total = 0;
        for (std::int64_t i = 0; i < m; ++i) total += s(i, last) * s(i, j);
        s(m, j) = factor * total;
      }
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < last; ++j) s(i, j) -= s(i, last) * s(m, j);
      }
    }
  });
}

// v = x + sign(x_k) |x| e_k for the part x of column k from row k on; H = I - 2 v v^T / (v^T v), with
// v^T v / 2 = |x| (|x| + |x_k|).
void write_householder(SequenceContext& ctx) {
  loops::ExprBuilder& exprs = ctx.exprs();
  const TensorType& type = ctx.node().type;
  const std::int64_t m = rows(type.shape) - 1, last = columns(type.shape) - 1, n = last - m;
  const auto scalar = [&](ExprId id) { return Scalar{exprs, id}; };
  const auto result = [&](const Affine& i, const Affine& j) { return scalar(ctx.result({i, j})); };
  const auto constant = [&](double value) { return scalar(exprs.constant(value, type.dtype)); };
  const auto where = [&](const Affine& value, std::int64_t low, std::int64_t high) {
    return scalar(exprs.in_range({Guard{value, low, high}}));
  };

  ctx.write({m + 1, last + 1}, [&](const Index& at) -> std::vector<SequenceContext::Write> {
    const Affine &i = at[0], &j = at[1];
    const ExprId a = ctx.operand(0, at, {Guard{i, 0, m}, Guard{j, 0, n}});
    const Scalar one =
        elementwise::select(scalar(exprs.in_range({Guard{i, 0, m}, Guard{j - i, n, n + 1}})), constant(1), constant(0));
    return {{at, elementwise::select(where(j, 0, n), scalar(a), one).id()}};
  });
  const Affine k = ctx.repeat({std::max<std::int64_t>(0, std::min(m - 1, n))})[0];
  const Scalar below = scalar(ctx.sum({m}, [&](const Index& at) {
    const Scalar x = result(at[0], k);
    return elementwise::select(where(at[0] - k, 1, m), x * x, constant(0)).id();
  }));
  const auto norm_and_head = [&] {
    const Scalar head = result(k, k);
    return std::pair{elementwise::apply(UnaryOp::sqrt, head * head + below), head};
  };
  ctx.write({m}, [&](const Index& at) -> std::vector<SequenceContext::Write> {
    const auto [norm, head] = norm_and_head();
    const Scalar negative = elementwise::apply(BinaryOp::lt, head, constant(0));
    const Scalar first = head + elementwise::select(negative, constant(0) - norm, norm);
    const Scalar rest = elementwise::select(where(at[0] - k, 1, m), result(at[0], k), constant(0));
    return {{{at[0], last}, elementwise::select(where(at[0] - k, 0, 1), first, rest).id()}};
  });
  ctx.write_sum(
      {last}, {m}, [&](const Index& at, const Index& i) { return (result(i[0], last) * result(i[0], at[0])).id(); },
      [&](const Index& at, ExprId sum) -> SequenceContext::Write {
        const auto [norm, head] = norm_and_head();
        const Scalar half = norm * (norm + elementwise::apply(UnaryOp::abs, head));
        const Scalar flat = elementwise::apply(BinaryOp::eq, below, constant(0));
        const Scalar factor =
            elementwise::select(flat, constant(0), elementwise::apply(BinaryOp::div, constant(1), half));
        return {{m, at[0]}, (factor * scalar(sum)).id()};
      });
  ctx.write({m, last}, [&](const Index& at) -> std::vector<SequenceContext::Write> {
    return {{at, (result(at[0], at[1]) - result(at[0], last) * result(m, at[1])).id()}};
  });
}

Tensor part(Tensor x, std::int64_t row, std::int64_t row_limit, std::int64_t column, std::int64_t column_limit) {
  std::vector<std::int64_t> starts(x.shape().size(), 0), limits(x.shape());
  starts[starts.size() - 2] = row;
  starts.back() = column;
  limits[limits.size() - 2] = row_limit;
  limits.back() = column_limit;
  return slice(x, starts, limits);
}

// The largest magnitude in each matrix, 1 where that is zero: what is divided by it has no squares that underflow.
Tensor magnitude(Tensor x) {
  const auto rank = static_cast<std::int64_t>(x.shape().size());
  const Tensor largest = reduce_max(abs(x), {rank - 2, rank - 1}, true);
  return select(greater(largest, 0.0), largest, 1.0);
}

TensorType infer_qr(const InferArgs& args, bool q) {
  const TensorType& a = matrix(args, 0);
  const std::int64_t m = rows(a.shape), n = columns(a.shape), k = std::min(m, n);
  if (m == 0 || n == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  return q ? with_matrix(a, m, k) : with_matrix(a, k, n);
}

Tensor decompose_qr(Graph& graph, Tensor a, bool q) {
  const std::int64_t m = rows(a.shape()), n = columns(a.shape()), k = std::min(m, n);
  const Tensor scale = magnitude(a);
  const Tensor work = graph.apply("householder", {a / scale});
  if (q) return transposed(part(work, 0, k, n, n + m));
  return band(part(work, 0, k, 0, n), 0, n) * scale;
}

void evaluate_qr(const EvalArgs& args, bool q) {
  const HostValue& a = *args.operands[0];
  const std::int64_t m = rows(a.type.shape), n = columns(a.type.shape), k = std::min(m, n);
  Node node = args.node;
  HostValue work(with_matrix(a.type, m + 1, m + n + 1));
  evaluate_householder({node, {&a}, work});
  for_each_matrix(a.type.shape, [&](std::int64_t number) {
    const MatrixView s(work.real, work.type.shape, number), out(args.result.real, args.result.type.shape, number);
    for (std::int64_t i = 0; i < k; ++i) {
      if (q) {
        for (std::int64_t j = 0; j < m; ++j) out(j, i) = s(i, n + j);
      } else {
        for (std::int64_t j = 0; j < n; ++j) out(i, j) = j < i ? 0 : s(i, j);
      }
    }
  });
}

// Walter and Lehmann, 2010 (the formula of JAX and PyTorch): M = R R'^T - Q'^T Q for cotangents Q', R', and
// A' = (Q' + Q sym(M)) R^-T, where sym takes the lower triangle of M and mirrors it.
std::vector<Tensor> gradient_of_qr(const GradientArgs& args, bool of_q) {
  const Tensor a = args.operands[0];
  if (rows(a.shape()) < columns(a.shape())) {
    throw Error(ErrorCode::not_differentiable,
                args.node.op->name + ": no gradient for a matrix of more columns than rows, " + to_string(a.shape()));
  }
  const Tensor q = qr_q(a), r = qr_r(a), g = args.cotangent;
  const Tensor m = of_q ? -matmul(g, q, true) : matmul(r, g, false, true);
  const std::int64_t n = columns(a.shape());
  const Tensor strictly_lower = band(m, -n, -1);
  const Tensor symmetric = strictly_lower + transposed(strictly_lower) + band(m, 0, 0);
  const Tensor product = matmul(q, symmetric);
  const Tensor sum = of_q ? g + product : product;
  return {transposed(triangular_solve(r, transposed(sum), false, false))};
}

// ---- Triangular solve ----

struct Solve {
  bool lower, transpose;
  explicit Solve(const Attrs& attrs) : lower(attrs.get<bool>("lower")), transpose(attrs.get<bool>("transpose_a")) {}
  bool forward() const { return lower != transpose; }
};

TensorType infer_solve(const InferArgs& args) {
  const TensorType &a = matrix(args, 0), &b = matrix(args, 1);
  if (a.dtype != b.dtype) args.fail(ErrorCode::dtype_mismatch, "expected operands of one element type");
  if (a.shape.size() != b.shape.size() || !std::equal(a.shape.begin(), a.shape.end() - 2, b.shape.begin())) {
    args.fail(ErrorCode::shape_mismatch, "expected operands of one rank with equal batch axes before the last two");
  }
  if (rows(a.shape) != columns(a.shape)) args.fail(ErrorCode::shape_mismatch, "expected a square first operand");
  if (rows(b.shape) != rows(a.shape)) {
    args.fail(ErrorCode::shape_mismatch, "expected as many rows in the second operand as in the first");
  }
  static_cast<void>(Solve(args.attrs));
  return b;
}

void evaluate_solve(const EvalArgs& args) {
  const Solve solve(args.node.attrs);
  const Shape &square = args.operands[0]->type.shape, &shape = args.result.type.shape;
  std::vector<double> source = args.operands[0]->real;
  args.result.real = args.operands[1]->real;
  for_each_matrix(shape, [&](std::int64_t number) {
    const MatrixView a(source, square, number), x(args.result.real, shape, number);
    const std::int64_t n = rows(shape);
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t row = solve.forward() ? k : n - 1 - k;
      for (std::int64_t j = 0; j < columns(shape); ++j) {
        double sum = 0;
        for (std::int64_t i = solve.forward() ? 0 : row + 1; i < (solve.forward() ? row : n); ++i) {
          sum += (solve.transpose ? a(i, row) : a(row, i)) * x(i, j);
        }
        x(row, j) = (x(row, j) - sum) / a(row, row);
      }
    }
  });
}

void write_solve(SequenceContext& ctx) {
  loops::ExprBuilder& exprs = ctx.exprs();
  const Solve solve(ctx.node().attrs);
  const TensorType& type = ctx.node().type;
  const std::int64_t n = rows(type.shape), m = columns(type.shape);
  const auto scalar = [&](ExprId id) { return Scalar{exprs, id}; };
  ctx.write({n, m}, [&](const Index& at) -> std::vector<SequenceContext::Write> { return {{at, ctx.operand(1, at)}}; });
  const Affine k = ctx.repeat({n})[0];
  const Affine row = solve.forward() ? k : Affine(n - 1) - k;
  ctx.write_sum(
      {m}, {n},
      [&](const Index& at, const Index& over) {
        const Affine& i = over[0];
        const ExprId done = exprs.in_range({Guard{solve.forward() ? row - i : i - row, 1, n}});
        const ExprId a = ctx.operand(0, solve.transpose ? Index{i, row} : Index{row, i});
        const Scalar product = scalar(a) * scalar(ctx.result({i, at[0]}));
        return exprs.select(done, product.id(), exprs.constant(0, type.dtype));
      },
      [&](const Index& at, ExprId sum) -> SequenceContext::Write {
        const Scalar rest = scalar(ctx.result({row, at[0]})) - scalar(sum);
        return {{row, at[0]}, elementwise::apply(BinaryOp::div, rest, scalar(ctx.operand(0, {row, row}))).id()};
      });
}

// X = op(A)^-1 B: B' = op(A)^-T X', and op(A)' = -B' X^T, of which A has a triangle.
std::vector<Tensor> gradient_of_solve(const GradientArgs& args) {
  const Solve solve(args.node.attrs);
  const Tensor of_b = triangular_solve(args.operands[0], args.cotangent, solve.lower, !solve.transpose);
  Tensor of_a;
  if (args.wanted[0]) {
    const std::int64_t n = rows(args.operands[0].shape());
    const Tensor full =
        solve.transpose ? matmul(args.output, of_b, false, true) : matmul(of_b, args.output, false, true);
    of_a = -(solve.lower ? band(full, -n, 0) : band(full, 0, n));
  }
  return {of_a, of_b};
}

// ---- Eigenvectors ----

constexpr std::int64_t kSweeps = 12;

TensorType infer_jacobi(const InferArgs& args) {
  const TensorType& a = matrix(args, 0);
  if (rows(a.shape) != columns(a.shape)) args.fail(ErrorCode::shape_mismatch, "expected square matrices");
  const TensorType result = with_matrix(a, 2 * rows(a.shape) + 2, columns(a.shape));
  rules::check_shape(args, result.shape);
  return result;
}

void evaluate_jacobi(const EvalArgs& args) {
  const Shape &in = args.operands[0]->type.shape, &out = args.result.type.shape;
  const std::int64_t n = rows(in);
  std::vector<double> source = args.operands[0]->real;
  for_each_matrix(in, [&](std::int64_t number) {
    const MatrixView a(source, in, number), s(args.result.real, out, number);
    for (std::int64_t i = 0; i < 2 * n + 2; ++i) {
      for (std::int64_t j = 0; j < n; ++j) s(i, j) = i < n ? a(i, j) : i - n == j;
    }
    for (std::int64_t sweep = 0; sweep < kSweeps; ++sweep) {
      for (std::int64_t p = 0; p < n; ++p) {
        for (std::int64_t q = p + 1; q < n; ++q) {
          const double off = s(p, q), angle = (s(q, q) - s(p, p)) / (2 * off);
          const double t = off == 0 ? 0 : (angle < 0 ? -1 : 1) / (std::abs(angle) + std::sqrt(angle * angle + 1));
          const double c = 1 / std::sqrt(t * t + 1), d = t * c;
          s(2 * n, 0) = c, s(2 * n + 1, 0) = d;
          for (const std::int64_t block : {std::int64_t{0}, n}) {
            for (std::int64_t j = 0; j < n; ++j) {
              const double x = s(block + p, j), y = s(block + q, j);
              s(block + p, j) = c * x - d * y, s(block + q, j) = d * x + c * y;
            }
          }
          for (std::int64_t i = 0; i < n; ++i) {
            const double x = s(i, p), y = s(i, q);
            s(i, p) = c * x - d * y, s(i, q) = d * x + c * y;
          }
        }
      }
    }
  });
}

void write_jacobi(SequenceContext& ctx) {
  using Write = SequenceContext::Write;
  loops::ExprBuilder& exprs = ctx.exprs();
  const TensorType& type = ctx.node().type;
  const std::int64_t n = columns(type.shape);
  const auto scalar = [&](ExprId id) { return Scalar{exprs, id}; };
  const auto result = [&](const Affine& i, const Affine& j) { return scalar(ctx.result({i, j})); };
  const auto constant = [&](double value) { return scalar(exprs.constant(value, type.dtype)); };
  const auto divide = [](Scalar a, Scalar b) { return elementwise::apply(BinaryOp::div, a, b); };
  const auto root = [](Scalar a) { return elementwise::apply(UnaryOp::sqrt, a); };

  ctx.write({2 * n + 2, n}, [&](const Index& at) -> std::vector<Write> {
    const Scalar a = scalar(ctx.operand(0, at, {Guard{at[0], 0, n}}));
    const Scalar one =
        elementwise::select(scalar(exprs.in_range({Guard{at[0] - at[1], n, n + 1}})), constant(1), constant(0));
    return {{at, elementwise::select(scalar(exprs.in_range({Guard{at[0], 0, n}})), a, one).id()}};
  });
  const Index steps = ctx.repeat({kSweeps, n, n});
  const Affine &p = steps[1], &q = steps[2];
  ctx.repeat_where_negative(p - q);
  const Affine cosine(2 * n), sine(2 * n + 1);
  ctx.write({}, [&](const Index&) -> std::vector<Write> {
    const Scalar off = result(p, q);
    const Scalar angle = divide(result(q, q) - result(p, p), constant(2) * off);
    const Scalar size = elementwise::apply(UnaryOp::abs, angle) + root(angle * angle + constant(1));
    const Scalar direction =
        elementwise::select(elementwise::apply(BinaryOp::lt, angle, constant(0)), constant(-1), constant(1));
    const Scalar t =
        elementwise::select(elementwise::apply(BinaryOp::eq, off, constant(0)), constant(0), divide(direction, size));
    const Scalar c = divide(constant(1), root(t * t + constant(1)));
    return {{{cosine, 0}, c.id()}, {{sine, 0}, (t * c).id()}};
  });
  const auto rotated = [&](const Index& at_p, const Index& at_q) -> std::vector<Write> {
    const Scalar c = result(cosine, 0), d = result(sine, 0), x = scalar(ctx.result(at_p)), y = scalar(ctx.result(at_q));
    return {{at_p, (c * x - d * y).id()}, {at_q, (d * x + c * y).id()}};
  };
  ctx.write({2, n}, [&](const Index& at) {
    const Affine block = at[0] * n;
    return rotated({block + p, at[1]}, {block + q, at[1]});
  });
  ctx.write({n}, [&](const Index& at) { return rotated({at[0], p}, {at[0], q}); });
}

TensorType infer_eigenvectors(const InferArgs& args) {
  const TensorType& a = matrix(args, 0);
  if (rows(a.shape) != columns(a.shape)) args.fail(ErrorCode::shape_mismatch, "expected square matrices");
  if (rows(a.shape) == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  return a;
}

void evaluate_eigenvectors(const EvalArgs& args) {
  const HostValue& a = *args.operands[0];
  const std::int64_t n = rows(a.type.shape);
  HostValue work(with_matrix(a.type, 2 * n + 2, n));
  evaluate_jacobi({args.node, {&a}, work});
  for_each_matrix(a.type.shape, [&](std::int64_t number) {
    const MatrixView s(work.real, work.type.shape, number), out(args.result.real, args.result.type.shape, number);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) out(j, i) = s(n + i, j);
    }
  });
}

}  // namespace

/// The orthogonal factor of A = Q R for `a` [..., m, n]: [..., m, min(m, n)], by Householder reflections as LAPACK's,
/// whose signs it has. Work grows with m^2 (m + n). Its gradient needs m >= n and full rank. Throws `shape_mismatch`,
/// `dtype_mismatch`.
Tensor qr_q(Tensor a) { return rules::graph_of("qr_q", a).apply("qr_q", {a}); }

/// The triangular factor of A = Q R, [..., min(m, n), n]; see `qr_q`.
Tensor qr_r(Tensor a) { return rules::graph_of("qr_r", a).apply("qr_r", {a}); }

/// X of A X = B, or A^T X = B: `a` [..., n, n], of which the `lower` or upper triangle is read, `b` [..., n, m]. A zero
/// on the diagonal gives infinities, as a division does. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor triangular_solve(Tensor a, Tensor b, bool lower, bool transpose_a /* = false */) {
  return rules::graph_of("triangular_solve", a)
      .apply("triangular_solve", {a, b}, {{"lower", lower}, {"transpose_a", transpose_a}});
}

/// Orthonormal eigenvectors of symmetric `a` [..., n, n], as columns in no order, by twelve sweeps of Jacobi rotations
/// (Golub and Van Loan, 2013, section 8.5). Work grows with n^3. No gradient. Throws `shape_mismatch`,
/// `dtype_mismatch`.
Tensor eigenvectors(Tensor a) { return rules::graph_of("eigenvectors", a).apply("eigenvectors", {a}); }

void register_linear_algebra(OpTable& table) {
  const auto square = [](DType dtype, std::int64_t n) { return TensorType{dtype, {n, n}}; };

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
    qr.examples = {{{{f32, {4, 3}}}}, {{{f64, {3, 3}}}}, {{{f64, {2, 3, 2}}}}};
    table.add(std::move(qr));
  }

  OpDef solve{.name = "triangular_solve",
              .doc = "X of A X = B, A triangular (lower or upper), or of A^T X = B.",
              .kind = OpKind::sequential};
  solve.min_operands = solve.max_operands = 2;
  solve.attrs = {{"lower", "the lower triangle is A, else the upper"}, {"transpose_a", "solve with A^T"}};
  solve.compute_in = ComputeIn::wide;
  solve.infer = infer_solve;
  solve.evaluate = evaluate_solve;
  solve.gradient = GradientRule(gradient_of_solve);
  solve.sequence = write_solve;
  const std::vector<std::pair<double, double>> regular{{0.5, 1.5}, {-2, 2}};
  for (const bool lower : {true, false}) {
    for (const bool transpose : {true, false}) {
      const Attrs attrs{{"lower", lower}, {"transpose_a", transpose}};
      solve.examples.push_back({{square(f32, 4), {f32, {4, 3}}}, attrs, regular});
      solve.examples.push_back({{{f64, {2, 3, 3}}, {f64, {2, 3, 2}}}, attrs, regular});
    }
  }
  table.add(std::move(solve));

  OpDef jacobi{.name = "jacobi_rotations",
               .doc = "Jacobi rotations of symmetric A: [J^T A J; J^T], and two rows of work.",
               .kind = OpKind::sequential};
  jacobi.compute_in = ComputeIn::wide;
  jacobi.infer = infer_jacobi;
  jacobi.evaluate = evaluate_jacobi;
  jacobi.gradient = NotDifferentiable{"eigenvectors have no gradient where eigenvalues meet", true};
  jacobi.sequence = write_jacobi;
  jacobi.examples = {{{square(f32, 1)}}};
  table.add(std::move(jacobi));

  OpDef eigen{.name = "eigenvectors",
              .doc = "Orthonormal eigenvectors of a symmetric matrix, as columns in no order.",
              .kind = OpKind::composite};
  eigen.compute_in = ComputeIn::wide;
  eigen.infer = infer_eigenvectors;
  eigen.evaluate = evaluate_eigenvectors;
  eigen.gradient = NotDifferentiable{"eigenvectors have no gradient where eigenvalues meet", true};
  eigen.decompose = [](Graph& graph, const Node&, const std::vector<Tensor>& operands) {
    const std::int64_t n = rows(operands[0].shape());
    const Tensor work = graph.apply("jacobi_rotations", {operands[0] / magnitude(operands[0])});
    return transposed(part(work, n, 2 * n, 0, n));
  };
  eigen.examples = {{{square(f32, 1)}}};
  table.add(std::move(eigen));
}

}  // namespace wholestep
