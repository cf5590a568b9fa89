#pragma once
// The step block on the host: what changes from step to step, at the addresses where programs read it.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/program.h"
#include "train/step_graph.h"
#include "train/step_inputs.h"
#include "wholestep/optim.h"
#include "wholestep/trainer.h"

namespace wholestep::train {

/// Counters of steps, learning rate, gates and scalars of `names`. Stays where it is: programs hold its addresses.
class StepBlock {
 public:
  StepBlock(std::vector<std::string> names, const std::vector<ParameterRule>& rules);
  StepBlock(const StepBlock&) = delete;
  StepBlock& operator=(const StepBlock&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  /// Position in `names`; -1 for a name that is not trainable.
  std::int64_t find(std::string_view name) const;
  /// Whether parameter `name` moves. Throws `unknown_name` where it is not trainable.
  std::uint8_t& gate_of(std::string_view name);

  /// Throws `invalid_argument` where it is not finite in f32 or negative.
  static void check_lr(double lr);
  void set_lr(double lr);
  double lr() const { return lr_; }

  /// Those inputs of `program` that are of the block are from now on read here.
  void attach(runtime::Program& program) const;
  /// Brings the block up to date for the next run: the scalars of the step to be taken, the key of its random numbers
  /// (another for each micro-batch of a step), and how many micro-batches the gradients are summed over.
  void write(std::int64_t micro_batch = 0, std::int64_t count = 1);
  /// The refreshes of the step that `write` was for.
  RefreshKinds due() const { return due_; }
  /// Whether the next step has use for estimates of curvature, if no parameter is frozen then.
  bool wants_curvature() const;
  /// Counts a step: for the trainer, and for all parameters that are not frozen unless it was skipped. Throws
  /// `non_finite` where too many in a row were.
  void count(bool skipped, const UpdateOptions& update);

  std::int64_t steps = 0;          // taken, skipped ones included
  std::int64_t skipped_steps = 0;  // since construction
  std::int64_t skips_in_a_row = 0;
  std::vector<std::int64_t> param_steps;
  std::vector<std::uint8_t> gates;  // 1: moves
  std::uint64_t seed = 0;           // of the random numbers in the graph

 private:
  struct Scalar {
    std::string input;
    std::vector<std::function<double(std::int64_t t)>> of_param;  // none where the parameter's rule has no such scalar
    std::vector<float> values;
  };

  std::vector<std::string> names_;
  std::vector<const OptimizerRule*> rules_;
  std::unordered_map<std::string, std::size_t> index_;
  double lr_ = 0;
  float lr_input_ = 0;
  float count_ = 1;
  std::uint8_t continues_ = 0;
  std::vector<std::int32_t> refreshes_;  // of each parameter, or 0
  RefreshKinds due_ = 0;
  StepKey key_;
  std::vector<Scalar> scalars_;
};

/// The loss scale among `states`.
OptimizerState::LossScale loss_scale_of(const runtime::Residents& states);
void set_loss_scale(runtime::Residents& states, const OptimizerState::LossScale& scale);

}  // namespace wholestep::train
