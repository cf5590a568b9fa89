// Rows by index: gather, and its adjoint, scatter-add.
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

// Elements of one row of `table`.
std::int64_t row_size(const Shape& table) { return rules::elements({table.begin() + 1, table.end()}); }

void check_table(const InferArgs& args, const TensorType& table, const TensorType& indices) {
  if (table.shape.empty()) args.fail(ErrorCode::shape_mismatch, "expected a first operand of rank 1 or more");
  if (!is_integer(indices.dtype)) args.fail(ErrorCode::dtype_mismatch, "expected integer indices");
}

// [indices..., row...].
Shape rows_shape(const Shape& table, const Shape& indices) {
  Shape shape = indices;
  shape.insert(shape.end(), table.begin() + 1, table.end());
  return shape;
}

TensorType infer_gather(const InferArgs& args) {
  const TensorType &table = args.operands[0], &indices = args.operands[1];
  check_table(args, table, indices);
  TensorType result{table.dtype, rows_shape(table.shape, indices.shape)};
  rules::check_shape(args, result.shape);
  if (table.shape[0] == 0 && rules::elements(indices.shape) > 0) {
    args.fail(ErrorCode::shape_mismatch, "the table has no rows");
  }
  return result;
}

void evaluate_gather(const EvalArgs& args) {
  const HostValue &table = *args.operands[0], &indices = *args.operands[1];
  const std::int64_t size = row_size(table.type.shape), last = table.type.shape[0] - 1;
  for (std::int64_t i = 0; i < args.result.size(); ++i) {
    const std::int64_t row = std::clamp<std::int64_t>(indices.integer[static_cast<std::size_t>(i / size)], 0,
                                                      std::max<std::int64_t>(last, 0));
    rules::copy_element(table, row * size + i % size, args.result, i);
  }
}

// The rows that indices mean once those outside [0, rows) have moved to the nearest. They are then computed, not given:
// no bound is asked of a graph input behind them.
Tensor clamped(Tensor indices, std::int64_t rows) {
  const auto last = static_cast<double>(std::max<std::int64_t>(rows - 1, 0));
  return minimum(maximum(rules::narrow(indices, DType::i64), 0.0), last);
}

std::vector<Tensor> gradient_of_gather(const GradientArgs& args) {
  if (!args.wanted[0]) return {Tensor(), Tensor()};
  const TensorType table = args.operands[0].type();
  Tensor rows = clamped(args.operands[1], table.shape[0]);
  return {scatter_add_rows(args.graph.full(table.shape, 0, table.dtype), rows, args.cotangent), Tensor()};
}

loops::ExprId lower_gather(LowerContext& ctx, const loops::Index& at) {
  const auto rank = static_cast<std::ptrdiff_t>(ctx.operand_type(1).shape.size());
  const loops::ExprId row = ctx.operand(1, {at.begin(), at.begin() + rank});
  return ctx.operand_row(0, ctx.exprs().cast(row, DType::i64), {at.begin() + rank, at.end()});
}

TensorType infer_scatter_add(const InferArgs& args) {
  const TensorType &base = args.operands[0], &indices = args.operands[1], &updates = args.operands[2];
  check_table(args, base, indices);
  if (base.dtype == DType::boolean) args.fail(ErrorCode::dtype_mismatch, "expected numbers, got bool");
  if (updates.dtype != base.dtype) args.fail(ErrorCode::dtype_mismatch, "expected updates of the base's element type");
  const Shape expected = rows_shape(base.shape, indices.shape);
  if (updates.shape != expected) {
    args.fail(ErrorCode::shape_mismatch, "expected updates of shape " + to_string(expected));
  }
  return base;
}

void evaluate_scatter_add(const EvalArgs& args) {
  const HostValue &base = *args.operands[0], &indices = *args.operands[1], &updates = *args.operands[2];
  const std::int64_t size = row_size(base.type.shape);
  args.result.real = base.real;
  args.result.integer = base.integer;
  for (std::int64_t i = 0; i < updates.size(); ++i) {
    const std::int64_t row = indices.integer[static_cast<std::size_t>(i / size)];
    if (row < 0 || row >= base.type.shape[0]) continue;
    const auto to = static_cast<std::size_t>(row * size + i % size), from = static_cast<std::size_t>(i);
    if (is_float(base.type.dtype)) {
      args.result.real[to] += updates.real[from];
    } else {
      args.result.integer[to] = rules::wrapping_add(args.result.integer[to], updates.integer[from]);
    }
  }
}

