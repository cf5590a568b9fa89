// Eigenvectors of symmetric matrices: A = Q T Q^T with T tridiagonal, which implicit QR steps make diagonal.
#include <cmath>
#include <limits>

#include "ops/matrices.h"

namespace wholestep {
namespace {

using namespace matrices;
using elementwise::Scalar;
using loops::Affine;
using loops::BinaryOp;
using loops::Guard;
using loops::Index;
using loops::ReduceOp;

// An eigenvalue takes less than two steps; LAPACK gives up after so many, too.
constexpr std::int64_t kMostStepsPerRow = 30;
// The rotations of so many steps are made before the first of them is applied: the vectors then pass through the cache
// once for all of them.
constexpr std::int64_t kStepsTogether = 16;
// Columns of the vectors to which they are applied in one go, at most and in multiples of: those of a thousand rows fit
// into a cache, and a row of them into the vectors of any device.
constexpr std::int64_t kMostColumns = 128, kColumnUnit = 16;

// The result: n rows of vectors, then these.
enum Row : std::int64_t { kDiagonal, kOffDiagonal, kFrom, kTo, kScalars, kSines, kTangents = kSines + kStepsTogether };
constexpr std::int64_t kRows = kTangents + kStepsTogether;
// Elements of row kScalars, in the terms of `evaluate_steps`.
enum Cell : std::int64_t { kShift, kG, kP, kC, kS };

// The columns of the result: `count` times `width`, which hold the n of the vectors.
struct Columns {
  std::int64_t count, width;
  explicit Columns(std::int64_t n)
      : count((n + kMostColumns - 1) / kMostColumns), width((n + count * kColumnUnit - 1) / (count * kColumnUnit)) {
    width *= kColumnUnit;
  }
};

TensorType infer_steps(const InferArgs& args) {
  const TensorType &vectors = square_matrix(args, 0), &t = matrix(args, 1);
  const std::int64_t n = rows(vectors.shape);
  if (n == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  if (t.dtype != vectors.dtype) args.fail(ErrorCode::dtype_mismatch, "expected operands of one element type");
  if (t.shape != with_matrix(vectors, 2, n).shape) {
    args.fail(ErrorCode::shape_mismatch, "expected two rows, as long as those of the first operand, in the second");
  }
  const Columns columns(std::min(n, rules::kMaxElements / 2));
  const TensorType result = with_matrix(vectors, rules::add_extents(args, n, kRows), columns.count * columns.width);
  rules::check_shape(args, result.shape);
  return result;
}

// c >= 0 and s with [c -s; s c] [f; g] = [0; r], from numbers of a magnitude whose squares do not underflow.
struct Rotation {
  double c = 1, s = 0, r = 0;
  Rotation(double f, double g) {
    const double scale = std::max(std::abs(f), std::abs(g));
    if (scale == 0) return;
    const double length = std::sqrt(f / scale * (f / scale) + g / scale * (g / scale));
    const double sign = g < 0 ? -1 : 1;
    c = std::abs(g) / scale / length, s = sign * f / scale / length, r = sign * scale * length;
  }
};

// Steps on the last part of T that is whole, until there is none: Golub and Van Loan, 2013, algorithm 8.3.3, in the
// arrangement of EISPACK's imtql2 (Wilkinson and Reinsch, 1971, contribution II/4). An element beside the diagonal
// that is lost in the rounding of its neighbours is zero.
void evaluate_steps(const EvalArgs& args) {
  const Shape &in = args.operands[0]->type.shape, &out = args.result.type.shape;
  const std::int64_t n = rows(in);
  std::vector<double> vectors = args.operands[0]->real, tridiagonal = args.operands[1]->real;
  std::fill(args.result.real.begin(), args.result.real.end(), 0.0);
  for_each_matrix(in, [&](std::int64_t number) {
    const View q(vectors, in, number), t(tridiagonal, args.operands[1]->type.shape, number);
    const View result(args.result.real, out, number);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) result(i, j) = q(i, j);
    }
    const auto d = [&](std::int64_t i) -> double& { return result(n + kDiagonal, i); };
    const auto e = [&](std::int64_t i) -> double& { return result(n + kOffDiagonal, i); };  // between i - 1 and i
    for (std::int64_t i = 0; i < n; ++i) d(i) = t(0, i), e(i) = i == 0 ? 0 : t(1, i);
    for (std::int64_t step = 0; step < kMostStepsPerRow * n; ++step) {
      std::int64_t last = 0, first = 0;
      for (std::int64_t i = 1; i < n; ++i) {
        const double lost = std::numeric_limits<double>::epsilon() / 2 * (std::abs(d(i - 1)) + std::abs(d(i)));
        if (!(std::abs(e(i)) > lost)) e(i) = 0;
        if (e(i) != 0) last = i;
      }
      if (last == 0) break;
      for (std::int64_t i = 0; i < last; ++i) first = e(i) == 0 ? i : first;
      const double half = (d(last - 1) - d(last)) / (2 * e(last)), root = std::sqrt(half * half + 1);
      const double shift = d(last) - e(last) / (half + (half < 0 ? -root : root));
      double g = d(first) - shift, p = 0, c = 1, s = 1;
      for (std::int64_t i = first; i < last; ++i) {
        const Rotation rotation(s * e(i + 1), g);
        const double b = c * e(i + 1);
        c = rotation.c, s = rotation.s;
        if (i > first) e(i) = rotation.r;
        const double moved = d(i) - p, change = (d(i + 1) - moved) * s + 2 * c * b;
        p = s * change;
        d(i) = moved + p;
        g = c * change - b;
        for (std::int64_t j = 0; j < n; ++j) {
          const double x = result(i, j), y = result(i + 1, j);
          result(i, j) = c * x + s * y, result(i + 1, j) = c * y - s * x;
        }
      }
      d(last) -= p;
      e(last) = g;
    }
  });
}

void write_steps(SequenceContext& ctx) {
  using Write = SequenceContext::Write;
  using Range = SequenceContext::Range;
  const Formulas f(ctx);
  const TensorType& type = ctx.node().type;
  const std::int64_t n = rows(type.shape) - kRows;
  const Columns columns(n);
  const double epsilon =
      type.dtype == DType::f32 ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
  const auto d = [&](const Affine& i) { return f.result(n + kDiagonal, i); };
  const auto e = [&](const Affine& i) { return f.result(n + kOffDiagonal, i); };
  const auto cell = [&](Cell which) { return f.result(n + kScalars, static_cast<std::int64_t>(which)); };
  const auto set_d = [&](const Affine& i, Scalar value) { return f.write(n + kDiagonal, i, value); };
  const auto set_e = [&](const Affine& i, Scalar value) { return f.write(n + kOffDiagonal, i, value); };
  const auto set = [&](Cell which, Scalar value) {
    return f.write(n + kScalars, static_cast<std::int64_t>(which), value);
  };
  const auto after = [&](Scalar i) { return i + f.index(1); };

  const auto make_step = [&](const Affine& step) {
    ctx.write({n - 1}, [&](const Index& at) -> std::vector<Write> {
      const Affine i = at[0] + Affine(1);
      const Scalar lost = f.number(epsilon / 2) * (f.magnitude(d(at[0])) + f.magnitude(d(i)));
      return {set_e(i, select(f.less(lost, f.magnitude(e(i))), e(i), f.number(0)))};
    });
    const auto largest_index = [&](const Range& range, const std::function<Scalar(const Affine&)>& if_any) {
      return f.scalar(ctx.reduce(ReduceOp::max, {range}, [&](const Index& at) {
        return select(if_any(at[0]), f.index(at[0]), f.index(0)).id();
      }));
    };
    const Scalar last =
        largest_index(n, [&](const Affine& i) { return elementwise::apply(BinaryOp::ne, e(i), f.number(0)); });
    const Scalar first =
        largest_index({n, loops::kNoExpr, last.id()}, [&](const Affine& i) { return f.is_zero(e(i)); });
    ctx.write({}, [&](const Index&) -> std::vector<Write> {
      return {f.write(n + kFrom, step, f.from_index(first)), f.write(n + kTo, step, f.from_index(last))};
    });
    const auto at_last = [&](const std::function<std::vector<Write>(const Affine&)>& body) {
      ctx.repeat({n - 1, (last - f.index(1)).id(), last.id()},
                 [&](const Affine& before) { ctx.write({}, [&](const Index&) { return body(before + Affine(1)); }); });
    };
    at_last([&](const Affine& end) -> std::vector<Write> {
      const Scalar half = (d(end - Affine(1)) - d(end)) / (f.number(2) * e(end));
      const Scalar root = f.root(half * half + f.number(1));
      return {set(kShift, d(end) - e(end) / (half + f.with_sign(root, half)))};
    });
    ctx.repeat({n, first.id(), f.smaller(after(first), last).id()}, [&](const Affine& start) {
      ctx.write({}, [&](const Index&) -> std::vector<Write> {
        return {set(kG, d(start) - cell(kShift)), set(kP, f.number(0)), set(kC, f.number(1)), set(kS, f.number(1))};
      });
    });
    ctx.repeat({n - 1, first.id(), last.id()}, [&](const Affine& i) {
      const Affine next = i + Affine(1);
      ctx.write({}, [&](const Index&) -> std::vector<Write> {
        const Scalar x = cell(kS) * e(next), g = cell(kG), b = cell(kC) * e(next);
        const Scalar scale = f.larger(f.magnitude(x), f.magnitude(g)), none = f.is_zero(scale);
        const Scalar length = f.root(x / scale * (x / scale) + g / scale * (g / scale));
        const Scalar c = select(none, f.number(1), f.magnitude(g) / scale / length);
        const Scalar s = select(none, f.number(0), f.with_sign(f.number(1), g) * x / scale / length);
        const Scalar r = select(none, f.number(0), f.with_sign(scale * length, g));
        const Scalar moved = d(i) - cell(kP), change = (d(next) - moved) * s + f.number(2) * c * b;
        return {set_e(i, select(f.less(first, f.index(i)), r, e(i))),
                set_d(i, moved + s * change),
                set(kP, s * change),
                set(kG, c * change - b),
                set(kC, c),
                set(kS, s),
                f.write(Affine(n + kSines) + step, i, s),
                f.write(Affine(n + kTangents) + step, i, s / (c + f.number(1)))};
      });
    });
    at_last(
        [&](const Affine& end) -> std::vector<Write> { return {set_d(end, d(end) - cell(kP)), set_e(end, cell(kG))}; });
  };

  ctx.write({n + kRows, columns.count * columns.width}, [&](const Index& at) -> std::vector<Write> {
    const Affine &i = at[0], &j = at[1];
    const Scalar q = f.operand(0, i, j, {Guard{i, 0, n}, Guard{j, 0, n}});
    const Scalar t = f.operand(1, i - Affine(n), j, {Guard{i, n, n + 2}, Guard{j, 0, n}});
    return {f.write(i, j, select(f.within(i, 0, n), q, t))};
  });
  // Steps are made as long as the last ones had something to do.
  const Affine going(n + kTo), last_step(kStepsTogether - 1);
  ctx.write({}, [&](const Index&) -> std::vector<Write> {
    return {set_e(0, f.number(0)), f.write(going, last_step, f.number(1))};
  });
  ctx.repeat((kMostStepsPerRow * n + kStepsTogether - 1) / kStepsTogether, [&](const Affine&) {
    ctx.repeat({1, loops::kNoExpr, f.to_index(f.result(going, last_step)).id()}, [&](const Affine&) {
      ctx.repeat(kStepsTogether, make_step);
      ctx.repeat(columns.count, [&](const Affine& part) {
        ctx.repeat(kStepsTogether, [&](const Affine& step) {
          const Scalar from = f.to_index(f.result(n + kFrom, step)), to = f.to_index(f.result(n + kTo, step));
          ctx.repeat({n - 1, from.id(), to.id()}, [&](const Affine& i) {
            const Affine next = i + Affine(1);
            ctx.write({columns.width}, [&](const Index& at) -> std::vector<Write> {
              const Affine j = part * columns.width + at[0];
              const Scalar x = f.result(i, j), y = f.result(next, j);
              const Scalar s = f.result(Affine(n + kSines) + step, i), t = f.result(Affine(n + kTangents) + step, i);
              const Scalar sheared = f.multiply_add(t, y, x), moved = f.multiply_add(-s, sheared, y);
              return {f.write(i, j, f.multiply_add(t, moved, sheared)), f.write(next, j, moved)};
            });
          });
        });
      });
    });
  });
}

TensorType infer_eigenvectors(const InferArgs& args) {
  const TensorType& a = square_matrix(args, 0);
  if (rows(a.shape) == 0) args.fail(ErrorCode::shape_mismatch, "expected a matrix with elements");
  return a;
}

HostValue evaluated(const EvalArgs& args, std::string_view op, const std::vector<const HostValue*>& operands) {
  const OpDef& def = *op_table().find(op);
  std::vector<TensorType> types;
  for (const HostValue* operand : operands) types.push_back(operand->type);
  HostValue result(def.infer({op, types, args.node.attrs}));
  def.evaluate({args.node, operands, result});
  return result;
}

void evaluate_eigenvectors(const EvalArgs& args) {
  const HostValue& a = *args.operands[0];
  const std::int64_t n = rows(a.type.shape);
  HostValue work = evaluated(args, "tridiagonal", {&a});
  HostValue vectors(a.type), t(with_matrix(a.type, 2, n));
  for_each_matrix(a.type.shape, [&](std::int64_t number) {
    const View s(work.real, work.type.shape, number), to(vectors.real, a.type.shape, number);
    const View beside(t.real, t.type.shape, number);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) to(i, j) = s(j, i);
      for (std::int64_t i = 0; i < 2; ++i) beside(i, j) = s(n + i, j);
    }
  });
  HostValue steps = evaluated(args, "tridiagonal_qr", {&vectors, &t});
  std::vector<double> source = a.real;
  for_each_matrix(a.type.shape, [&](std::int64_t number) {
    const View in(source, a.type.shape, number), s(steps.real, steps.type.shape, number);
    const View out(args.result.real, a.type.shape, number);
    bool finite = true;
    for (std::int64_t i = 0; i < n * n; ++i) finite = finite && std::isfinite(in(i / n, i % n));
    for (std::int64_t i = 0; i < n * n; ++i)
      out(i / n, i % n) = finite ? s(i % n, i / n) : std::numeric_limits<double>::quiet_NaN();
  });
}

}  // namespace

