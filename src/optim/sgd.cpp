#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class SgdRule : public OptimizerRule {
 public:
  explicit SgdRule(const SGD& options) : options_(options) {
    require_non_negative("SGD", "lr", options.lr);
    require_non_negative("SGD", "momentum", options.momentum);
    require_non_negative("SGD", "dampening", options.dampening);
    require_non_negative("SGD", "weight_decay", options.weight_decay);
    if (options.nesterov) {
      require(options.momentum > 0, "SGD", "momentum", "above 0 with nesterov", options.momentum);
      require(options.dampening == 0, "SGD", "dampening", "0 with nesterov", options.dampening);
    }
  }

  std::string name() const override { return "sgd"; }
  double lr() const override { return options_.lr; }
  std::vector<std::pair<std::string, double>> hyper_parameters() const override {
    return {{"lr", options_.lr},
            {"momentum", options_.momentum},
            {"dampening", options_.dampening},
            {"weight_decay", options_.weight_decay},
            {"nesterov", options_.nesterov ? 1 : 0}};
  }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    if (options_.momentum == 0) return {};
    return {slot_like("momentum", param)};
  }

  // The first step takes the whole gradient, later ones the dampened one.
  std::vector<StepScalar> scalars() const override {
    if (options_.momentum == 0 || options_.dampening == 0) return {};
    const double later = 1 - options_.dampening;
    return {{"gradient_share", [later](std::int64_t t) { return t == 1 ? 1.0 : later; }}};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    Tensor g = a.grad;
    if (options_.weight_decay > 0) g = g + a.param * options_.weight_decay;
    if (options_.momentum == 0) return {as(descended(a.param, a.lr, g), args.param.dtype()), {}};

    const Tensor share_of_g = a.scalars.empty() ? g : a.scalars[0] * g;
    const Tensor momentum = a.slots[0] * options_.momentum + share_of_g;
    const Tensor direction = options_.nesterov ? g + momentum * options_.momentum : momentum;
    return {as(descended(a.param, a.lr, direction), args.param.dtype()), {momentum}};
  }

 private:
  SGD options_;
};

}  // namespace

SGD::operator Optimizer() const { return std::make_shared<SgdRule>(*this); }

}  // namespace wholestep
