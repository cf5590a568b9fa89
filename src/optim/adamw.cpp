#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class AdamWRule : public MomentsRule<AdamW> {
 public:
  explicit AdamWRule(const AdamW& options) : MomentsRule("adamw", "AdamW", options) {}

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const auto [m, v] = moments(a, a.grad);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(stepped(a, p, m, v), args.param.dtype()), {m, v}};
  }
};

}  // namespace

AdamW::operator Optimizer() const { return std::make_shared<AdamWRule>(*this); }

}  // namespace wholestep
