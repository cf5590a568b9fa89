#pragma once
// From gradients to moved parameters, as graph code: what all graphs that update have in common.
#include <cstdint>
#include <string>
#include <vector>

#include "train/step_graph.h"

namespace wholestep::train {

/// Throws `duplicate_name`, saying that `name` is reserved for `purpose`, where the graph has it.
void reserve(const Graph& graph, const std::string& name, const std::string& purpose);
/// An input of the step block.
Tensor declare_input(Graph& graph, const std::string& name, Shape shape, DType dtype);
/// The state that holds the scale of the loss.
Tensor declare_loss_scale(Graph& graph);

/// The graph's own updates happen where `gate`, a boolean scalar, is true.
void gate_updates(Graph& graph, Tensor gate);

/// Random numbers of the update: streams from the upper half, which `nn` does not reach, by the parameter's name.
std::int64_t stream_of(const std::string& param);

/// The parameters that are trained, their gradients in the dtype of the update, and what these are to be divided by.
struct Gradients {
  std::vector<Tensor> params, grads;
  std::vector<Tensor> curvatures;  // scaled as the gradients are; invalid where none is needed
  Tensor divisor;                  // invalid: 1
  Tensor loss_scale;               // invalid: none
};

/// Appends to a graph with gradients all that moves parameters: what `options` puts around the update, refreshes of
/// slots, the rules' updates and averages, each behind its parameter's gate. Where a step may be skipped, one more
/// output says whether it was not.
void append_update(Graph& graph, const std::vector<ParameterRule>& rules, const UpdateOptions& options,
                   RefreshKinds refreshes, Gradients gradients);

}  // namespace wholestep::train
