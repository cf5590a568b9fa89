#include "ops/elementwise.h"

#include <fmt/format.h>

namespace wholestep::elementwise {
namespace {

bool takes(Takes set, DType dtype) {
  switch (set) {
    case Takes::floats:
      return is_float(dtype);
    case Takes::integers:
      return is_integer(dtype);
    case Takes::numbers:
      return dtype != DType::boolean;
    case Takes::booleans:
      return dtype == DType::boolean;
    case Takes::all:
      return true;
  }
  return false;
}

std::string_view describe(Takes set) {
  switch (set) {
    case Takes::floats:
      return "f64, f32, bf16 or f16";
    case Takes::integers:
      return "i64, i32 or u8";
    case Takes::numbers:
      return "numbers, not bool";
    case Takes::booleans:
      return "bool";
    case Takes::all:
      return "any dtype";
  }
  return "";
}

/// Numpy's rule: aligned at the last axis, an extent of 1 stretches.
Shape common_shape(std::string_view op, const std::vector<Tensor>& operands) {
  Shape common;
  for (const Tensor& operand : operands) {
    const Shape& shape = operand.shape();
    if (shape.size() > common.size()) common.insert(common.begin(), shape.size() - common.size(), 1);
    const std::size_t lead = common.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i) {
      std::int64_t& extent = common[lead + i];
      if (extent == 1) {
        extent = shape[i];
      } else if (shape[i] != 1 && shape[i] != extent) {
        std::string shapes;
        for (const Tensor& t : operands) shapes += (shapes.empty() ? "" : ", ") + to_string(t.type());
        throw Error(ErrorCode::shape_mismatch, fmt::format("{}: operand shapes do not broadcast ({})", op, shapes));
      }
    }
  }
  return common;
}

/// The examples that dtypes and ranks make interesting; float types take `ranges` in turn.
std::vector<OpExample> examples_of(Takes set, std::size_t operands, const std::vector<std::vector<Range>>& ranges) {
  const TensorType types[] = {{f32, {2, 3}},  {f64, {}},     {f32, {0, 3}},    {f64, {5}}, {bf16, {7}},
                              {f16, {2, 2}},  {i32, {3, 2}}, {i64, {4}},       {u8, {5}},  {i32, {}},
                              {boolean, {6}}, {boolean, {}}, {boolean, {2, 0}}};
  std::vector<OpExample> examples;
  std::size_t turn = 0;
  for (const TensorType& type : types) {
    if (!takes(set, type.dtype)) continue;
    OpExample example{std::vector<TensorType>(operands, type), {}, {}};
    if (is_float(type.dtype) && !ranges.empty()) example.ranges = ranges[turn++ % ranges.size()];
    if (type.dtype == i32 || type.dtype == i64) example.ranges.assign(operands, {-5, 5});
    examples.push_back(std::move(example));
  }
  return examples;
}

/// result[i] = element(i), in the arithmetic of the result.
template <class Element>
void fill(const EvalArgs& args, Element element) {
  HostValue& result = args.result;
  for (std::size_t i = 0; i < static_cast<std::size_t>(result.size()); ++i) {
    if (is_float(result.type.dtype)) {
      result.real[i] = static_cast<double>(element(i));
    } else {
      result.integer[i] = static_cast<std::int64_t>(element(i));
    }
  }
}

}  // namespace

TensorType infer_same_type(const InferArgs& args, Takes set, bool boolean_result) {
  const TensorType& first = args.operands.front();
  for (const TensorType& type : args.operands) {
    if (!takes(set, type.dtype)) args.fail(ErrorCode::dtype_mismatch, fmt::format("takes {}", describe(set)));
    if (type.dtype != first.dtype) args.fail(ErrorCode::dtype_mismatch, "operands must have one dtype; use cast");
    if (type.shape != first.shape) args.fail(ErrorCode::shape_mismatch, "operands must have one shape");
  }
  return {boolean_result ? boolean : first.dtype, first.shape};
}

Tensor broadcast_to(Tensor x, const Shape& shape) {
  return x.shape() == shape ? x : x.graph().apply("broadcast", {x}, {{"shape", shape}});
}

Tensor apply_broadcast(std::string_view name, std::vector<Tensor> operands, Attrs attrs) {
  for (const Tensor& operand : operands) {
    if (!operand.valid() || &operand.graph() != &operands[0].graph()) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: operands must be tensors of one graph", name));
    }
  }
  const Shape shape = common_shape(name, operands);
  for (Tensor& operand : operands) operand = broadcast_to(operand, shape);
  return operands[0].graph().apply(name, operands, std::move(attrs));
}

