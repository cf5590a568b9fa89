#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class MarsRule : public MomentsRule<MARS> {
 public:
  explicit MarsRule(const MARS& options) : MomentsRule("mars", "MARS", options) {
    require_non_negative("MARS", "gamma", options.gamma);
    require_non_negative("MARS", "gamma * beta1 / (1 - beta1)", correction());
  }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param), slot_like("last_gradient", param)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor corrected = multiply_add(a.grad - a.slots[2], correction(), a.grad);
    const Tensor c = corrected / maximum(l2_norm(corrected), 1);
    const auto [m, v] = moments(a, c);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(stepped(a, p, m, v), args.param.dtype()), {m, v, a.grad}};
  }

 private:
  double correction() const { return options_.gamma * options_.beta1 / (1 - options_.beta1); }
};

}  // namespace

MARS::operator Optimizer() const { return std::make_shared<MarsRule>(*this); }

}  // namespace wholestep
