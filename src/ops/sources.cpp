// Ops without operands that name memory: inputs, parameters, states, constants.
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

TensorType infer_declared(const InferArgs& args) {
  const auto& shape = args.attrs.get<std::vector<std::int64_t>>("shape");
  rules::check_shape(args, shape);
  return {args.attrs.get<DType>("dtype"), shape};
}

TensorType infer_constant(const InferArgs& args) {
  const Literal& value = args.attrs.get<Literal>("value");
  if (!value) args.fail(ErrorCode::invalid_argument, "has no data");
  return value->type();
}

OpDef named_source(std::string name, std::string doc) {
  OpDef def{
      .name = std::move(name), .doc = std::move(doc), .kind = OpKind::source, .min_operands = 0, .max_operands = 0};
  def.attrs = {{"dtype", "element type"}, {"shape", "extents"}};
  def.infer = infer_declared;
  def.gradient = NotDifferentiable{"it has no operands"};
  return def;
}

Literal literal(Array array) { return std::make_shared<const Array>(std::move(array)); }

}  // namespace

void register_sources(OpTable& table) {
  table.add(named_source("input", "A value given at each run."));
  OpDef param = named_source("param", "A value that lives on the device and can be trained.");
  param.attrs.push_back({"init", "how it starts: zeros, ones, constant, uniform, normal, ..."});
  param.attrs.push_back({"a", "the constant, the low end, the mean or the gain"});
  param.attrs.push_back({"b", "the high end, the standard deviation or the fan"});
  table.add(std::move(param));
  table.add(
      named_source("state", "A value that lives on the device and is moved by updates alone; it starts as zeros."));

  OpDef constant{.name = "constant", .doc = "A tensor known when the graph is built.", .kind = OpKind::source};
  constant.min_operands = 0;
  constant.max_operands = 0;
  constant.attrs = {{"value", "the data"}};
  constant.infer = infer_constant;
  constant.gradient = NotDifferentiable{"it has no operands"};
  constant.examples = {
      {{}, {{"value", literal(Array::scalar(1.5f))}}},
      {{}, {{"value", literal(Array::from<std::int64_t>({-(std::int64_t{1} << 60) - 1, 0, 7}))}}},
      {{}, {{"value", literal(Array::from<float>({1, -2, 0.25f, 3e-41f, 5, 6}, {2, 3}))}}},
      {{}, {{"value", literal(Array(DType::f32, {0, 3}))}}},
  };
  table.add(std::move(constant));
}

}  // namespace wholestep
