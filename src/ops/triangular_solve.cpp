// Triangular systems, row by row of the result.
#include "ops/matrices.h"

namespace wholestep {
namespace {

using namespace matrices;
using loops::Affine;
using loops::Index;

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
    const View a(source, square, number), x(args.result.real, shape, number);
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
  const Formulas f(ctx);
  const Solve solve(ctx.node().attrs);
  const TensorType& type = ctx.node().type;
  const std::int64_t n = rows(type.shape), m = columns(type.shape);
  ctx.write({n, m}, [&](const Index& at) -> std::vector<SequenceContext::Write> { return {{at, ctx.operand(1, at)}}; });
  ctx.repeat(n, [&](const Affine& k) {
    const Affine row = solve.forward() ? k : Affine(n - 1) - k;
    const SequenceContext::Range known = solve.forward() ? SequenceContext::Range(n, loops::kNoExpr, f.index(row).id())
                                                         : SequenceContext::Range(n, f.index(row + Affine(1)).id());
    ctx.write_sum(
        {m}, {known},
        [&](const Index& at, const Index& over) {
          const Affine& i = over[0];
          return ((solve.transpose ? f.operand(0, i, row) : f.operand(0, row, i)) * f.result(i, at[0])).id();
        },
        [&](const Index& at, loops::ExprId sum) {
          return Formulas::write(row, at[0], (f.result(row, at[0]) - f.scalar(sum)) / f.operand(0, row, row));
        });
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

}  // namespace

/// X of A X = B, or A^T X = B: `a` [..., n, n], of which the `lower` or upper triangle is read, `b` [..., n, m]. A zero
/// on the diagonal gives infinities, as a division does. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor triangular_solve(Tensor a, Tensor b, bool lower, bool transpose_a /* = false */) {
  return rules::graph_of("triangular_solve", a)
      .apply("triangular_solve", {a, b}, {{"lower", lower}, {"transpose_a", transpose_a}});
}

void register_triangular_solve(OpTable& table) {
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
      solve.examples.push_back({{{f32, {4, 4}}, {f32, {4, 3}}}, attrs, regular});
      solve.examples.push_back({{{f64, {2, 3, 3}}, {f64, {2, 3, 2}}}, attrs, regular});
    }
  }
  table.add(std::move(solve));
}

}  // namespace wholestep
