#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/dataset.h"
#include "wholestep/device.h"
#include "wholestep/error.h"
#include "wholestep/graph.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep {

/// Dynamic loss scaling, for gradients that f16 would round to zero: the loss is scaled up before the backward pass and
/// gradients down after it. The scale is multiplied with `factor` after `interval` steps in a row whose gradients are
/// finite; a step whose gradients are not is skipped, and the scale divided by it. Micikevicius et al., 2018.
struct LossScaling {
  double initial = 65536;        ///< in [least, 2^120]; powers of two cost no digits
  double factor = 2;             ///< finite, above 1
  std::int64_t interval = 2000;  ///< at least 1, below 2^31
  /// The scale never falls below it, in [2^-120, 2^120]: batches whose gradients are NaN at any scale would use it up,
  /// and gradients after them vanish.
  double least = 1;
};

/// What happens around the optimizer, inside the step program, in the order of these lines. Parameters that are frozen
/// count for nothing here.
struct UpdateOptions {
  /// On without being asked for where CompileOptions::precision computes in f16.
  std::optional<LossScaling> loss_scaling = {};
  /// A step with a NaN or infinity in a gradient moves nothing but the loss scale and `steps()`. Implied by loss
  /// scaling.
  bool skip_non_finite = false;
  /// So many skipped steps in a row are an error (`non_finite`). At least 1.
  std::int64_t most_skips = 1000;
  /// Each element of a gradient is limited to this magnitude: a normal number of f32, above 0.
  std::optional<double> clip_value = {};
  /// Gradients are scaled down together to this Euclidean norm where theirs is larger. Finite, above 0.
  std::optional<double> clip_norm = {};
  /// After an update, each parameter's average moves by (1 - decay) * (parameter - average). It starts as the
  /// parameter. In (0, 1).
  std::optional<double> ema_decay = {};
};

/// Which values an evaluation uses.
enum class Weights {
  trained,  ///< the parameters, or what the optimizer says to use for them (schedule-free ones do)
  average,  ///< their moving averages, see UpdateOptions::ema_decay
};

/// `[loss, aux...]` of one step or evaluation, computed before the update.
struct StepResult {
  std::vector<Array> values;
  bool skipped = false;  ///< the step changed nothing since a gradient was not finite
  /// The first value as float. Throws `no_outputs` where there is none.
  float loss() const {
    if (values.empty()) throw Error(ErrorCode::no_outputs, "a step result without values has no loss");
    return static_cast<float>(values.front().item());
  }
};

/// What an optimizer holds: tensor `slot` of parameter `param`, its average among them ("average") where averages are
/// kept.
struct OptimizerState {
  struct LossScale {
    float scale = 1;
    std::int32_t good_steps = 0;  ///< since the scale moved
    bool operator==(const LossScale&) const = default;
  };
  struct Entry {
    std::string param;
    std::string slot;
    Array value;
  };
  std::vector<Entry> entries;
  std::int64_t steps = 0;  ///< steps of the trainer
  std::vector<std::int64_t>
      param_steps;        ///< steps of each trainable parameter (fewer where it was frozen or steps were skipped)
  std::string optimizer;  ///< whose it is; empty where that is not said
  std::optional<LossScale> loss_scale;  ///< of a trainer that scales its loss
};

/// Trains with forward, backward and update compiled into one program whose state stays on the device. Programs are
/// compiled when they are first needed.
/// Move-only: one that was moved from may only be destroyed or assigned to. Not for use by two threads at once.
class ResidentTrainer {
 public:
  /// `graph`: its first output is the loss, a float scalar. `train`: names of parameters to train. `initial`: values of
  /// all parameters; those not in `train` are uploaded once and never change. Optimizer slots become states
  /// "<parameter>/<slot>" of the step program, and what changes each step its inputs "step/...": these names are
  /// reserved. Throws `no_outputs`, `loss_not_scalar`, `nothing_to_train`, `not_a_parameter`, `duplicate_name` (in
  /// `train` or `initial`, or a reserved name), `missing_initial_value`, `wrong_length`, `shape_mismatch`,
  /// `dtype_mismatch`, `unknown_name` (an initial value for no parameter), `invalid_argument` (no optimizer; a
  /// trainable parameter that the graph itself updates; an option of `update` outside its range), `not_differentiable`,
  /// `device_unavailable`.
  ResidentTrainer(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial, Optimizer optimizer,
                  Device device = Device::cpu(), CompileOptions options = {}, UpdateOptions update = {});
  ResidentTrainer(ResidentTrainer&&) noexcept;
  ResidentTrainer& operator=(ResidentTrainer&&) noexcept;
  ~ResidentTrainer();

