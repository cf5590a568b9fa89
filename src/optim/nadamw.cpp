#include <cmath>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

/// mu_t and the product of mu_1 ... mu_t, which is kept from call to call: steps come one after another.
class MomentumSchedule {
 public:
  explicit MomentumSchedule(const NAdamW& options) : beta1_(options.beta1), decay_(options.momentum_decay) {}
  double at(std::int64_t t) const { return beta1_ * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay_)); }
  double product(std::int64_t t) {
    if (t < t_) t_ = 0, product_ = 1;
    while (t_ < t) product_ *= at(++t_);
    return product_;
  }

 private:
  double beta1_, decay_;
  std::int64_t t_ = 0;
  double product_ = 1;
};

class NAdamWRule : public OptimizerRule {
 public:
  explicit NAdamWRule(const NAdamW& options) : options_(options) {
    require_non_negative("NAdamW", "lr", options.lr);
    require_decay_rate("NAdamW", "beta1", options.beta1);
    require_decay_rate("NAdamW", "beta2", options.beta2);
    require_positive("NAdamW", "eps", options.eps);
    require_non_negative("NAdamW", "weight_decay", options.weight_decay);
    require_non_negative("NAdamW", "momentum_decay", options.momentum_decay);
  }

  std::string name() const override { return "nadamw"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param)};
  }

  std::vector<StepScalar> scalars() const override {
    MomentumSchedule schedule(options_);
    return {
        {"gradient_weight",
         [schedule](std::int64_t t) mutable { return (1 - schedule.at(t)) / (1 - schedule.product(t)); }},
        {"momentum_weight",
         [schedule](std::int64_t t) mutable { return schedule.at(t + 1) / (1 - schedule.product(t + 1)); }},
        inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2),
    };
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor m = moving_average(a.slots[0], a.grad, options_.beta1);
    const Tensor v = moving_average(a.slots[1], square(a.grad), options_.beta2);
    const Tensor direction = multiply_add(a.grad, a.lr * a.scalars[0], m * (a.lr * a.scalars[1]));
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[2], options_.eps);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(p - direction / denominator, args.param.dtype()), {m, v}};
  }

 private:
  NAdamW options_;
};

}  // namespace

NAdamW::operator Optimizer() const { return std::make_shared<NAdamWRule>(*this); }

}  // namespace wholestep
