// Adam and AdamW: one formula, which differs in where the weight decay goes.
#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

enum class Decay { into_gradient, decoupled };

class AdamRule : public OptimizerRule {
 public:
  AdamRule(std::string name, const Adam& options, Decay decay)
      : name_(std::move(name)), options_(options), decay_(decay) {
    const std::string_view title = decay == Decay::decoupled ? "AdamW" : "Adam";
    require_non_negative(title, "lr", options.lr);
    require_decay_rate(title, "beta1", options.beta1);
    require_decay_rate(title, "beta2", options.beta2);
    require_positive(title, "eps", options.eps);
    require_non_negative(title, "weight_decay", options.weight_decay);
  }

  std::string name() const override { return name_; }
  double lr() const override { return options_.lr; }
  std::vector<std::pair<std::string, double>> hyper_parameters() const override {
    return {{"lr", options_.lr},
            {"beta1", options_.beta1},
            {"beta2", options_.beta2},
            {"eps", options_.eps},
            {"weight_decay", options_.weight_decay}};
  }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("v", param)};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1),
            inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2)};
  }

  // The paper's lr * (m / bc1) / (sqrt(v / bc2) + eps), with all that is the same for every element taken out of the
  // division: (lr / bc1) * m / (sqrt(v) * (1 / sqrt(bc2)) + eps). One square root and one division per element.
  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    Tensor g = a.grad;
    Tensor p = a.param;
    if (decay_ == Decay::decoupled) {
      p = decayed(p, a.lr, options_.weight_decay);
    } else if (options_.weight_decay > 0) {
      g = multiply_add(p, options_.weight_decay, g);
    }
    const Tensor m = moving_average(a.slots[0], g, options_.beta1);
    const Tensor v = moving_average(a.slots[1], square(g), options_.beta2);
    const Tensor step_size = a.lr * a.scalars[0];
    const Tensor denominator = multiply_add(sqrt(v), a.scalars[1], options_.eps);
    return {as(p - step_size * m / denominator, args.param.dtype()), {m, v}};
  }

 private:
  std::string name_;
  Adam options_;
  Decay decay_;
};

}  // namespace

Adam::operator Optimizer() const { return std::make_shared<AdamRule>("adam", *this, Decay::into_gradient); }

AdamW::operator Optimizer() const {
  return std::make_shared<AdamRule>("adamw", Adam{lr, beta1, beta2, eps, weight_decay}, Decay::decoupled);
}

}  // namespace wholestep
