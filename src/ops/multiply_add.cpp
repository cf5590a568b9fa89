// A product and a sum with one rounding.
#include <cmath>
#include <cstddef>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::scalar_like;

/// a * b + c for floats, rounded once where the device can (as std::fma), else twice. Shapes broadcast.
Tensor multiply_add(Tensor a, Tensor b, Tensor c) { return apply_broadcast("multiply_add", {a, b, c}); }

/// As above, with a number for b.
Tensor multiply_add(Tensor a, double b, Tensor c) { return multiply_add(a, scalar_like(a, b), c); }

/// As above, with a number for c.
Tensor multiply_add(Tensor a, Tensor b, double c) { return multiply_add(a, b, scalar_like(a, c)); }

namespace {

TensorType infer(const InferArgs& args) { return elementwise::infer_same_type(args, elementwise::Takes::floats); }

void evaluate(const EvalArgs& args) {
  const std::vector<double>&a = args.operands[0]->real, &b = args.operands[1]->real, &c = args.operands[2]->real;
  for (std::size_t i = 0; i < a.size(); ++i) args.result.real[i] = std::fma(a[i], b[i], c[i]);
}

std::vector<Tensor> gradient(const GradientArgs& args) {
  return {args.wanted[0] ? args.cotangent * args.operands[1] : Tensor(),
          args.wanted[1] ? args.cotangent * args.operands[0] : Tensor(), args.wanted[2] ? args.cotangent : Tensor()};
}

}  // namespace

void register_multiply_add(OpTable& table) {
  OpDef def;
  def.name = "multiply_add";
  def.doc = "a * b + c, rounded once where the device can, else twice.";
  def.min_operands = def.max_operands = 3;
  def.infer = infer;
  def.evaluate = evaluate;
  def.gradient = GradientRule(gradient);
  def.lower = elementwise::lower_scalars(
      [](loops::ExprBuilder& exprs, const std::vector<loops::ExprId>& x) { return exprs.fma(x[0], x[1], x[2]); });
  for (const TensorType& type : {TensorType{f32, {2, 3}}, TensorType{f64, {}}, TensorType{f32, {0, 3}},
                                 TensorType{bf16, {7}}, TensorType{f16, {2, 2}}}) {
    def.examples.push_back({{type, type, type}, {}, {}});
  }
  table.add(std::move(def));
}

}  // namespace wholestep
