#include <cmath>

#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

/// mu_t and the product of mu_1 ... mu_t, which is kept from call to call: steps come one after another. Factors are
/// multiplied while they matter, a few thousand for any options: until the product is lost beside 1, or mu_t is beta1.
class MomentumSchedule {
 public:
  explicit MomentumSchedule(const NAdamW& options) : beta1_(options.beta1), decay_(options.momentum_decay) {}
  double at(std::int64_t t) const { return beta1_ * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * decay_)); }
  double product(std::int64_t t) {
    if (t < t_) t_ = 0, product_ = 1;
    while (t_ < t && product_ > kLostBesideOne && at(t_) < beta1_) product_ *= at(++t_);
    return product_ * std::pow(beta1_, static_cast<double>(t - t_));
  }

 private:
  static constexpr double kLostBesideOne = 0x1p-54;
  double beta1_, decay_;
  std::int64_t t_ = 0;
  double product_ = 1;
};

class NAdamWRule : public MomentsRule<NAdamW> {
 public:
  explicit NAdamWRule(const NAdamW& options) : MomentsRule("nadamw", "NAdamW", options) {
    require_non_negative("NAdamW", "momentum_decay", options.momentum_decay);
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
    const auto [m, v] = moments(a, a.grad);
    const Tensor direction = multiply_add(a.grad, a.scalars[0], m * a.scalars[1]);
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[2], options_.eps);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr, direction / denominator), args.param.dtype()), {m, v}};
  }
};

}  // namespace

NAdamW::operator Optimizer() const { return std::make_shared<NAdamWRule>(*this); }

}  // namespace wholestep
