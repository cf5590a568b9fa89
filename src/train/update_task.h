#pragma once
// Whether Core ML's own update task could train a model: rules on the graph, which need no Apple machine.
#include <optional>
#include <string>
#include <vector>

#include "wholestep/graph.h"
#include "wholestep/optim.h"

namespace wholestep::train {

/// Why an update task cannot train `train` of `graph` with `rule`, or nothing where it can. An update task trains the
/// weights and biases of inner products, by cross-entropy or squared error, through ReLU, sigmoid, tanh and flattening
/// alone, with SGD or Adam as Core ML has them. `graph` and `train` are what a trainer accepts.
std::optional<std::string> why_no_update_task(const Graph& graph, const std::vector<std::string>& train,
                                              const OptimizerRule& rule);

}  // namespace wholestep::train