std::vector<Tensor> gradient_of_scatter_add(const GradientArgs& args) {
  if (!args.wanted[2]) return {args.cotangent, Tensor(), Tensor()};
  const Shape rows = args.operands[2].shape();
  const std::int64_t count = args.node.type.shape[0];
  Tensor zero = args.graph.full(rows, 0, args.node.type.dtype);
  if (count == 0 || rules::elements(rows) == 0) return {args.cotangent, Tensor(), zero};
  Tensor indices = rules::narrow(args.operands[1], DType::i64);
  Tensor kept = logical_and(greater_equal(indices, 0.0), less(indices, static_cast<double>(count)));
  Shape aligned = indices.shape();
  aligned.resize(rows.size(), 1);
  kept = broadcast(reshape(kept, aligned), rows);
  return {args.cotangent, Tensor(), select(kept, gather_rows(args.cotangent, clamped(indices, count)), zero)};
}

loops::ExprId lower_scatter_add(LowerContext& ctx, const loops::Index& at) {
  const auto rank = static_cast<std::ptrdiff_t>(ctx.operand_type(1).shape.size());
  ctx.scatter_row(ctx.exprs().cast(ctx.operand(1, {at.begin(), at.begin() + rank}), DType::i64));
  return ctx.operand(2, at);
}

}  // namespace

/// Rows of `table` [rows, ...] at integer `indices` of any shape: [indices..., ...]. An index outside is moved to the
/// nearest row; one that is a graph input is checked before a run. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor gather_rows(Tensor table, Tensor indices) {
  return rules::graph_of("gather_rows", table).apply("gather_rows", {table, indices});
}

/// `base` [rows, ...] with row i of `updates` [indices..., ...] added to row `indices[i]`, in order; an index outside
/// drops its row. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor scatter_add_rows(Tensor base, Tensor indices, Tensor updates) {
  return rules::graph_of("scatter_add_rows", base).apply("scatter_add_rows", {base, indices, updates});
}

void register_gather(OpTable& table) {
  OpDef gather{.name = "gather_rows",
               .doc = "Rows of a table by integer index; indices outside are clamped to the nearest row.",
               .kind = OpKind::view};
  gather.min_operands = 2;
  gather.max_operands = 2;
  gather.infer = infer_gather;
  gather.evaluate = evaluate_gather;
  gather.gradient = gradient_of_gather;
  gather.lower = lower_gather;
  gather.whole_operands = {0};
  gather.index_operand =
      IndexOperand{1, [](const std::vector<TensorType>& operands, const Attrs&) { return operands[0].shape[0]; }};
  gather.examples = {
      {{{f32, {5, 3}}, {i32, {4}}}}, {{{f32, {6, 2, 3}}, {i64, {2, 3}}}}, {{{f32, {5}}, {i32, {7}}}},
      {{{f32, {5, 4}}, {i32, {}}}},  {{{f32, {5, 3}}, {i32, {0}}}},       {{{i32, {7, 17}}, {u8, {5}}}},
      {{{f32, {0, 3}}, {i32, {0}}}},
  };
  table.add(std::move(gather));

  OpDef scatter{
      .name = "scatter_add_rows",
      .doc = "Adds rows of updates to rows of a base by integer index, in order; indices outside are dropped.",
      .kind = OpKind::scatter};
  scatter.min_operands = 3;
  scatter.max_operands = 3;
  scatter.infer = infer_scatter_add;
  scatter.evaluate = evaluate_scatter_add;
  scatter.gradient = gradient_of_scatter_add;
  scatter.lower = lower_scatter_add;
  scatter.whole_operands = {0};
  const std::vector<std::pair<double, double>> some_outside{{-2, 2}, {-1, 6}, {-2, 2}};
  const std::vector<std::pair<double, double>> unsigned_outside{{0, 5}, {0, 6}, {0, 5}};
  scatter.examples = {
      {{{f32, {5, 3}}, {i32, {4}}, {f32, {4, 3}}}},
      {{{f32, {4, 3}}, {i32, {7}}, {f32, {7, 3}}}, {}, some_outside},
      {{{f32, {5}}, {i64, {2, 3}}, {f32, {2, 3}}}},
      {{{f32, {5, 2, 2}}, {i32, {}}, {f32, {2, 2}}}},
      {{{f32, {5, 2}}, {i32, {0}}, {f32, {0, 2}}}},
      {{{i32, {3, 2}}, {u8, {9}}, {i32, {9, 2}}}, {}, unsigned_outside},
      {{{f32, {6, 17}}, {i32, {12}}, {f32, {12, 17}}}},
  };
  table.add(std::move(scatter));
}

}  // namespace wholestep
