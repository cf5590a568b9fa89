#pragma once
// What a ResidentTrainer holds.
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program.h"
#include "train/dataset_programs.h"
#include "train/step_block.h"
#include "wholestep/trainer.h"

namespace wholestep {

namespace train {

/// Programs for steps, by the refreshes that are due.
using StepPrograms = std::map<RefreshKinds, std::unique_ptr<runtime::Program>>;

/// The programs for one set of input shapes, made when first needed. All of a trainer's share one state.
struct Specialisation {
  explicit Specialisation(const Graph& graph) : forward(graph), inputs(given_inputs(graph)) {}
  /// True if `inputs` are what its graph takes, by name and type (values are not looked at).
  bool accepts(const Inputs& given) const;

  Graph forward;  // as given
  std::vector<std::pair<std::string, TensorType>> inputs;
  StepPrograms steps;
  std::array<std::unique_ptr<runtime::Program>, 2> accumulate;  // by whether curvature is
  std::array<std::unique_ptr<runtime::Program>, 2> evaluate;    // by Weights
  std::array<std::unique_ptr<runtime::Program>, 2> evaluate_sums;
};

/// A tensor of a checkpoint: its name in the file, and the parameter or state that it holds.
struct CheckpointTensor {
  std::string in_file;
  std::string resident;
  TensorType type;
};

}  // namespace train

struct ResidentTrainer::State {
  State(const Graph& graph, std::vector<std::string> names, const NamedArrays& initial, Optimizer optimizer,
        Device device, CompileOptions options, UpdateOptions update);

  /// The slots of trainable parameter `i`, and its average where averages are kept.
  std::vector<OptimizerSlot> slots_of(std::size_t i) const;
  /// Makes sure that `graph` has a step, which is compiled when it is first needed.
  train::Specialisation& add(const Graph& graph);
  train::Specialisation& program_for(const Inputs& inputs);
  /// The leading extent for which the builder's graph would take `inputs`; -1 where it is not that alone which differs.
  std::int64_t leading_extent(const Inputs& inputs) const;
  train::Specialisation* build_for(const Inputs& inputs);
  /// A program on the resident buffers that reads the step block. `graph` has the precision that it is to have.
  std::unique_ptr<runtime::Program> compile(const Graph& graph);

  /// The step of `graph`, which has the precision that it is to have.
  Graph step_graph(const Graph& graph, train::RefreshKinds refreshes) const;
  runtime::Program& step_of(train::Specialisation& program, train::RefreshKinds refreshes = 0);
  runtime::Program& update_by_sums(train::RefreshKinds refreshes);
  StepResult step(const Inputs& inputs);
  std::vector<Array> run(runtime::Program& program, const Inputs& inputs);
  /// Runs a program that moves the parameters, the block being written, and counts the step.
  StepResult take_step(runtime::Program& program, const Inputs& inputs);
  float accumulate(const Inputs& inputs);
  std::int64_t step_accumulated();
  StepResult evaluate(const Inputs& inputs, Weights weights);
  /// How `dataset` falls into batches of `batch` examples, or of the graph's own size for 0. Throws as `run`.
  train::Batching check(const DeviceDataset& dataset, std::int64_t batch);
  /// The graph, as given or built, that takes `batch` examples. Throws `shape_mismatch` where there is none.
  Graph forward_for(const DeviceDataset& dataset, std::int64_t batch) const;
  train::RowsProgram& step_program(const DeviceDataset& dataset, std::int64_t batch, train::RefreshKinds refreshes = 0);
  std::vector<float> run(const DeviceDataset& dataset, std::int64_t n, const RunOptions& how);
  Evaluation evaluate(const DeviceDataset& dataset, Weights weights, std::int64_t batch);
  Evaluation evaluate(std::span<const Inputs> batches, Weights weights);
  void clear_sums();
  Evaluation read_sums(std::int64_t examples) const;

  /// The graph of an evaluation. Throws `invalid_argument` where averages are asked for and not kept.
  Graph evaluation_graph(const Graph& forward, Weights weights) const;
  std::string explain();
  std::int64_t state_bytes() const;
  double loss_scale() const;
  /// The average of trainable parameter `name` is `value`; nothing where averages are not kept.
  void restart_average(const std::string& name, const ArrayView& value);

  const std::vector<std::string>& names() const { return block.names(); }

  Device device;
  CompileOptions options;
  UpdateOptions update;
  Optimizer optimizer;
  std::vector<ParameterRule> rules;  // of each trainable parameter
  train::StepBlock block;
  runtime::Residents memory;  // of all programs
  std::vector<train::CheckpointTensor> checkpoint_tensors;
  std::vector<std::unique_ptr<train::Specialisation>> programs;
  std::size_t current = 0;
  std::function<Graph(std::int64_t)> builder;

  train::StepPrograms updates_by_sums;
  train::Specialisation* accumulating = nullptr;  // whose micro-batches are pending
  std::int64_t pending = 0;

  std::map<train::RefreshKinds, train::RowsPrograms> dataset_steps;
  std::array<train::RowsPrograms, 2> dataset_evaluations;  // by Weights
  std::optional<DeviceDataset> checked;                    // fits the graph
  train::EpochOrder epoch_order;
};

}  // namespace wholestep
