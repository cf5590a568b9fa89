#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/device.h"
#include "wholestep/graph.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"
#include "wholestep/trainer.h"

namespace wholestep {

/// How a `TrainingSession` trains.
struct TrainConfig {
  std::optional<double> lr = {};  ///< absent: the optimizer's own, 1e-2 for SGD
  Optimizer optimizer = SGD{};
  UpdateOptions update = {};
  CompileOptions compile = {};
};

/// Who updates the weights.
enum class UpdatePath {
  update_task,  ///< an update task of Core ML
  gradient,     ///< an optimizer of this library, from gradients
};

/// What a step did.
struct StepReport {
  float loss = 0;  ///< before the update
  UpdatePath path = UpdatePath::gradient;
  bool fused = false;    ///< the update was inside the device's program
  bool skipped = false;  ///< nothing was updated since a gradient was not finite
};

struct Eligible {};
/// Why not: which op, which optimizer, or what is missing on this system.
struct Unsupported {
  std::string reason;
};
using UpdateTaskEligibility = std::variant<Eligible, Unsupported>;

/// A training loop that computes gradients on a device and updates on the host, or on the device where it is told to.
/// Both ways run the same graph of the optimizer. Move-only. Not for use by two threads at once.
class TrainingSession {
 public:
  /// As `ResidentTrainer`: `train` are the parameters to train, `initial` values of all parameters. The model is
  /// compiled once; each step is one run of it, after which the host uploads the trained weights. Throws what the
  /// constructor of `ResidentTrainer` throws.
  TrainingSession(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial,
                  TrainConfig config = {}, Device device = Device::cpu());
  TrainingSession(TrainingSession&&) noexcept;
  TrainingSession& operator=(TrainingSession&&) noexcept;
  ~TrainingSession();

  /// Computes as `precision` says from now on. Throws `invalid_argument` once a step or a micro-batch was taken.
  TrainingSession& with_precision_policy(Precision precision);
  /// Moves the update into the device's program, for any optimizer. Throws `invalid_argument` once a step or a
  /// micro-batch was taken.
  TrainingSession& with_fused_optimizer();
  bool fused_active() const;

  /// One step. Throws as `ResidentTrainer::step`.
  StepReport step(const Inputs& inputs);
  /// The loss of a micro-batch, whose gradients are added up on the device. Weights and optimizer state do not move.
  /// Throws as `ResidentTrainer::accumulate`.
  float accumulate(const Inputs& inputs);
  /// One step by the mean of the accumulated gradients. Returns how many micro-batches that were; 0, and nothing is
  /// changed, where none are pending. `skipped_steps` tells whether it was skipped. Throws `non_finite` as `step`.
  std::int64_t step_accumulated();
  std::int64_t pending_accumulation() const;
  /// Forgets the micro-batches accumulated since the last step. Returns how many there were.
  std::int64_t drop_accumulation();
  /// Steps skipped since construction, accumulated ones included, see UpdateOptions::skip_non_finite.
  std::int64_t skipped_steps() const;
  /// Scale of the loss in the next step; 1 without loss scaling.
  double loss_scale() const;

  /// Learning rate of the next steps. Throws `invalid_argument` where it is not finite in f32 or negative.
  void set_lr(double lr);
  double lr() const;

  /// Who updates the weights of this session.
  UpdatePath update_path() const;
  /// Whether Core ML's update task could train this model here, or the first reason why not. The rules are those of
  /// Core ML's model validator: inner products with ReLU, sigmoid, tanh and flattening between them, cross-entropy or
  /// squared error, SGD or Adam.
  UpdateTaskEligibility update_task_eligibility() const;

  /// Current value of a parameter, trained or fixed. Throws `unknown_name`.
  Array param(const std::string& name) const;
  /// Current values of all parameters, in order of definition.
  NamedArrays params() const;
  /// Moving averages of the trainable parameters, as `ResidentTrainer::averages`.
  NamedArrays averages() const;
  /// Slots of the optimizer and step counts, as `ResidentTrainer::optimizer_state`.
  OptimizerState optimizer_state() const;
  /// Steps taken, skipped ones included.
  std::int64_t steps() const;
  /// What it was built with, policies included; `lr` as it was then.
  const TrainConfig& config() const;
  const Device& device() const;
  /// Which programs run where.
  std::string explain() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wholestep
