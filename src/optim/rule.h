#pragma once
// What the optimizers share: checks of hyper-parameters, and the dtype in which an update is computed.
#include <string_view>

#include "wholestep/optim.h"

namespace wholestep::optim {

/// Throws `invalid_argument`, "AdamW: beta1 must be in [0, 1), got 1.5", unless `ok`.
void require(bool ok, std::string_view optimizer, std::string_view hyper_parameter, std::string_view range,
             double value);
/// Requires a finite value of at least zero.
void require_non_negative(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires 0 <= value < 1.
void require_decay_rate(std::string_view optimizer, std::string_view hyper_parameter, double value);
/// Requires a finite value above zero.
void require_positive(std::string_view optimizer, std::string_view hyper_parameter, double value);

/// The dtype of a parameter's update and of its slots: f64 for f64, f32 for all others, so that a bf16 or f16 parameter
/// is rounded once per step.
DType update_dtype(DType param);
/// A slot of the parameter's shape, in the dtype of the update.
OptimizerSlot slot_like(std::string name, const TensorType& param);

/// `x` as `dtype`; no op where it is that already.
Tensor as(Tensor x, DType dtype);
/// Exponential moving average: rate * average + (1 - rate) * value.
Tensor moving_average(Tensor average, Tensor value, double rate);
/// `args` with parameter, gradient and scalars in the dtype of the update, in which the slots are.
OptimizerArgs in_update_dtype(const OptimizerArgs& args);

}  // namespace wholestep::optim
