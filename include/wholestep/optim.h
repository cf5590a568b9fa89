#pragma once
// Optimizers. Each is written once, as a function that appends graph ops; every device runs that.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep {

/// A tensor that an optimizer keeps for each parameter ("m", "v", "momentum"). Starts as zeros.
struct OptimizerSlot {
  std::string name;
  TensorType type;
};

/// A number that changes with the step: computed on the host in double precision for step `t` (1 for a parameter's
/// first), given to the program as an f32 input.
struct StepScalar {
  std::string name;
  std::function<double(std::int64_t t)> value;
};

/// What `OptimizerRule::append` works on. All scalars are rank-0 f32.
struct OptimizerArgs {
  Graph& graph;
  Tensor param;
  Tensor grad;                // same type as param
  std::vector<Tensor> slots;  // in the order of slots()
  Tensor lr;
  std::vector<Tensor> scalars;  // in the order of scalars()
};
struct OptimizerResult {
  Tensor param;
  std::vector<Tensor> slots;
};

class OptimizerRule;

/// The rule of one parameter, and its learning rate as a multiple of the trainer's.
struct ParameterRule {
  const OptimizerRule* rule;
  double lr_scale = 1;
};

/// The seam for optimizers: derive, validate hyper-parameters in the constructor, append ops. The built-in ones update
/// bf16 and f16 parameters in f32, with f32 slots, and f64 parameters in f64; learning rate and scalars are f32 inputs.
class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;
  virtual std::string name() const = 0;
  virtual double lr() const = 0;
  /// What it was made with, by name, for those who write it down in another format; empty where nobody does.
  virtual std::vector<std::pair<std::string, double>> hyper_parameters() const;
  virtual std::vector<OptimizerSlot> slots(const TensorType& param) const = 0;
  virtual std::vector<StepScalar> scalars() const { return {}; }
  /// Appends one step of one parameter. The results have the types of `args.param` and of the slots.
  virtual OptimizerResult append(const OptimizerArgs& args) const = 0;
  /// The value of a parameter that evaluation uses, where that is not the one being trained (a running average, say).
  virtual Tensor evaluation_value(Graph& graph, Tensor param, const std::vector<Tensor>& slots) const;

  /// Composite rules answer with the rule of parameter `param`, which lives as long as this one and is no composite.
  /// Slots, scalars, update and evaluation of a parameter are those of its own rule.
  virtual ParameterRule rule_for(std::string_view param, const TensorType& type) const;
  /// Throws `invalid_argument` where the rule does not fit the parameters that are to be trained.
  virtual void check_parameters(const std::vector<std::pair<std::string, TensorType>>& params) const;
};

/// Shared handle of a rule.
using Optimizer = std::shared_ptr<const OptimizerRule>;

/// Stochastic gradient descent as in PyTorch: g += weight_decay * p; the momentum buffer b = momentum * b +
/// (1 - dampening) * g, b = g at the first step; p -= lr * b, with Nesterov p -= lr * (g + momentum * b) (Sutskever et
/// al., 2013). lr >= 0, 0 <= momentum, 0 <= dampening, weight_decay >= 0, Nesterov needs momentum > 0 and dampening 0.
struct SGD {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// Throws `invalid_argument` naming the hyper-parameter, its range and its value.
  operator Optimizer() const;
};

/// Adam (Kingma and Ba, 2015, algorithm 1): m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps); weight_decay is added to the gradient (L2).
/// Computed as p -= (lr / (1 - beta1^t)) * m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + eps), both corrections in double on
/// the host. lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// AdamW (Loshchilov and Hutter, 2019): Adam with decoupled decay, p -= lr * weight_decay * p.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// An optimizer by name ("sgd", "adam", "adamw") with its defaults; its learning rate `lr` unless that is negative.
/// Throws `unknown_name` listing the names; `invalid_argument`.
Optimizer optimizer_by_name(const std::string& name, double lr = -1);

}  // namespace wholestep
