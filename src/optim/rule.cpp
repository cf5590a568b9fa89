#include "optim/rule.h"

#include <fmt/format.h>

#include <cmath>

#include "wholestep/ops.h"

namespace wholestep {

Tensor OptimizerRule::evaluation_value(Graph&, Tensor param, const std::vector<Tensor>&) const { return param; }

std::vector<std::pair<std::string, double>> OptimizerRule::hyper_parameters() const { return {}; }

ParameterRule OptimizerRule::rule_for(std::string_view, const TensorType&) const { return {this}; }

void OptimizerRule::check_parameters(const std::vector<std::pair<std::string, TensorType>>&) const {}

namespace optim {

void require(bool ok, std::string_view optimizer, std::string_view hyper_parameter, std::string_view range,
             double value) {
  if (ok) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} must be {}, got {}", optimizer, hyper_parameter, range, value));
}

void require_non_negative(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(std::isfinite(value) && value >= 0, optimizer, hyper_parameter, "finite and at least 0", value);
}

void require_decay_rate(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(value >= 0 && value < 1, optimizer, hyper_parameter, "in [0, 1)", value);
}

void require_positive(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(std::isfinite(value) && value > 0, optimizer, hyper_parameter, "finite and above 0", value);
}

DType update_dtype(DType param) { return param == DType::f64 ? DType::f64 : DType::f32; }

OptimizerSlot slot_like(std::string name, const TensorType& param) {
  return {std::move(name), {update_dtype(param.dtype), param.shape}};
}

Tensor as(Tensor x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Tensor moving_average(Tensor average, Tensor value, double rate) {
  return multiply_add(average, rate, value * (1 - rate));
}

OptimizerArgs in_update_dtype(const OptimizerArgs& args) {
  const DType dtype = update_dtype(args.param.dtype());
  OptimizerArgs out = args;
  out.param = as(args.param, dtype);
  out.grad = as(args.grad, dtype);
  out.lr = as(args.lr, dtype);
  for (Tensor& scalar : out.scalars) scalar = as(scalar, dtype);
  return out;
}

}  // namespace optim
}  // namespace wholestep
