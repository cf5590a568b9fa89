#pragma once
// What happens to gradients between the backward pass and the optimizer, as graph code.
#include <vector>

#include "wholestep/graph.h"
#include "wholestep/trainer.h"

namespace wholestep::train {

/// Whether every element of every gradient whose gate is true is finite: a boolean scalar. `grads` are of one graph,
/// `gates` boolean scalars.
Tensor all_finite(const std::vector<Tensor>& grads, const std::vector<Tensor>& gates);

/// The Euclidean norm of all elements of all gradients whose gate is true, as one vector: a scalar, f64 where a
/// gradient is. It neither overflows nor loses a gradient of more than 1e-19 to underflow: squares are summed apart for
/// elements above 2^40, scaled down (Blue, 1978).
Tensor global_norm(const std::vector<Tensor>& grads, const std::vector<Tensor>& gates);

/// What to multiply with so that a vector of this norm has norm `limit` at most: limit / norm above it, else 1 (Pascanu
/// et al., 2013).
Tensor clip_factor(Tensor norm, double limit);

/// Each element limited to [-limit, limit]; NaN stays.
Tensor clip_by_value(Tensor grad, double limit);

// Dynamic loss scaling (Micikevicius et al., 2018). The cotangent of the loss is the scale.
inline constexpr std::string_view kLossScale = "step/loss_scale";  // f32 scalar state
inline constexpr std::string_view kGoodSteps = "step/good_steps";  // i32 scalar state: steps since the scale moved
inline constexpr double kLeastLossScale = 0x1p-120, kMostLossScale = 0x1p120;

/// Moves the scale: `factor` times as large after `interval` steps with finite gradients in a row, smaller by it after
/// a step without, within its bounds.
void update_loss_scale(Tensor scale, Tensor good_steps, Tensor finite, const LossScaling& how);

}  // namespace wholestep::train
