#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class MarsRule : public OptimizerRule {
 public:
  explicit MarsRule(const MARS& options) : options_(options) {
    require_non_negative("MARS", "lr", options.lr);
    require_decay_rate("MARS", "beta1", options.beta1);
    require_decay_rate("MARS", "beta2", options.beta2);
    require_non_negative("MARS", "gamma", options.gamma);
    require_positive("MARS", "eps", options.eps);
    require_non_negative("MARS", "weight_decay", options.weight_decay);
  }

  std::string name() const override { return "mars"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param), slot_like("last_gradient", param)};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const double correction = options_.gamma * options_.beta1 / (1 - options_.beta1);
    const Tensor corrected = multiply_add(a.grad - a.slots[2], correction, a.grad);
    const Tensor c = corrected / maximum(l2_norm(corrected), 1);
    const Tensor m = moving_average(a.slots[0], c, options_.beta1);
    const Tensor v = moving_average(a.slots[1], square(c), options_.beta2);
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[1], options_.eps);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(p - (a.lr * a.scalars[0]) * m / denominator, args.param.dtype()), {m, v, a.grad}};
  }

 private:
  MARS options_;
};

}  // namespace

MARS::operator Optimizer() const { return std::make_shared<MarsRule>(*this); }

}  // namespace wholestep
