#include "optim/rule.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/convert.h"
#include "wholestep/ops.h"

namespace wholestep {

Tensor OptimizerRule::evaluation_value(Graph&, Tensor param, const std::vector<Tensor>&) const { return param; }

std::vector<std::pair<std::string, double>> OptimizerRule::hyper_parameters() const { return {}; }

int OptimizerRule::refresh_due(std::int64_t) const { return 0; }

std::vector<Tensor> OptimizerRule::append_refresh(const RefreshArgs& args) const { return args.step.slots; }

ParameterRule OptimizerRule::rule_for(std::string_view, const TensorType&) const { return {this}; }

void OptimizerRule::check_parameters(const std::vector<std::pair<std::string, TensorType>>&) const {}

namespace optim {

void require(bool ok, std::string_view optimizer, std::string_view hyper_parameter, std::string_view range,
             double value) {
  if (ok) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} must be {}, got {}", optimizer, hyper_parameter, range, number_text(value)));
}

bool non_negative_in_f32(double value) { return value >= 0 && value <= std::numeric_limits<float>::max(); }

void require_at_least_one(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(value >= 1, optimizer, hyper_parameter, "at least 1", value);
}

void require_non_negative(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(non_negative_in_f32(value), optimizer, hyper_parameter, "finite in f32 and at least 0", value);
}

void require_decay_rate(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(value >= 0 && value < 1, optimizer, hyper_parameter, "in [0, 1)", value);
}

void require_share(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(value >= 0 && value <= 1, optimizer, hyper_parameter, "in [0, 1]", value);
}

void require_positive(std::string_view optimizer, std::string_view hyper_parameter, double value) {
  require(value >= std::numeric_limits<float>::min() && non_negative_in_f32(value), optimizer, hyper_parameter,
          "above 0 and a normal number of f32", value);
}

DType update_dtype(DType param) { return param == DType::f64 ? DType::f64 : DType::f32; }

OptimizerSlot slot_like(std::string name, const TensorType& param) {
  return {std::move(name), {update_dtype(param.dtype), param.shape}};
}

double bias_correction(double beta, std::int64_t t) {
  return beta == 0 ? 1.0 : -std::expm1(static_cast<double>(t) * std::log(beta));
}

StepScalar inverse_bias_correction(std::string name, double beta) {
  return {std::move(name), [beta](std::int64_t t) { return 1 / bias_correction(beta, t); }};
}

StepScalar inverse_sqrt_bias_correction(std::string name, double beta) {
  return {std::move(name), [beta](std::int64_t t) { return 1 / std::sqrt(bias_correction(beta, t)); }};
}

Tensor as(Tensor x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

Tensor moving_average(Tensor average, Tensor value, double rate) {
  return multiply_add(average, rate, value * (1 - rate));
}

// average + (1 - rate) * (value^2 - average) is one operation less, but where value^2 was too large once, the next
// difference is infinity - infinity. As it is here the average stays infinite, and what is divided by it 0.
Tensor moving_average_of_square(Tensor average, Tensor value, double rate) {
  return multiply_add(value * (1 - rate), value, average * rate);
}

Tensor decayed(Tensor p, Tensor lr, double weight_decay) {
  return weight_decay == 0 ? p : p * (1.0 - lr * weight_decay);
}

Tensor descended(Tensor p, Tensor rate, Tensor direction) { return multiply_add(direction, -rate, p); }

Tensor l2_norm(Tensor x) { return sqrt(reduce_sum(square(x))); }

OptimizerArgs in_update_dtype(const OptimizerArgs& args) {
  const DType dtype = update_dtype(args.param.dtype());
  OptimizerArgs out = args;
  out.param = as(args.param, dtype);
  out.grad = as(args.grad, dtype);
  out.lr = as(args.lr, dtype);
  for (Tensor& scalar : out.scalars) scalar = as(scalar, dtype);
  return out;
}

std::vector<OptimizerSlot> CompositeRule::slots(const TensorType&) const {
  throw Error(ErrorCode::invalid_argument, name() + " is made of other rules: the slots are those of rule_for");
}

OptimizerResult CompositeRule::append(const OptimizerArgs&) const {
  throw Error(ErrorCode::invalid_argument, name() + " is made of other rules: the update is that of rule_for");
}

}  // namespace optim
}  // namespace wholestep
