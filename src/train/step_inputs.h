#pragma once
// The inputs "step/seed" and "step/training" of a forward graph, as a trainer gives them.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep::train {

/// Whether an input of this name is of the step block, which the trainer gives.
bool of_the_step_block(std::string_view input);
/// The other inputs of `graph`, by name.
std::vector<std::pair<std::string, TensorType>> given_inputs(const Graph& graph);

/// `graph` with the constant `training` in place of its input "step/training"; what only the other choice needs then
/// falls away when it is compiled. `graph` itself where it has no such input. Throws `duplicate_name` where it has one
/// of the two names for anything but an input of its type.
Graph in_mode(Graph graph, bool training);

/// The key of the random numbers of a step, read by programs at its address.
class StepKey {
 public:
  void set(std::uint64_t seed, std::int64_t step);
  /// Where it is read.
  const std::int32_t* words() const { return words_.data(); }

 private:
  std::array<std::int32_t, 4> words_{};
};

}  // namespace wholestep::train
