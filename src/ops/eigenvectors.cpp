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
// They are applied to at most so many columns of the vectors at a time, which then stay in a cache, and to whole
// multiples of the lanes of any device.
constexpr std::int64_t kMostColumns = 128, kColumnUnit = 16;

// The result: n rows of vectors, then these.
enum Row : std::int64_t { kDiagonal, kOffDiagonal, kFrom, kTo, kScalars, kSines, kTangents = kSines + kStepsTogether };
constexpr std::int64_t kRows = kTangents + kStepsTogether;
// Elements of row kScalars, in the terms of `evaluate_steps`.
enum Cell : std::int64_t { kG, kP, kC, kS };

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
  const Columns columns(n);
  const TensorType result = with_matrix(vectors, n + kRows, columns.count * columns.width);
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

/// Writes what `evaluate_steps` does: the rotations of some steps, then what they do to the vectors, and so on.
class StepsWriter {
 public:
  explicit StepsWriter(SequenceContext& ctx)
      : ctx_(ctx), f_(ctx), n_(rows(ctx.node().type.shape) - kRows), columns_(n_) {}

  void run() {
    ctx_.write({n_ + kRows, columns_.count * columns_.width}, [&](const Index& at) -> Writes {
      const Affine &i = at[0], &j = at[1];
      const Scalar q = f_.operand(0, i, j, {Guard{i, 0, n_}, Guard{j, 0, n_}});
      const Scalar t = f_.operand(1, i - Affine(n_), j, {Guard{i, n_, n_ + 2}, Guard{j, 0, n_}});
      return {f_.write(at, select(f_.within(i, 0, n_), q, t))};
    });
    // Another round follows as long as the last step of the one before had something to do.
    const Index going = in_row(kTo, kStepsTogether - 1);
    ctx_.write({},
               [&](const Index&) -> Writes { return {f_.write(e(0), f_.number(0)), f_.write(going, f_.number(1))}; });
    ctx_.repeat((kMostStepsPerRow * n_ + kStepsTogether - 1) / kStepsTogether, [&](const Affine&) {
      ctx_.repeat({1, loops::kNoExpr, f_.to_index(f_.result(going)).id()}, [&](const Affine&) {
        ctx_.repeat(kStepsTogether, [&](const Affine& step) { make_rotations(step); });
        ctx_.repeat(columns_.count, [&](const Affine& part) {
          ctx_.repeat(kStepsTogether, [&](const Affine& step) { rotate_vectors(step, part); });
        });
      });
    });
  }

 private:
  using Writes = std::vector<SequenceContext::Write>;
  using Range = SequenceContext::Range;

  Index in_row(Row row, const Affine& j) const { return {Affine(n_ + row), j}; }
  Index d(const Affine& i) const { return in_row(kDiagonal, i); }
  Index e(const Affine& i) const { return in_row(kOffDiagonal, i); }
  Index cell(Cell which) const { return in_row(kScalars, static_cast<std::int64_t>(which)); }
  Index sine(const Affine& step, const Affine& i) const { return {Affine(n_ + kSines) + step, i}; }
  Index tangent(const Affine& step, const Affine& i) const { return {Affine(n_ + kTangents) + step, i}; }

  void make_rotations(const Affine& step) {
    drop_what_is_lost();
    const Scalar last = largest_index(
        n_, [&](const Affine& i) { return elementwise::apply(BinaryOp::ne, f_.result(e(i)), f_.number(0)); });
    const Scalar first =
        largest_index({n_, loops::kNoExpr, last.id()}, [&](const Affine& i) { return f_.is_zero(f_.result(e(i))); });
    ctx_.write({}, [&](const Index&) -> Writes {
      return {f_.write(in_row(kFrom, step), f_.from_index(first)), f_.write(in_row(kTo, step), f_.from_index(last))};
    });
    at_one(last, [&](const Affine& i) -> Writes {
      const Scalar half = (f_.result(d(i - Affine(1))) - f_.result(d(i))) / (f_.number(2) * f_.result(e(i)));
      const Scalar root = f_.root(half * half + f_.number(1));
      const Scalar shift = f_.result(d(i)) - f_.result(e(i)) / (half + f_.with_sign(root, half));
      return {f_.write(cell(kG), -shift)};
    });
    ctx_.repeat({n_, first.id(), f_.smaller(first + f_.index(1), last).id()}, [&](const Affine& i) {
      ctx_.write({}, [&](const Index&) -> Writes {
        return {f_.write(cell(kG), f_.result(d(i)) + f_.result(cell(kG))), f_.write(cell(kP), f_.number(0)),
                f_.write(cell(kC), f_.number(1)), f_.write(cell(kS), f_.number(1))};
      });
    });
    ctx_.repeat({n_ - 1, first.id(), last.id()}, [&](const Affine& i) {
      ctx_.write({}, [&](const Index&) { return rotation(step, i, f_.less(first, f_.index(i))); });
    });
    at_one(last, [&](const Affine& i) -> Writes {
      return {f_.write(d(i), f_.result(d(i)) - f_.result(cell(kP))), f_.write(e(i), f_.result(cell(kG)))};
    });
  }

