#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/device.h"
#include "wholestep/graph.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep {

/// `[loss, aux...]` of one step or evaluation, computed before the update.
struct StepResult {
  std::vector<Array> values;
  /// The first value as float.
  float loss() const { return static_cast<float>(values.at(0).item()); }
};

/// One optimizer tensor: slot `slot` of parameter `param`.
struct OptimizerState {
  struct Entry {
    std::string param;
    std::string slot;
    Array value;
  };
  std::vector<Entry> entries;
  std::int64_t steps = 0;                       ///< steps of the trainer
  std::vector<std::int64_t> param_steps;        ///< steps of each trainable parameter (fewer where it was frozen)
};

/// Trains with forward, backward and update compiled into one program whose state stays on the device.
/// Move-only: one that was moved from may only be destroyed or assigned to. Not for use by two threads at once.
class ResidentTrainer {
 public:
  /// `graph`: its first output is the loss, a float scalar. `train`: names of parameters to train. `initial`: values of all
  /// parameters; those not in `train` are uploaded once and never change.
  /// Optimizer slots become states "<parameter>/<slot>" of the step program, and what changes each step its inputs "step/...":
  /// these names are reserved.
  /// Throws `no_outputs`, `loss_not_scalar`, `nothing_to_train`, `not_a_parameter`, `duplicate_name` (in `train` or `initial`, or a
  /// reserved name), `missing_initial_value`, `wrong_length`, `shape_mismatch`, `dtype_mismatch`, `unknown_name` (an initial value for
  /// no parameter), `invalid_argument` (no optimizer; a trainable parameter that the graph itself updates), `not_differentiable`,
  /// `device_unavailable`.
  ResidentTrainer(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial, Optimizer optimizer,
                  Device device = Device::cpu(), CompileOptions options = {});
  ResidentTrainer(ResidentTrainer&&) noexcept;
  ResidentTrainer& operator=(ResidentTrainer&&) noexcept;
  ~ResidentTrainer();

  /// Adds a program for other input shapes on the same state. `graph` must have the same parameters, states and number of outputs
  /// (`checkpoint_mismatch` otherwise), and input types that no program takes yet (`invalid_argument`). A step or evaluation takes the
  /// program whose inputs fit.
  void specialise(const Graph& graph);
  /// Called with the leading extent of the inputs when no program fits them but for that extent; its graph is then specialised,
  /// once per extent.
  void set_graph_builder(std::function<Graph(std::int64_t batch)> builder);

  /// One step. Throws as `CompiledGraph::run`, before anything has changed. A loss that is not finite is returned as it is, after the
  /// update that it led to: whoever wants the state from before keeps a checkpoint.
  StepResult step(const Inputs& inputs);
  /// One step per batch; their losses. All batches are checked before the first step.
  std::vector<float> run(std::span<const Inputs> batches);
  /// `[loss, aux...]` by a program without backward or update, compiled when first called for these shapes; moves nothing, states that
  /// the graph updates itself included.
  StepResult forward_only(const Inputs& inputs);

  /// Learning rate of the next steps: an input of the program. Throws `invalid_argument` where it is not finite or negative.
  void set_lr(double lr);
  double lr() const;
  /// Seed of the random numbers in the graph (`nn::dropout`), 0 at first. With the number of steps taken it is their key, so a
  /// resumed run draws what the uninterrupted one would have. Kept in checkpoints.
  void set_seed(std::uint64_t seed);
  std::uint64_t seed() const;
  /// A frozen parameter and its optimizer state do not move, and its step count stands still. False for a name that is not trainable.
  bool set_frozen(const std::string& name, bool frozen);
  bool is_frozen(const std::string& name) const;

  const std::vector<std::string>& trainable() const;
  /// Steps taken.
  std::int64_t steps() const;
  const Device& device() const;
  bool is_resident() const;
  /// Report of the step program.
  std::string explain() const;
  const ProgramStats& stats() const;

  /// Current values of the trainable parameters, in order.
  NamedArrays params() const;
  /// Current value of any parameter. Throws `unknown_name`.
  Array param(const std::string& name) const;
  /// Overwrites parameters, trained or fixed. All or nothing. Throws `unknown_name`, `wrong_length`, `shape_mismatch`, `dtype_mismatch`.
  void set_params(const Inputs& values);
  OptimizerState optimizer_state() const;
  /// All or nothing. Throws `checkpoint_mismatch` where entries are not exactly those of this optimizer, or counts are not in
  /// 0 <= param_steps <= steps.
  void restore_optimizer_state(const OptimizerState& state);

  /// Writes parameters, optimizer state, the graph's own states, counters, learning rate, seed and frozen names as safetensors: to a temporary
  /// file beside `path`, synced, then renamed, so `path` always holds a whole checkpoint. Tensors are called "<parameter>",
  /// "optimizer/<parameter>/<slot>" and "state/<state>". `extra` goes into the metadata. Throws `io_error`, `duplicate_name` (in `extra`).
  void save(const std::string& path, const std::vector<std::pair<std::string, std::string>>& extra = {}) const;
  /// Reads what `save` wrote; all or nothing. Returns `extra`. Throws `file_not_found`, `file_truncated`, `file_malformed`, `io_error`,
  /// `checkpoint_mismatch` (another model, optimizer or list of trainable parameters; the message says what differs).
  std::vector<std::pair<std::string, std::string>> load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wholestep
