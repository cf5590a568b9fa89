#include <cmath>

#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

/// r_t, the rectification of step t; 0 where the variance of the adaptive rate is not tractable (rho_t <= 5).
double rectification(double beta2, std::int64_t t) {
  const double correction = bias_correction(beta2, t);
  const double limit = 2 / (1 - beta2) - 1;
  const double rho = limit - 2 * static_cast<double>(t) * (1 - correction) / correction;
  if (rho <= 5) return 0;
  return std::sqrt((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho));
}

class RAdamRule : public MomentsRule<RAdam> {
 public:
  explicit RAdamRule(const RAdam& options) : MomentsRule("radam", "RAdam", options) {}

  // One of the two is zero at every step: the adaptive step where it is rectified, else plain momentum.
  std::vector<StepScalar> scalars() const override {
    const double beta1 = options_.beta1, beta2 = options_.beta2;
    return {
        {"adaptive_weight",
         [=](std::int64_t t) {
           return rectification(beta2, t) * std::sqrt(bias_correction(beta2, t)) / bias_correction(beta1, t);
         }},
        {"plain_weight",
         [=](std::int64_t t) { return rectification(beta2, t) > 0 ? 0 : 1 / bias_correction(beta1, t); }},
    };
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    Tensor g = a.grad, p = a.param;
    if (options_.decoupled_weight_decay) {
      p = decayed(p, a.lr, options_.weight_decay);
    } else if (options_.weight_decay > 0) {
      g = multiply_add(p, options_.weight_decay, g);
    }
    const auto [m, v] = moments(a, g);
    const Tensor direction = m * (a.scalars[0] / (sqrt(v) + options_.eps) + a.scalars[1]);
    return {as(descended(p, a.lr, direction), args.param.dtype()), {m, v}};
  }
};

}  // namespace

RAdam::operator Optimizer() const { return std::make_shared<RAdamRule>(*this); }

}  // namespace wholestep
