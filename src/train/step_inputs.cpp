#include "train/step_inputs.h"

#include "passes/rebuild.h"
#include "wholestep/nn.h"

namespace wholestep::train {

bool of_the_step_block(std::string_view input) { return input.starts_with("step/"); }

std::vector<std::pair<std::string, TensorType>> given_inputs(const Graph& graph) {
  std::vector<std::pair<std::string, TensorType>> inputs;
  for (const NodeId id : graph.nodes_of("input")) {
    const Node& input = graph.node(id);
    if (!of_the_step_block(input.name)) inputs.emplace_back(input.name, input.type);
  }
  return inputs;
}

Graph in_mode(Graph graph, bool training) {
  if (graph.find(nn::kStepSeed)) nn::step_seed(graph);
  if (!graph.find(nn::kStepTraining)) return graph;
  const NodeId given = nn::step_training(graph).id();
  return passes::rewrite(graph, [&](passes::Rebuild& rebuild, NodeId id) {
    return id == given ? rebuild.to().constant(training, DType::boolean) : Tensor();
  });
}

void StepKey::set(std::uint64_t seed, std::int64_t step) {
  const auto word = [](std::uint64_t value) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(value)); };
  const auto taken = static_cast<std::uint64_t>(step);
  words_ = {word(seed), word(seed >> 32), word(taken), word(taken >> 32)};
}

}  // namespace wholestep::train