/// Orthonormal eigenvectors of symmetric `a` [..., n, n], as columns in no order: Householder reflections to
/// tridiagonal form, then implicit QR steps (Golub and Van Loan, 2013, section 8.3). NaN for a matrix that holds NaN or
/// infinity. Work grows with n^3. No gradient. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor eigenvectors(Tensor a) { return rules::graph_of("eigenvectors", a).apply("eigenvectors", {a}); }

void register_eigenvectors(OpTable& table) {
  constexpr const char* kNoGradient = "eigenvectors have no gradient where eigenvalues meet";
  OpDef steps{.name = "tridiagonal_qr",
              .doc =
                  "QR steps that make the tridiagonal matrix of the second operand (its diagonal; 0 and the elements "
                  "beside it) diagonal, applied to the rows of the first: [those; the diagonal], and rows of work.",
              .kind = OpKind::sequential};
  steps.min_operands = steps.max_operands = 2;
  steps.compute_in = ComputeIn::wide;
  steps.infer = infer_steps;
  steps.evaluate = evaluate_steps;
  steps.gradient = NotDifferentiable{kNoGradient, true};
  steps.sequence = write_steps;
  steps.examples = {{{{f32, {1, 1}}, {f32, {2, 1}}}}};
  table.add(std::move(steps));

  OpDef eigen{.name = "eigenvectors",
              .doc = "Orthonormal eigenvectors of a symmetric matrix, as columns in no order.",
              .kind = OpKind::composite};
  eigen.compute_in = ComputeIn::wide;
  eigen.infer = infer_eigenvectors;
  eigen.evaluate = evaluate_eigenvectors;
  eigen.gradient = NotDifferentiable{kNoGradient, true};
  eigen.decompose = [](Graph& graph, const Node&, const std::vector<Tensor>& operands) {
    const Tensor a = operands[0];
    const std::int64_t n = rows(a.shape()), rank = static_cast<std::int64_t>(a.shape().size());
    const Tensor work = graph.apply("tridiagonal", {a});
    const Tensor steps =
        graph.apply("tridiagonal_qr", {transposed(part(work, 0, n, 0, n)), part(work, n, n + 2, 0, n)});
    const Tensor largest = reduce_max(abs(a), {rank - 2, rank - 1}, true);
    const Tensor finite = less(largest, std::numeric_limits<double>::infinity());
    return select(finite, transposed(part(steps, 0, n, 0, n)), std::numeric_limits<double>::quiet_NaN());
  };
  eigen.examples = {{{{f32, {1, 1}}}}};
  table.add(std::move(eigen));
}

}  // namespace wholestep
