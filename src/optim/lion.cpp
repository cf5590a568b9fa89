#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class LionRule : public OptimizerRule {
 public:
  explicit LionRule(const Lion& options) : options_(options) {
    require_non_negative("Lion", "lr", options.lr);
    require_decay_rate("Lion", "beta1", options.beta1);
    require_decay_rate("Lion", "beta2", options.beta2);
    require_non_negative("Lion", "weight_decay", options.weight_decay);
  }

  std::string name() const override { return "lion"; }
  double lr() const override { return options_.lr; }
  std::vector<OptimizerSlot> slots(const TensorType& param) const override { return {slot_like("m", param)}; }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor direction = sign(moving_average(a.slots[0], a.grad, options_.beta1));
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr, direction), args.param.dtype()),
            {moving_average(a.slots[0], a.grad, options_.beta2)}};
  }

 private:
  Lion options_;
};

}  // namespace

Lion::operator Optimizer() const { return std::make_shared<LionRule>(*this); }

}  // namespace wholestep
