// Adam and AdamW: one formula, which differs in where the weight decay goes.
#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

enum class Decay { into_gradient, decoupled };

class AdamRule : public MomentsRule<Adam> {
 public:
  AdamRule(std::string name, std::string_view title, const Adam& options, Decay decay)
      : MomentsRule(std::move(name), title, options), decay_(decay) {}

  std::vector<std::pair<std::string, double>> hyper_parameters() const override {
    return {{"lr", options_.lr},
            {"beta1", options_.beta1},
            {"beta2", options_.beta2},
            {"eps", options_.eps},
            {"weight_decay", options_.weight_decay}};
  }

  // The paper's lr * (m / bc1) / (sqrt(v / bc2) + eps), with all that is the same for every element taken out of the
  // division: (lr / bc1) * (m / (sqrt(v) * (1 / sqrt(bc2)) + eps)). One square root and one division per element.
  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    Tensor g = a.grad;
    Tensor p = a.param;
    if (decay_ == Decay::decoupled) {
      p = decayed(p, a.lr, options_.weight_decay);
    } else if (options_.weight_decay > 0) {
      g = multiply_add(p, options_.weight_decay, g);
    }
    const auto [m, v] = moments(a, g);
    const Tensor step_size = a.lr * a.scalars[0];
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[1], options_.eps);
    return {as(descended(p, step_size, m / denominator), args.param.dtype()), {m, v}};
  }

 private:
  Decay decay_;
};

}  // namespace

Adam::operator Optimizer() const { return std::make_shared<AdamRule>("adam", "Adam", *this, Decay::into_gradient); }

AdamW::operator Optimizer() const {
  return std::make_shared<AdamRule>("adamw", "AdamW", Adam{lr, beta1, beta2, eps, weight_decay}, Decay::decoupled);
}

}  // namespace wholestep
