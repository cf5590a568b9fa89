#pragma once
// What the optimizers share: checks of hyper-parameters, and the dtype in which an update is computed.
#include <string_view>

#include "wholestep/optim.h"

namespace wholestep::optim {

/// Throws `invalid_argument`, "AdamW: beta1 must be in [0, 1), got 1.5", unless `ok`.
void require(bool ok, std::string_view optimizer, std::string_view hyper_parameter, std::string_view range,
             double value);
/// Whether a value is at least zero and finite in f32, in which updates are computed: the range of learning rates.
bool non_negative_in_f32(double value);
/// Requires such a value.
void require_non_negative(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires a value of at least one.
void require_at_least_one(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires 0 <= value < 1.
void require_decay_rate(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires 0 <= value <= 1.
void require_share(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires a value above zero that is a normal number of f32.
void require_positive(std::string_view optimizer, std::string_view hyper_parameter, double value);

/// The dtype of a parameter's update and of its slots: f64 for f64, f32 for all others, so that a bf16 or f16 parameter
/// is rounded once per step.
DType update_dtype(DType param);
/// A slot of the parameter's shape, in the dtype of the update.
OptimizerSlot slot_like(std::string name, const TensorType& param);

/// 1 / (1 - beta^t) and 1 / sqrt(1 - beta^t), which correct a moving average that starts as zeros.
StepScalar inverse_bias_correction(std::string name, double beta);
StepScalar inverse_sqrt_bias_correction(std::string name, double beta);
/// 1 - beta^t, without the cancellation for beta near 1 and small t.
double bias_correction(double beta, std::int64_t t);

/// `x` as `dtype`; no op where it is that already.
Tensor as(Tensor x, DType dtype);
/// Exponential moving average: rate * average + (1 - rate) * value.
Tensor moving_average(Tensor average, Tensor value, double rate);
/// The same of value^2.
Tensor moving_average_of_square(Tensor average, Tensor value, double rate);
/// p * (1 - lr * weight_decay); `p` itself where there is no decay.
Tensor decayed(Tensor p, Tensor lr, double weight_decay);
/// p - rate * direction, rounded once. `rate` is a scalar, so that its sign costs nothing per element.
Tensor descended(Tensor p, Tensor rate, Tensor direction);
/// The Euclidean norm of all elements, a scalar.
Tensor l2_norm(Tensor x);
/// `args` with parameter, gradient and scalars in the dtype of the update, in which the slots are.
OptimizerArgs in_update_dtype(const OptimizerArgs& args);

/// A rule made of others: it answers `rule_for`, and has no slots or update of its own.
class CompositeRule : public OptimizerRule {
 public:
  std::vector<OptimizerSlot> slots(const TensorType& param) const override;
  OptimizerResult append(const OptimizerArgs& args) const override;
  ParameterRule rule_for(std::string_view param, const TensorType& type) const override = 0;
};

}  // namespace wholestep::optim
