#pragma once
// What element-wise ops share: which dtypes they take, the type rule, numpy broadcasting in the builders, evaluation
// from a function of one element, and lowering from an expression of scalars. An op is then one `Unary` or `Binary`
// entry.
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep::elementwise {

/// Dtypes that an op takes. `numbers` are floats and integers; `all` adds boolean.
enum class Takes { floats, integers, numbers, booleans, all };

/// The result type of an op whose operands all have one type: that type, or boolean of its shape.
/// Throws `dtype_mismatch`, `shape_mismatch`.
TensorType infer_same_type(const InferArgs& args, Takes takes, bool boolean_result = false);

/// `x` broadcast to `shape`; `x` itself where it has that shape.
Tensor broadcast_to(Tensor x, const Shape& shape);
/// Appends op `name` to operands broadcast to their common shape. Throws `invalid_argument` for an invalid tensor or
/// tensors of two graphs, `shape_mismatch` where the shapes do not broadcast, and what the op's type rule throws.
Tensor apply_broadcast(std::string_view name, std::vector<Tensor> operands, Attrs attrs = {});
/// `value` as a scalar constant of the dtype of `like`. Throws `invalid_argument` where an integer dtype cannot hold
/// it.
inline Tensor scalar_like(Tensor like, double value) {
  const DType dtype = like.dtype();
  return like.graph().constant(value, dtype);
}

/// A scalar expression in the making, of a dtype that arithmetic is done in, so that a lowering reads as the formula
/// that it means.
class Scalar {
 public:
  Scalar(loops::ExprBuilder& exprs, loops::ExprId id) : exprs_(&exprs), id_(id) {}
  loops::ExprBuilder& exprs() const { return *exprs_; }
  loops::ExprId id() const { return id_; }
  /// A constant of this expression's dtype.
  Scalar constant(double value) const { return {*exprs_, exprs_->constant(value, (*exprs_)[id_].dtype)}; }

 private:
  loops::ExprBuilder* exprs_;
  loops::ExprId id_;
};

inline Scalar apply(loops::UnaryOp op, Scalar x) { return {x.exprs(), x.exprs().unary(op, x.id())}; }
inline Scalar apply(loops::BinaryOp op, Scalar a, Scalar b) {
  return {a.exprs(), a.exprs().binary(op, a.id(), b.id())};
}
inline Scalar select(Scalar condition, Scalar a, Scalar b) {
  return {a.exprs(), a.exprs().select(condition.id(), a.id(), b.id())};
}
inline Scalar operator-(Scalar x) { return apply(loops::UnaryOp::neg, x); }
inline Scalar operator+(Scalar a, Scalar b) { return apply(loops::BinaryOp::add, a, b); }
inline Scalar operator-(Scalar a, Scalar b) { return apply(loops::BinaryOp::sub, a, b); }
inline Scalar operator*(Scalar a, Scalar b) { return apply(loops::BinaryOp::mul, a, b); }
inline Scalar operator/(Scalar a, Scalar b) { return apply(loops::BinaryOp::div, a, b); }
inline Scalar operator+(double a, Scalar b) { return b.constant(a) + b; }
inline Scalar operator*(double a, Scalar b) { return b.constant(a) * b; }
inline Scalar operator/(double a, Scalar b) { return b.constant(a) / b; }

/// The expression of one primitive operation.
inline std::function<Scalar(Scalar)> primitive(loops::UnaryOp op) {
  return [op](Scalar x) { return apply(op, x); };
}
inline std::function<Scalar(Scalar, Scalar)> primitive(loops::BinaryOp op) {
  return [op](Scalar a, Scalar b) { return apply(op, a, b); };
}

/// What the gradient rule of y = f(x) sees: operand, output, cotangent of the output.
struct UnaryCotangent {
  Tensor x, y, g;
};
/// What the gradient rules of y = f(a, b) see.
struct BinaryCotangent {
  Tensor a, b, y, g;
};
/// Bounds of the values of an example's operands.
using Range = std::pair<double, double>;

/// An op of one operand. A function that gives 0 or 1 stands for a boolean result.
struct Unary {
  std::string_view name;
  std::string_view doc;
  Takes takes = Takes::floats;
  bool boolean_result = false;
  std::function<double(double)> real;
  std::function<std::int64_t(std::int64_t)> integer;  // the interpreter wraps it to the dtype
  std::function<Scalar(Scalar)> lower;
  std::variant<std::monostate, std::function<Tensor(const UnaryCotangent&)>, NotDifferentiable> gradient;
  std::vector<Range> ranges;  // of float examples, in turn
  ComputeIn compute_in = ComputeIn::operands;
};
OpDef define(Unary op);

/// An op of two operands of one type.
struct Binary {
  std::string_view name;
  std::string_view doc;
  Takes takes = Takes::floats;
  bool boolean_result = false;
  std::function<double(double, double)> real;
  std::function<std::int64_t(std::int64_t, std::int64_t)> integer;
  std::function<Scalar(Scalar, Scalar)> lower;
  std::function<Tensor(const BinaryCotangent&)> gradient_a;
  std::function<Tensor(const BinaryCotangent&)> gradient_b;
  std::string_view flat;  // why there is no gradient, where there is none
  std::vector<std::pair<Range, Range>> ranges;
  ComputeIn compute_in = ComputeIn::operands;
};
OpDef define(Binary op);

/// Lowering of an element-wise op from an expression of its operands. bf16 and f16 operands come as f32, and the
/// result is rounded to the node's dtype once.
LowerRule lower_scalars(
    std::function<loops::ExprId(loops::ExprBuilder&, const std::vector<loops::ExprId>&)> expression);

}  // namespace wholestep::elementwise
