// The choice between two values by a boolean.
#include <cstddef>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::scalar_like;

/// a where `condition` (boolean) is true, b elsewhere. a and b have one dtype; shapes broadcast.
Tensor select(Tensor condition, Tensor a, Tensor b) { return apply_broadcast("select", {condition, a, b}); }

/// As above, with a number on one side.
Tensor select(Tensor condition, Tensor a, double b) { return select(condition, a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor select(Tensor condition, double a, Tensor b) { return select(condition, scalar_like(b, a), b); }

namespace {

TensorType infer(const InferArgs& args) {
  const TensorType &condition = args.operands[0], &a = args.operands[1], &b = args.operands[2];
  if (condition.dtype != DType::boolean) args.fail(ErrorCode::dtype_mismatch, "the condition must be bool");
  if (a.dtype != b.dtype) args.fail(ErrorCode::dtype_mismatch, "the two values must have one dtype; use cast");
  if (a.shape != condition.shape || b.shape != a.shape) {
    args.fail(ErrorCode::shape_mismatch, "operands must have one shape");
  }
  return a;
}

void evaluate(const EvalArgs& args) {
  for (std::size_t i = 0; i < args.operands[0]->integer.size(); ++i) {
    const HostValue& chosen = *args.operands[args.operands[0]->integer[i] ? 1 : 2];
    if (is_float(chosen.type.dtype)) {
      args.result.real[i] = chosen.real[i];
    } else {
      args.result.integer[i] = chosen.integer[i];
    }
  }
}

std::vector<Tensor> gradient(const GradientArgs& args) {
  return {Tensor(), args.wanted[1] ? select(args.operands[0], args.cotangent, 0) : Tensor(),
          args.wanted[2] ? select(args.operands[0], 0, args.cotangent) : Tensor()};
}

}  // namespace

void register_select(OpTable& table) {
  OpDef def;
  def.name = "select";
  def.doc = "a where the condition is true, b elsewhere. What is not chosen has gradient 0.";
  def.min_operands = def.max_operands = 3;
  def.infer = infer;
  def.evaluate = evaluate;
  def.gradient = GradientRule(gradient);
  def.lower = elementwise::lower_scalars(
      [](loops::ExprBuilder& exprs, const std::vector<loops::ExprId>& x) { return exprs.select(x[0], x[1], x[2]); });
  for (const TensorType& type :
       {TensorType{f32, {2, 3}}, TensorType{f64, {}}, TensorType{f32, {0, 3}}, TensorType{bf16, {7}},
        TensorType{i64, {4}}, TensorType{u8, {5}}, TensorType{boolean, {6}}}) {
    def.examples.push_back({{{boolean, type.shape}, type, type}, {}, {}});
  }
  table.add(std::move(def));
}

}  // namespace wholestep
