#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

class AdamRule : public MomentsRule<Adam> {
 public:
  explicit AdamRule(const Adam& options) : MomentsRule("adam", "Adam", options) {}

  std::vector<std::pair<std::string, double>> hyper_parameters() const override {
    return {{"lr", options_.lr},
            {"beta1", options_.beta1},
            {"beta2", options_.beta2},
            {"eps", options_.eps},
            {"weight_decay", options_.weight_decay}};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    Tensor g = a.grad;
    if (options_.weight_decay > 0) g = multiply_add(a.param, options_.weight_decay, g);
    const auto [m, v] = moments(a, g);
    return {as(stepped(a, a.param, m, v), args.param.dtype()), {m, v}};
  }
};

}  // namespace

Adam::operator Optimizer() const { return std::make_shared<AdamRule>(*this); }

}  // namespace wholestep
