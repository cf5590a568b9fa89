#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class MarsRule : public MomentsRule<MARS> {
 public:
  explicit MarsRule(const MARS& options) : MomentsRule("mars", "MARS", options) {
    require_non_negative("MARS", "gamma", options.gamma);
  }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param), slot_like("last_gradient", param)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const double correction = options_.gamma * options_.beta1 / (1 - options_.beta1);
    const Tensor corrected = multiply_add(a.grad - a.slots[2], correction, a.grad);
    const Tensor c = corrected / maximum(l2_norm(corrected), 1);
    const auto [m, v] = moments(a, c);
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[1], options_.eps);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr * a.scalars[0], m / denominator), args.param.dtype()), {m, v, a.grad}};
  }
};

}  // namespace

MARS::operator Optimizer() const { return std::make_shared<MarsRule>(*this); }

}  // namespace wholestep
