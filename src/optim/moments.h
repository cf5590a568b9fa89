#pragma once
// What Adam and its relatives share.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep::optim {

/// A rule with the slots of Adam: m and v, the moving averages of the gradient and of its square. `Options` has lr,
/// beta1, beta2, eps and weight_decay.
template <class Options>
class MomentsRule : public OptimizerRule {
 public:
  /// `title` is the optimizer's name in messages. Throws `invalid_argument` for options out of their range.
  MomentsRule(std::string name, std::string_view title, const Options& options)
      : options_(options), name_(std::move(name)) {
    require_non_negative(title, "lr", options.lr);
    require_decay_rate(title, "beta1", options.beta1);
    require_decay_rate(title, "beta2", options.beta2);
    require_positive(title, "eps", options.eps);
    require_non_negative(title, "weight_decay", options.weight_decay);
  }

  std::string name() const override { return name_; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param)};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2)};
  }

 protected:
  /// m and v of this step, with `g` for its gradient.
  std::pair<Tensor, Tensor> moments(const OptimizerArgs& a, Tensor g) const {
    const Tensor m = moving_average(a.slots[0], g, options_.beta1);
    return {m, moving_average_of_square(a.slots[1], g, options_.beta2)};
  }

  /// `p` after Adam's step along m and v of `moments`, with the scalars of `scalars`. The paper's lr * (m / bc1) /
  /// (sqrt(v / bc2) + eps), with all that is the same for every element taken out of the division: (lr / bc1) * (m /
  /// (sqrt(v) * (1 / sqrt(bc2)) + eps)). One square root and one division per element.
  Tensor stepped(const OptimizerArgs& a, Tensor p, Tensor m, Tensor v) const {
    return descended(p, a.lr * a.scalars[0], m / multiply_add(sqrt(v), a.scalars[1], options_.eps));
  }

  const Options options_;

 private:
  std::string name_;
};

}  // namespace wholestep::optim