  /// Adds a program for other input shapes on the same state. `graph` must have the same parameters, states and number
  /// of outputs
  /// (`checkpoint_mismatch` otherwise), and input types that no program takes yet (`invalid_argument`). A step or
  /// evaluation takes the program whose inputs fit.
  void specialise(const Graph& graph);
  /// Called with the leading extent of the inputs when no program fits them but for that extent; its graph is then
  /// specialised, once per extent.
  void set_graph_builder(std::function<Graph(std::int64_t batch)> builder);

  /// One step. Throws as `CompiledGraph::run` and `invalid_argument` (micro-batches are pending), before anything has
  /// changed; `non_finite` after UpdateOptions::most_skips skipped steps in a row, with all weights as before these. A
  /// loss that is not finite is returned as it is, after the update that it led to, unless such steps are skipped.
  StepResult step(const Inputs& inputs);
  /// One step per batch; their losses. All batches are checked before the first step.
  std::vector<float> run(std::span<const Inputs> batches);
  /// `n` steps on batches of `dataset`, whose rows the program itself gathers; their losses. Step s, counted from 0 as
  /// `steps()` does, takes batch s % b of epoch s / b, b being the number of batches in an epoch, the last of which may
  /// be smaller: so a resumed run goes on where it was. The dataset stays in memory until another is used. Throws
  /// before the first step `invalid_argument` (n or a batch size below 0; micro-batches are pending; a learning rate
  /// that `set_lr` would refuse), `missing_input`, `unknown_name`, `dtype_mismatch`, `shape_mismatch` (also where no
  /// program takes a batch size), `index_out_of_range`, `device_unavailable`, and what `options.lr` throws; during one,
  /// `non_finite` as `step`, and what `options.on_skip` throws. The losses are lost then; `steps()` says how many steps
  /// were taken.
  std::vector<float> run(const DeviceDataset& dataset, std::int64_t n, const RunOptions& options = {});
  /// A dataset on this trainer's device, checked against its graph first: throws as `run`, and as the constructor of
  /// `DeviceDataset`.
  DeviceDataset upload(const Inputs& arrays) const;

  /// The loss of a micro-batch, whose gradients are added to those of the ones before it. Weights, optimizer state and
  /// counters do not move; states that the graph updates itself do, once per micro-batch. Throws as `step`, and
  /// `shape_mismatch` where the inputs have other types than those of the micro-batches pending.
  float accumulate(const Inputs& inputs);
  /// One step by the mean of the accumulated gradients. Returns how many micro-batches that were; 0, and nothing is
  /// changed, where none are pending. `skipped_steps` tells whether it was skipped. Throws `non_finite` as `step`.
  std::int64_t step_accumulated();
  /// Micro-batches accumulated since the last step.
  std::int64_t pending_accumulation() const;
  /// Forgets them. Returns how many there were.
  std::int64_t drop_accumulation();
  /// Steps skipped since construction, see UpdateOptions::skip_non_finite.
  std::int64_t skipped_steps() const;
  /// Scale of the loss in the next step; 1 without loss scaling.
  double loss_scale() const;

