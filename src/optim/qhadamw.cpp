#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class QHAdamWRule : public OptimizerRule {
 public:
  explicit QHAdamWRule(const QHAdamW& options) : options_(options) {
    require_non_negative("QHAdamW", "lr", options.lr);
    require_decay_rate("QHAdamW", "beta1", options.beta1);
    require_decay_rate("QHAdamW", "beta2", options.beta2);
    require_share("QHAdamW", "nu1", options.nu1);
    require_share("QHAdamW", "nu2", options.nu2);
    require_positive("QHAdamW", "eps", options.eps);
    require_non_negative("QHAdamW", "weight_decay", options.weight_decay);
  }

  std::string name() const override { return "qhadamw"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param)};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_bias_correction("inverse_bias_correction2", options_.beta2)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor g = a.grad, g2 = square(a.grad);
    const Tensor m = moving_average(a.slots[0], g, options_.beta1);
    const Tensor v = moving_average(a.slots[1], g2, options_.beta2);
    const Tensor direction = moving_average(m * a.scalars[0], g, options_.nu1);
    const Tensor scale = sqrt(moving_average(v * a.scalars[1], g2, options_.nu2)) + options_.eps;
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(p - a.lr * direction / scale, args.param.dtype()), {m, v}};
  }

 private:
  QHAdamW options_;
};

}  // namespace

QHAdamW::operator Optimizer() const { return std::make_shared<QHAdamWRule>(*this); }

}  // namespace wholestep
