// Conversion between dtypes, the only op that changes one.
#include <cstddef>

#include "core/convert.h"
#include "ops/elementwise.h"

namespace wholestep {

/// x as `dtype`; x itself where it has that dtype. Floats become integers by truncation, saturated, NaN as 0; integers
/// wrap; floats round to nearest even; to bool is "not 0".
Tensor cast(Tensor x, DType dtype) {
  if (x.valid() && x.dtype() == dtype) return x;
  return elementwise::apply_broadcast("cast", {x}, {{"dtype", dtype}});
}

namespace {

void evaluate(const EvalArgs& args) {
  const HostValue& x = *args.operands[0];
  const DType to = args.result.type.dtype;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()); ++i) {
    if (is_float(to)) {
      args.result.real[i] = x.at(static_cast<std::int64_t>(i));
    } else if (is_float(x.type.dtype)) {
      args.result.integer[i] = saturate_to_integer(x.real[i], to);
    } else {
      args.result.integer[i] = to == DType::boolean ? x.integer[i] != 0 : x.integer[i];
    }
  }
}

std::vector<Tensor> gradient(const GradientArgs& args) { return {cast(args.cotangent, args.operands[0].dtype())}; }

}  // namespace

void register_cast(OpTable& table) {
  OpDef def;
  def.name = "cast";
  def.doc =
      "x as another dtype: floats to integers by truncation, saturated, NaN as 0; integers wrap; floats round to "
      "nearest even.";
  def.attrs = {{"dtype", "element type of the result"}};
  def.infer = [](const InferArgs& args) { return TensorType{args.attrs.get<DType>("dtype"), args.operands[0].shape}; };
  def.evaluate = evaluate;
  def.gradient = GradientRule(gradient);
  def.lower = [](LowerContext& context, const loops::Index& at) {
    return context.exprs().cast(context.operand(0, at), context.node().type.dtype);
  };
  const DType all[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
  for (DType from : all) {
    for (DType to : all) {
      OpExample example{{{from, {5}}}, {{"dtype", to}}, {}};
      if (is_float(from)) example.ranges = {{-3, 300}};
      def.examples.push_back(std::move(example));
    }
  }
  def.examples.push_back({{{f32, {}}}, {{"dtype", f64}}, {}});
  def.examples.push_back({{{f32, {0, 2}}}, {{"dtype", i32}}, {}});
  table.add(std::move(def));
}

}  // namespace wholestep
