#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class LambRule : public MomentsRule<LAMB> {
 public:
  explicit LambRule(const LAMB& options) : MomentsRule("lamb", "LAMB", options) {}

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const auto [m, v] = moments(a, a.grad);
    const Tensor ratio = m * a.scalars[0] / multiply_add(sqrt(v), a.scalars[1], options_.eps);
    const Tensor update = options_.weight_decay > 0 ? multiply_add(a.param, options_.weight_decay, ratio) : ratio;
    const Tensor trust = trust_ratio(l2_norm(a.param), l2_norm(update));
    return {as(descended(a.param, a.lr * trust, update), args.param.dtype()), {m, v}};
  }

 private:
  // 1 where either norm is zero, so that a parameter that starts as zeros can leave them.
  static Tensor trust_ratio(Tensor of_param, Tensor of_update) {
    return select(logical_and(greater(of_param, 0), greater(of_update, 0)), of_param / of_update, 1);
  }
};

}  // namespace

LAMB::operator Optimizer() const { return std::make_shared<LambRule>(*this); }

}  // namespace wholestep
