#pragma once
// Layers and models, built with the graph builder alone.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "wholestep/graph.h"

namespace wholestep::nn {

/// x [..., in] times `<name>.weight` [in, out] plus `<name>.bias` [out]. Both start uniform in +-1/sqrt(in), as
/// PyTorch's, the weight as `weight` says where that is given. Throws `shape_mismatch` for a scalar x,
/// `duplicate_name`.
Tensor linear(Graph& graph, const std::string& name, Tensor x, std::int64_t out, bool bias = true,
              std::optional<Init> weight = {});

/// Inputs that say where in training a run is. A trainer gives them itself; whoever compiles such a graph with
/// `Session` gives them as any other input.
inline constexpr std::string_view kStepSeed = "step/seed";  // i32 [4]: low and high word of the seed, then of the step
inline constexpr std::string_view kStepTraining = "step/training";  // bool: false in evaluation

/// Input `kStepSeed`, a key for `random_bits` and what is made of it; declared where the graph has none. Throws
/// `duplicate_name` where the name is taken by something else.
Tensor step_seed(Graph& graph);
/// Input `kStepTraining`, as above.
Tensor step_training(Graph& graph);

/// In training, x / (1 - rate) where an element is kept and 0 where it is dropped, each with probability `rate` and
/// anew in each step (Srivastava et al., 2014; inverted, so that x itself is the value in evaluation). An element is
/// kept where its f32 `random_uniform` of `step_seed` is at least `rate`; each use in a graph has a stream of its own,
/// one more than the largest so far. Throws `invalid_argument` unless 0 <= rate < 1, `dtype_mismatch` unless x is
/// floating-point.
Tensor dropout(Graph& graph, Tensor x, double rate);

}  // namespace wholestep::nn

namespace wholestep::models {

/// The 784-128-10 classifier: inputs "x" u8 [batch, 784] (divided by 255 inside) and "y" i32 [batch];
/// outputs mean cross-entropy and the number of correct predictions (i32).
Graph mlp(std::int64_t batch, std::int64_t inputs = 784, std::int64_t hidden = 128, std::int64_t classes = 10);

/// A built-in model by name ("mlp"), for a batch size. Throws `unknown_name` listing the names.
std::function<Graph(std::int64_t batch)> by_name(const std::string& name);

}  // namespace wholestep::models
