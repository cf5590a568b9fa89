#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class LambRule : public OptimizerRule {
 public:
  explicit LambRule(const LAMB& options) : options_(options) {
    require_non_negative("LAMB", "lr", options.lr);
    require_decay_rate("LAMB", "beta1", options.beta1);
    require_decay_rate("LAMB", "beta2", options.beta2);
    require_positive("LAMB", "eps", options.eps);
    require_non_negative("LAMB", "weight_decay", options.weight_decay);
  }

  std::string name() const override { return "lamb"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param)};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor m = moving_average(a.slots[0], a.grad, options_.beta1);
    const Tensor v = moving_average(a.slots[1], square(a.grad), options_.beta2);
    const Tensor ratio = m * a.scalars[0] / multiply_add(sqrt(v), a.scalars[1], options_.eps);
    const Tensor update = options_.weight_decay > 0 ? multiply_add(a.param, options_.weight_decay, ratio) : ratio;
    const Tensor trust = trust_ratio(l2_norm(a.param), l2_norm(update));
    return {as(a.param - a.lr * trust * update, args.param.dtype()), {m, v}};
  }

 private:
  // 1 where either norm is zero, so that a parameter that starts as zeros can leave them.
  static Tensor trust_ratio(Tensor of_param, Tensor of_update) {
    return select(logical_and(greater(of_param, 0), greater(of_update, 0)), of_param / of_update, 1);
  }

  LAMB options_;
};

}  // namespace

LAMB::operator Optimizer() const { return std::make_shared<LambRule>(*this); }

}  // namespace wholestep
