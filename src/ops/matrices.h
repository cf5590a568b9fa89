#pragma once
// What factorisations and solves of matrices share: the last two axes are rows and columns, those before a batch.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "ops/shape_rules.h"

namespace wholestep::matrices {

/// The type of operand `i`. Fails unless it is of f32 or f64 and of rank 2 or more.
inline const TensorType& matrix(const InferArgs& args, std::size_t i) {
  const TensorType& type = args.operands[i];
  if (type.dtype != DType::f32 && type.dtype != DType::f64) {
    args.fail(ErrorCode::dtype_mismatch, "expected f32 or f64");
  }
  if (type.shape.size() < 2) args.fail(ErrorCode::shape_mismatch, "expected operands of rank 2 or more");
  return type;
}
inline std::int64_t rows(const Shape& shape) { return shape[shape.size() - 2]; }
inline std::int64_t columns(const Shape& shape) { return shape.back(); }
/// As `matrix`, of as many columns as rows.
inline const TensorType& square_matrix(const InferArgs& args, std::size_t i) {
  const TensorType& type = matrix(args, i);
  if (rows(type.shape) != columns(type.shape)) args.fail(ErrorCode::shape_mismatch, "expected square matrices");
  return type;
}
/// `type` with its last two extents replaced.
inline TensorType with_matrix(TensorType type, std::int64_t rows, std::int64_t columns) {
  type.shape[type.shape.size() - 2] = rows;
  type.shape.back() = columns;
  return type;
}

/// A matrix of a batch in reference evaluation.
class View {
 public:
  View(std::vector<double>& data, const Shape& shape, std::int64_t number)
      : data_(data.data() + number * rows(shape) * columns(shape)), columns_(columns(shape)) {}
  double& operator()(std::int64_t i, std::int64_t j) const { return data_[i * columns_ + j]; }

 private:
  double* data_;
  std::int64_t columns_;
};
/// work(number) for every matrix of a batch.
template <class Work>
void for_each_matrix(const Shape& shape, Work work) {
  const std::int64_t batch = rules::elements({shape.begin(), shape.end() - 2});
  for (std::int64_t number = 0; number < batch; ++number) work(number);
}

inline Tensor transposed(Tensor x) {
  std::vector<std::int64_t> order = rules::all_axes(x.shape());
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return transpose(x, order);
}
/// Rows [row, row_limit) and columns [column, column_limit) of `x`.
inline Tensor part(Tensor x, std::int64_t row, std::int64_t row_limit, std::int64_t column, std::int64_t column_limit) {
  std::vector<std::int64_t> starts(x.shape().size(), 0), limits(x.shape());
  starts[starts.size() - 2] = row;
  starts.back() = column;
  limits[limits.size() - 2] = row_limit;
  limits.back() = column_limit;
  return slice(x, starts, limits);
}
/// The elements of `x` whose column minus row is in [low, high]; zero elsewhere.
inline Tensor band(Tensor x, std::int64_t low, std::int64_t high) {
  Graph& graph = x.graph();
  const Shape shape{rows(x.shape()), columns(x.shape())};
  const Tensor distance = iota(graph, shape, 1, DType::i32) - iota(graph, shape, 0, DType::i32);
  const Tensor inside =
      logical_and(greater_equal(distance, static_cast<double>(low)), less_equal(distance, static_cast<double>(high)));
  const Shape whole = x.shape();
  return select(broadcast(inside, whole), x, graph.full(whole, 0, x.dtype()));
}

/// The formulas of a sequential op.
class Formulas {
 public:
  using Scalar = elementwise::Scalar;
  using Affine = loops::Affine;
  using ExprId = loops::ExprId;
  using Write = SequenceContext::Write;

  explicit Formulas(SequenceContext& ctx) : ctx_(ctx), exprs_(ctx.exprs()), dtype_(ctx.node().type.dtype) {}

  Scalar scalar(ExprId id) const { return {exprs_, id}; }
  Scalar number(double value) const { return scalar(exprs_.constant(value, dtype_)); }
  Scalar result(const loops::Index& at) const { return scalar(ctx_.result(at)); }
  Scalar result(const Affine& i, const Affine& j) const { return result({i, j}); }
  Scalar operand(int number, const Affine& i, const Affine& j, std::vector<loops::Guard> guards = {}) const {
    return scalar(ctx_.operand(number, {i, j}, std::move(guards)));
  }
  static Write write(const loops::Index& at, Scalar value) { return {at, value.id()}; }
  static Write write(const Affine& i, const Affine& j, Scalar value) { return write({i, j}, value); }

  /// low <= value < high.
  Scalar within(const Affine& value, std::int64_t low, std::int64_t high) const {
    return scalar(exprs_.in_range({loops::Guard{value, low, high}}));
  }
  /// `value` as i64.
  Scalar index(const Affine& value) const { return scalar(exprs_.index(value)); }
  /// A whole number in the result as i64, and back.
  Scalar to_index(Scalar x) const { return scalar(exprs_.cast(x.id(), DType::i64)); }
  Scalar from_index(Scalar x) const { return scalar(exprs_.cast(x.id(), dtype_)); }

  Scalar multiply_add(Scalar a, Scalar b, Scalar c) const { return scalar(exprs_.fma(a.id(), b.id(), c.id())); }
  static Scalar root(Scalar x) { return elementwise::apply(loops::UnaryOp::sqrt, x); }
  static Scalar magnitude(Scalar x) { return elementwise::apply(loops::UnaryOp::abs, x); }
  static Scalar larger(Scalar a, Scalar b) { return elementwise::apply(loops::BinaryOp::max, a, b); }
  static Scalar smaller(Scalar a, Scalar b) { return elementwise::apply(loops::BinaryOp::min, a, b); }
  static Scalar less(Scalar a, Scalar b) { return elementwise::apply(loops::BinaryOp::lt, a, b); }
  Scalar is_zero(Scalar x) const { return elementwise::apply(loops::BinaryOp::eq, x, x.constant(0)); }
  /// |x| with the sign of `like`, plus where that is zero.
  Scalar with_sign(Scalar x, Scalar like) const { return select(less(like, number(0)), -x, x); }

 private:
  SequenceContext& ctx_;
  loops::ExprBuilder& exprs_;
  DType dtype_;
};

}  // namespace wholestep::matrices
