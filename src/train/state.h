#pragma once
// What a ResidentTrainer holds.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/program.h"
#include "train/step_inputs.h"
#include "wholestep/trainer.h"

namespace wholestep {

namespace train {

/// The programs for one set of input shapes. All of a trainer's share one state.
struct Specialisation {
  Graph forward;  // without updates
  std::unique_ptr<runtime::Program> step;
  std::unique_ptr<runtime::Program> evaluate;  // made when first needed
};

/// A tensor of a checkpoint: its name in the file, and the parameter or state that it holds.
struct CheckpointTensor {
  std::string in_file;
  std::string resident;
  TensorType type;
};

/// A scalar of the step block: what it is for each trainable parameter, where the program reads it.
struct StepScalars {
  std::string name;
  std::vector<std::function<double(std::int64_t t)>> of_param;  // none where the parameter's rule has no such scalar
  std::vector<float> values;
};

}  // namespace train

struct ResidentTrainer::State {
  State(const Graph& graph, std::vector<std::string> names, const NamedArrays& initial, Optimizer optimizer,
        Device device, CompileOptions options);

  void choose_rules(const Graph& graph);
  /// The slots of trainable parameter `i`.
  std::vector<OptimizerSlot> slots_of(std::size_t i) const;
  train::Specialisation& add(const Graph& graph);
  train::Specialisation& program_for(const Inputs& inputs);
  /// The leading extent for which the builder's graph would take `inputs`; -1 where it is not that alone which differs.
  std::int64_t leading_extent(const Inputs& inputs) const;
  train::Specialisation* build_for(const Inputs& inputs);
  void write_step_scalars();
  StepResult step(const Inputs& inputs);
  StepResult evaluate(const Inputs& inputs);
  void set_lr(double value);
  /// Position in `names`; -1 for a name that is not trainable.
  std::int64_t find(std::string_view name) const;
  /// The first step program, which owns the memory.
  runtime::Program& memory() const { return *programs.front()->step; }

  Device device;
  CompileOptions options;
  Optimizer optimizer;
  std::vector<std::string> names;    // trainable, in order
  std::vector<ParameterRule> rules;  // of each
  std::unordered_map<std::string, std::size_t> index;
  std::vector<train::CheckpointTensor> checkpoint_tensors;
  std::vector<std::unique_ptr<train::Specialisation>> programs;
  std::size_t current = 0;
  std::function<Graph(std::int64_t)> builder;

  std::int64_t steps = 0;
  std::vector<std::int64_t> param_steps;
  double lr = 0;
  std::uint64_t seed = 0;  // of the random numbers in the graph

  // The step block, which the programs read at these addresses.
  float lr_input = 0;
  std::vector<std::uint8_t> gates;  // 1: moves
  train::StepKey key;
  std::vector<train::StepScalars> scalars;
};

}  // namespace wholestep
