#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class QHAdamWRule : public MomentsRule<QHAdamW> {
 public:
  explicit QHAdamWRule(const QHAdamW& options) : MomentsRule("qhadamw", "QHAdamW", options) {
    require_share("QHAdamW", "nu1", options.nu1);
    require_share("QHAdamW", "nu2", options.nu2);
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_bias_correction("inverse_bias_correction2", options_.beta2)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor g = a.grad;
    const auto [m, v] = moments(a, g);
    const Tensor direction = moving_average(m * a.scalars[0], g, options_.nu1);
    const Tensor scale = sqrt(moving_average_of_square(v * a.scalars[1], g, options_.nu2)) + options_.eps;
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr, direction / scale), args.param.dtype()), {m, v}};
  }
};

}  // namespace

QHAdamW::operator Optimizer() const { return std::make_shared<QHAdamWRule>(*this); }

}  // namespace wholestep
