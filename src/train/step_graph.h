#pragma once
// One training step as a graph: forward, backward, and the gated update of every trainable parameter.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wholestep/graph.h"
#include "wholestep/optim.h"
#include "wholestep/trainer.h"

namespace wholestep::train {

// The step block: inputs that change each step.
inline constexpr std::string_view kLearningRate = "step/lr";  // f32 scalar
inline constexpr std::string_view kGates = "step/gates";      // bool, one per trainable parameter: whether it moves
inline constexpr std::string_view kCount = "step/count";  // f32 scalar: micro-batches that gradients are summed over
inline constexpr std::string_view kContinues =
    "step/continues";  // bool scalar: a micro-batch is not the first of its step
inline constexpr std::string_view kRefreshes = "step/refreshes";  // i32, one per parameter: the refresh due, or 0

/// A set of refreshes, as bit k - 1 for refresh k of the rules that have it.
using RefreshKinds = std::uint32_t;
/// All that the rules have.
RefreshKinds all_refreshes(const std::vector<ParameterRule>& rules);

/// The rule of each parameter in `train`. Throws what `OptimizerRule::check_parameters` throws.
std::vector<ParameterRule> rules_of(const OptimizerRule& optimizer, const Graph& forward,
                                    const std::vector<std::string>& train);
/// f32, one per trainable parameter: the scalar `name` of its rule for its own step count; 0 where its rule has none.
std::string scalars_input(std::string_view name);
/// The names of the scalars of all rules, each once.
std::vector<std::string> scalar_names(const std::vector<ParameterRule>& rules);

// States beside the parameters, and inputs, by parameter.
/// The state that holds slot `slot` of parameter `param`.
std::string slot_state(std::string_view param, std::string_view slot);
/// Its moving average, where UpdateOptions::ema_decay asks for one; in the dtype of its update.
std::string average_state(std::string_view param);
TensorType average_type(const TensorType& param);
/// A parameter's value as an average.
Array as_average(const Array& value);
/// The slots of a parameter of type `param`, and its average, the slot "average", where `update` asks for one.
std::vector<OptimizerSlot> slots_with_average(const ParameterRule& chosen, const TensorType& param,
                                              const UpdateOptions& update);
/// The sums of its gradients and of estimates of its curvature over micro-batches; in the dtype of its update.
std::string sum_state(std::string_view param);
std::string curvature_sum_state(std::string_view param);
/// The input of an update graph that takes its gradient.
std::string gradient_input(std::string_view param);
std::string curvature_input(std::string_view param);

/// Whether a step may be skipped: whether its graph has the further, last output "was applied", a boolean scalar.
bool may_skip(const UpdateOptions& update);

/// `forward` with its outputs, and an update of each parameter in `train` and of its slots by the gradient of the first
/// output, `rules[i]` being the rule of `train[i]`, with what `update` puts around it. The cotangent of the loss is 1
/// or the loss scale; gradients are no outputs. Where a gate is false, parameter and slots keep their bits. `train` are
/// floating-point parameters of `forward`, whose first output is a float scalar. Throws `duplicate_name` (a reserved
/// name), `invalid_argument` (a parameter in `train` that has an update already), `not_differentiable`. With
/// `refreshes`, slots take their refreshed values first where `kRefreshes` says so.
Graph make_step_graph(const Graph& forward, const std::vector<std::string>& train,
                      const std::vector<ParameterRule>& rules, const UpdateOptions& update = {},
                      RefreshKinds refreshes = 0);

// The same step in parts. Gradients are scaled as the loss is, in the dtype of the update, until the update.
/// `forward` with its outputs, then a gradient for each parameter in `train`, then, where `refreshes` has any, the
/// curvature of each whose rule needs it.
Graph make_gradient_graph(const Graph& forward, const std::vector<std::string>& train,
                          const std::vector<ParameterRule>& rules, const UpdateOptions& update,
                          RefreshKinds refreshes = 0);
/// `forward` with its outputs, and gradients added to `sum_state`, which they begin where `kContinues` is false; with
/// `curvatures`, those of each parameter whose rule needs them alike.
Graph make_accumulate_graph(const Graph& forward, const std::vector<std::string>& train,
                            const std::vector<ParameterRule>& rules, const UpdateOptions& update, bool curvatures);
enum class GradientsFrom { sums, inputs };
/// The update alone, by gradients divided by `kCount`: the parameters in `train` of `forward` and what belongs to them.
/// From inputs, it takes what `make_gradient_graph` gives.
Graph make_update_graph(const Graph& forward, const std::vector<std::string>& train,
                        const std::vector<ParameterRule>& rules, const UpdateOptions& update, GradientsFrom from,
                        RefreshKinds refreshes = 0);

/// `forward` without updates, with what evaluation uses in place of each parameter in `train`.
Graph make_evaluation_graph(const Graph& forward, const std::vector<std::string>& train,
                            const std::vector<ParameterRule>& rules, Weights weights);

}  // namespace wholestep::train
