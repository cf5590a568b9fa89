#pragma once
// What a trainer requires of a graph and of the values that it is given, checked before anything is made.
#include <cstdint>
#include <string>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/graph.h"
#include "wholestep/trainer.h"

namespace wholestep::train {

/// Throws `no_outputs`, `loss_not_scalar`.
void check_loss(const Graph& graph);
/// Throws `nothing_to_train`, `not_a_parameter`, `duplicate_name`, `dtype_mismatch` (a parameter that is not of a float
/// dtype).
void check_trainable(const Graph& graph, const std::vector<std::string>& train);
/// Throws `unknown_name`, `duplicate_name`, `missing_initial_value`, `wrong_length`, `shape_mismatch`,
/// `dtype_mismatch`.
void check_initial(const Graph& graph, const NamedArrays& initial);
/// All of the above, and the rule of each parameter. Throws what they throw, `invalid_argument` (no optimizer) and what
/// `OptimizerRule::check_parameters` throws.
std::vector<ParameterRule> check_and_choose_rules(const Graph& graph, const std::vector<std::string>& train,
                                                  const NamedArrays& initial, const Optimizer& optimizer);
/// `given` with the loss scaling that `precision` implies. Throws `invalid_argument` for an option outside its range.
UpdateOptions complete(UpdateOptions given, Precision precision);
/// What is on, for reports: ", gradients clipped to norm 1, averages of decay 0.99".
std::string describe(const UpdateOptions& update);
/// Throws `invalid_argument` where averages are not kept.
void require_averages(const UpdateOptions& update);
/// Throws `invalid_argument` where micro-batches are pending.
void check_nothing_pending(std::int64_t pending);
/// Throws `checkpoint_mismatch` unless `other` has the parameters, states and number of outputs of `graph`.
void check_same_model(const Graph& graph, const Graph& other);

}  // namespace wholestep::train
