#pragma once
// Layers and models, built with the graph builder alone.
#include <cstdint>
#include <functional>
#include <string>

#include "wholestep/graph.h"

namespace wholestep::nn {

/// x [..., in] times `<name>.weight` [in, out] plus `<name>.bias` [out]. Both start uniform in +-1/sqrt(in), as PyTorch's.
/// Throws `shape_mismatch` for a scalar x, `duplicate_name`.
Tensor linear(Graph& graph, const std::string& name, Tensor x, std::int64_t out, bool bias = true);

}  // namespace wholestep::nn

namespace wholestep::models {

/// The 784-128-10 classifier: inputs "x" u8 [batch, 784] (divided by 255 inside) and "y" i32 [batch];
/// outputs mean cross-entropy and the number of correct predictions (i32).
Graph mlp(std::int64_t batch, std::int64_t inputs = 784, std::int64_t hidden = 128, std::int64_t classes = 10);

/// A built-in model by name ("mlp"), for a batch size. Throws `unknown_name` listing the names.
std::function<Graph(std::int64_t batch)> by_name(const std::string& name);

}  // namespace wholestep::models