LowerRule lower_scalars(
    std::function<loops::ExprId(loops::ExprBuilder&, const std::vector<loops::ExprId>&)> expression) {
  return [expression = std::move(expression)](LowerContext& context, const loops::Index& at) {
    loops::ExprBuilder& exprs = context.exprs();
    const auto is_narrow = [](DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; };
    std::vector<loops::ExprId> operands;
    for (std::size_t i = 0; i < context.node().operands.size(); ++i) {
      const loops::ExprId x = context.operand(static_cast<int>(i), at);
      operands.push_back(is_narrow(exprs[x].dtype) ? exprs.cast(x, DType::f32) : x);
    }
    const loops::ExprId value = expression(exprs, operands);
    const DType dtype = context.node().type.dtype;
    return is_narrow(dtype) ? exprs.cast(value, dtype) : value;
  };
}

OpDef define(Unary op) {
  OpDef def;
  def.name = op.name;
  def.doc = op.doc;
  def.compute_in = op.compute_in;
  def.infer = [set = op.takes, boolean_result = op.boolean_result](const InferArgs& args) {
    return infer_same_type(args, set, boolean_result);
  };
  def.evaluate = [real = std::move(op.real), integer = std::move(op.integer)](const EvalArgs& args) {
    const HostValue& x = *args.operands[0];
    if (is_float(x.type.dtype)) {
      fill(args, [&](std::size_t i) { return real(x.real[i]); });
    } else {
      fill(args, [&](std::size_t i) { return integer(x.integer[i]); });
    }
  };
  def.lower =
      lower_scalars([lower = std::move(op.lower)](loops::ExprBuilder& exprs, const std::vector<loops::ExprId>& x) {
        return lower(Scalar(exprs, x[0])).id();
      });
  if (auto* flat = std::get_if<NotDifferentiable>(&op.gradient)) {
    def.gradient = std::move(*flat);
  } else if (auto* rule = std::get_if<1>(&op.gradient)) {
    def.gradient = GradientRule([rule = std::move(*rule)](const GradientArgs& args) {
      return std::vector<Tensor>{rule({args.operands[0], args.output, args.cotangent})};
    });
  }
  std::vector<std::vector<Range>> ranges;
  for (const Range& range : op.ranges) ranges.push_back({range});
  def.examples = examples_of(op.takes, 1, ranges);
  return def;
}

OpDef define(Binary op) {
  OpDef def;
  def.name = op.name;
  def.doc = op.doc;
  def.compute_in = op.compute_in;
  def.min_operands = def.max_operands = 2;
  def.infer = [set = op.takes, boolean_result = op.boolean_result](const InferArgs& args) {
    return infer_same_type(args, set, boolean_result);
  };
  def.evaluate = [real = std::move(op.real), integer = std::move(op.integer)](const EvalArgs& args) {
    const HostValue& a = *args.operands[0];
    const HostValue& b = *args.operands[1];
    if (is_float(a.type.dtype)) {
      fill(args, [&](std::size_t i) { return real(a.real[i], b.real[i]); });
    } else {
      fill(args, [&](std::size_t i) { return integer(a.integer[i], b.integer[i]); });
    }
  };
  def.lower =
      lower_scalars([lower = std::move(op.lower)](loops::ExprBuilder& exprs, const std::vector<loops::ExprId>& x) {
        return lower(Scalar(exprs, x[0]), Scalar(exprs, x[1])).id();
      });
  if (op.gradient_a) {
    def.gradient = GradientRule([a = std::move(op.gradient_a), b = std::move(op.gradient_b)](const GradientArgs& args) {
      const BinaryCotangent at{args.operands[0], args.operands[1], args.output, args.cotangent};
      return std::vector<Tensor>{args.wanted[0] ? a(at) : Tensor(), args.wanted[1] ? b(at) : Tensor()};
    });
  } else if (!op.flat.empty()) {
    def.gradient = NotDifferentiable{std::string(op.flat)};
  }
  std::vector<std::vector<Range>> ranges;
  for (const auto& [a, b] : op.ranges) ranges.push_back({a, b});
  def.examples = examples_of(op.takes, 2, ranges);
  return def;
}

}  // namespace wholestep::elementwise
