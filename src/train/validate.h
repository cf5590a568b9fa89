#pragma once
// What a trainer requires of a graph and of the values that it is given, checked before anything is made.
#include <string>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/graph.h"

namespace wholestep::train {

/// Throws `no_outputs`, `loss_not_scalar`.
void check_loss(const Graph& graph);
/// Throws `nothing_to_train`, `not_a_parameter`, `duplicate_name`, `dtype_mismatch` (a parameter that is not of a float
/// dtype).
void check_trainable(const Graph& graph, const std::vector<std::string>& train);
/// Throws `unknown_name`, `duplicate_name`, `missing_initial_value`, `wrong_length`, `shape_mismatch`,
/// `dtype_mismatch`.
void check_initial(const Graph& graph, const NamedArrays& initial);
/// Throws `checkpoint_mismatch` unless `other` has the parameters, states and number of outputs of `graph`.
void check_same_model(const Graph& graph, const Graph& other);

}  // namespace wholestep::train
