#pragma once
// One training step as a graph: forward, backward, and the gated update of every trainable parameter.
#include <string>
#include <string_view>
#include <vector>

#include "wholestep/graph.h"
#include "wholestep/optim.h"

namespace wholestep::train {

// The step block: inputs that change each step.
inline constexpr std::string_view kLearningRate = "step/lr";  // f32 scalar
inline constexpr std::string_view kGates = "step/gates";      // bool, one per trainable parameter: whether it moves
/// The rule of each parameter in `train`. Throws what `OptimizerRule::check_parameters` throws.
std::vector<ParameterRule> rules_of(const OptimizerRule& optimizer, const Graph& forward,
                                    const std::vector<std::string>& train);
/// f32, one per trainable parameter: the scalar `name` of its rule for its own step count; 0 where its rule has none.
std::string scalars_input(std::string_view name);
/// The names of the scalars of all rules, each once.
std::vector<std::string> scalar_names(const std::vector<ParameterRule>& rules);

/// The state that holds slot `slot` of parameter `param`.
std::string slot_state(std::string_view param, std::string_view slot);

/// `forward` with its outputs, and an update of each parameter in `train` and of its slots by the gradient of the first
/// output, `rules[i]` being the rule of `train[i]`. The cotangent of the loss is the constant 1; gradients are no
/// outputs. Where a gate is false, parameter and slots keep their bits. `train` are floating-point parameters of
/// `forward`, whose first output is a float scalar. Throws `duplicate_name` (a reserved name), `invalid_argument` (a
/// parameter in `train` that has an update already), `not_differentiable`.
Graph make_step_graph(const Graph& forward, const std::vector<std::string>& train,
                      const std::vector<ParameterRule>& rules);

}  // namespace wholestep::train