  /// `[loss, aux...]` by a program without backward or update, compiled when first called for these shapes; moves
  /// nothing, states that the graph updates itself included. Throws `invalid_argument` where averages are asked for and
  /// not kept.
  StepResult forward_only(const Inputs& inputs, Weights weights = Weights::trained);
  /// `forward_only` over all examples of `dataset`, in its order and in batches of `batch` (0: as `run`), summed up on
  /// the device in f64 and i64: one number per output comes back. Throws as `run`.
  Evaluation evaluate(const DeviceDataset& dataset, Weights weights = Weights::trained, std::int64_t batch = 0);
  /// The same over batches given. All are checked before the first. Throws `invalid_argument` where there are none, and
  /// as `forward_only`.
  Evaluation evaluate(std::span<const Inputs> batches, Weights weights = Weights::trained);

  /// Learning rate of the next steps: an input of the program. Throws `invalid_argument` where it is not finite in
  /// f32 or negative.
  void set_lr(double lr);
  double lr() const;
  /// Seed of the random numbers in the graph (`nn::dropout`), 0 at first. With the number of steps taken it is their
  /// key, so a resumed run draws what the uninterrupted one would have. Kept in checkpoints.
  void set_seed(std::uint64_t seed);
  std::uint64_t seed() const;
  /// A frozen parameter and its optimizer state do not move, and its step count stands still. Both throw `unknown_name`
  /// for a name that is not trainable.
  void set_frozen(const std::string& name, bool frozen);
  bool is_frozen(const std::string& name) const;

  const std::vector<std::string>& trainable() const;
  /// Steps taken, skipped ones included: where in its data a run is.
  std::int64_t steps() const;
  const Device& device() const;
  bool is_resident() const;
  /// Bytes of parameters, fixed ones included, and of states: what `save` writes beside names and counters.
  std::int64_t state_bytes() const;
  /// Report of the step program, which is compiled for it where no step has needed it, and of those that take batches
  /// from datasets; a line on the memory of each other program that was made.
  std::string explain() const;
  /// Of the step program, as `explain`.
  const ProgramStats& stats() const;

  /// Current values of the trainable parameters, in order.
  NamedArrays params() const;
  /// Current value of any parameter. Throws `unknown_name`.
  Array param(const std::string& name) const;
  /// Moving averages of the trainable parameters, in order, in f32 (f64 for f64). Throws `invalid_argument` where they
  /// are not kept.
  NamedArrays averages() const;
  /// Overwrites parameters, trained or fixed; their averages begin anew as these values. All or nothing. Throws
  /// `unknown_name`, `wrong_length`, `shape_mismatch`, `dtype_mismatch`.
  void set_params(const Inputs& values);
  OptimizerState optimizer_state() const;
  /// All or nothing. Throws `checkpoint_mismatch` where it is another optimizer's, entries are not exactly
  /// those of this one, or counts are not in 0 <= param_steps <= steps; `invalid_argument` (micro-batches are pending).
  void restore_optimizer_state(const OptimizerState& state);

  /// Writes parameters, optimizer state, the graph's own states, counters, learning rate, seed and frozen names as
  /// safetensors: to a temporary file beside `path`, synced, then renamed, so `path` always holds a whole checkpoint.
  /// Tensors are called "<parameter>", "optimizer/<parameter>/<slot>", "average/<parameter>", "step/loss_scale",
  /// "step/good_steps" and "state/<state>". `extra` goes into the metadata. Throws `io_error`, `duplicate_name` (in
  /// `extra`), `invalid_argument` (micro-batches are pending: their sums are in no checkpoint).
  void save(const std::string& path, const std::vector<std::pair<std::string, std::string>>& extra = {}) const;
  /// Reads what `save` wrote; all or nothing. Forgets pending micro-batches. Returns `extra`. State comes from the
  /// file, options stay those of this trainer: precision, hyper-parameters, how gradients are clipped, the decay of
  /// averages. Throws `file_not_found`, `file_truncated`, `file_malformed`, `io_error`, `checkpoint_mismatch` (another
  /// model, optimizer or list of trainable parameters, averages or a loss scale in one of the two alone; the message
  /// says what differs).
  std::vector<std::pair<std::string, std::string>> load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wholestep