  void drop_what_is_lost() {
    const bool single = ctx_.node().type.dtype == DType::f32;
    const double epsilon = single ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    ctx_.write({n_ - 1}, [&](const Index& at) -> Writes {
      const Affine &before = at[0], i = before + Affine(1);
      const Scalar beside = f_.result(e(i));
      const Scalar lost = f_.number(epsilon / 2) * (f_.magnitude(f_.result(d(before))) + f_.magnitude(f_.result(d(i))));
      return {f_.write(e(i), select(f_.less(lost, f_.magnitude(beside)), beside, f_.number(0)))};
    });
  }

  // The largest i in `range` of which `holds`; 0 where there is none.
  Scalar largest_index(const Range& range, const std::function<Scalar(const Affine&)>& holds) {
    return f_.scalar(ctx_.reduce(ReduceOp::max, {range}, [&](const Index& at) {
      return select(holds(at[0]), f_.index(at[0]), f_.index(0)).id();
    }));
  }

  // What `body` writes for the one i = `index`, where that is 1 or more.
  void at_one(Scalar index, const std::function<Writes(const Affine& i)>& body) {
    ctx_.repeat({n_ - 1, (index - f_.index(1)).id(), index.id()},
                [&](const Affine& before) { ctx_.write({}, [&](const Index&) { return body(before + Affine(1)); }); });
  }

  // Of rows i and i + 1; `inner`: not the first of its step.
  Writes rotation(const Affine& step, const Affine& i, Scalar inner) {
    const Affine next = i + Affine(1);
    const Scalar x = f_.result(cell(kS)) * f_.result(e(next)), b = f_.result(cell(kC)) * f_.result(e(next));
    const Scalar g = f_.result(cell(kG)), one = f_.number(1);
    const Scalar scale = f_.larger(f_.magnitude(x), f_.magnitude(g)), none = f_.is_zero(scale);
    const Scalar length = f_.root(x / scale * (x / scale) + g / scale * (g / scale));
    const Scalar c = select(none, one, f_.magnitude(g) / scale / length);
    const Scalar s = select(none, f_.number(0), f_.with_sign(one, g) * x / scale / length);
    const Scalar r = select(none, f_.number(0), f_.with_sign(scale * length, g));
    const Scalar moved = f_.result(d(i)) - f_.result(cell(kP));
    const Scalar change = (f_.result(d(next)) - moved) * s + f_.number(2) * c * b;
    return {f_.write(e(i), select(inner, r, f_.result(e(i)))),
            f_.write(d(i), moved + s * change),
            f_.write(cell(kP), s * change),
            f_.write(cell(kG), c * change - b),
            f_.write(cell(kC), c),
            f_.write(cell(kS), s),
            f_.write(sine(step, i), s),
            f_.write(tangent(step, i), s / (c + one))};
  }

  // The rotations as three shears by s and t = s / (1 + c): a small one then moves a vector's length by less than the
  // rounding of c, which for most is 1 and would make all vectors longer together.
  void rotate_vectors(const Affine& step, const Affine& part) {
    const auto bound = [&](Row row) { return f_.to_index(f_.result(in_row(row, step))).id(); };
    ctx_.repeat({n_ - 1, bound(kFrom), bound(kTo)}, [&](const Affine& i) {
      ctx_.write({columns_.width}, [&](const Index& at) -> Writes {
        const Affine j = part * columns_.width + at[0];
        const Index upper{i, j}, lower{i + Affine(1), j};
        const Scalar s = f_.result(sine(step, i)), t = f_.result(tangent(step, i));
        const Scalar sheared = f_.multiply_add(t, f_.result(lower), f_.result(upper));
        const Scalar moved = f_.multiply_add(-s, sheared, f_.result(lower));
        return {f_.write(upper, f_.multiply_add(t, moved, sheared)), f_.write(lower, moved)};
      });
    });
  }

  SequenceContext& ctx_;
  const Formulas f_;
  const std::int64_t n_;
  const Columns columns_;
};

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
/// infinity. Work grows with n^3. No gradient: it would be infinite where eigenvalues meet. Throws `shape_mismatch`,
/// `dtype_mismatch`.
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
  steps.sequence = [](SequenceContext& ctx) { StepsWriter(ctx).run(); };
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
