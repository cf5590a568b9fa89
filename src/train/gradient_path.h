#pragma once
// Gradients on a device, the update on the host's CPU: the graph of a fused step in two parts.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program.h"
#include "train/step_block.h"
#include "wholestep/trainer.h"

namespace wholestep::train {

class GradientPath {
 public:
  /// Takes what a ResidentTrainer takes. On the reference device the update, too, is interpreted.
  GradientPath(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial, Optimizer optimizer,
               Device device, CompileOptions options, UpdateOptions update);

  // As those of ResidentTrainer.
  StepResult step(const Inputs& inputs);
  float accumulate(const Inputs& inputs);
  std::int64_t step_accumulated();
  std::int64_t pending_accumulation() const { return pending_; }
  std::int64_t drop_accumulation() { return std::exchange(pending_, 0); }
  std::int64_t skipped_steps() const { return block_.skipped_steps; }
  double loss_scale() const;
  void set_lr(double lr) { block_.set_lr(lr); }
  double lr() const { return block_.lr(); }
  Array param(const std::string& name) const { return gradients_->residents().download(name); }
  NamedArrays averages() const;
  OptimizerState optimizer_state() const;
  std::int64_t steps() const { return block_.steps; }
  std::string explain() const;

 private:
  std::unique_ptr<runtime::Program> compile(const Graph& graph, const Device& device) const;
  // For the refreshes that are due:
  runtime::Program& gradient_program();
  runtime::Program& update_program();
  /// Moves the parameters on the host by `grads`, sums over `count` micro-batches, and `curvatures`, and uploads them.
  /// Whether the step was skipped.
  bool update(std::span<const Array> grads, std::span<const Array> curvatures, std::int64_t count);
  bool needs_curvature(std::size_t i) const { return rules_[i].rule->needs_curvature(); }
  void upload_from_host(const std::string& name);

  Graph forward_;  // with the precision asked for
  Device device_;
  CompileOptions options_;
  UpdateOptions update_;
  std::vector<ParameterRule> rules_;
  Optimizer optimizer_;
  StepBlock block_;
  std::unique_ptr<runtime::Program> gradients_, update_program_;
  // Made when first needed, by the refreshes that are due:
  std::map<RefreshKinds, std::unique_ptr<runtime::Program>> refreshing_gradients_, refreshing_updates_;
  std::array<std::unique_ptr<runtime::Program>, 2> accumulate_;  // by whether curvature is; made when first needed
  std::int64_t pending_ = 0;
};

}  // namespace wholestep::train
