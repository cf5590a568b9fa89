// The reference keeps y (the parameter) and z. Kept here is d = z - y, which starts as zeros like every slot:
//   y' = y + c (z - y) + lr (beta1 (1 - c) - 1) u   and   z' = z - lr u   give   d' = (1 - c) (d - lr beta1 u).
// The sum of the weights w is kept as s = sum / w, so that no weight, which may be beyond f32, is ever a number:
//   s' = 1 + s (w / w')   and   c = 1 / s'.
#include <cmath>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class ScheduleFreeRule : public OptimizerRule {
 public:
  explicit ScheduleFreeRule(const ScheduleFree& options) : options_(options) {
    const std::string_view title = "ScheduleFree";
    require_non_negative(title, "lr", options.lr);
    require(options.beta1 > 0 && options.beta1 < 1, title, "beta1", "in (0, 1)", options.beta1);
    require_decay_rate(title, "beta2", options.beta2);
    require_positive(title, "eps", options.eps);
    require_non_negative(title, "weight_decay", options.weight_decay);
    require_non_negative(title, "r", options.r);
    require_non_negative(title, "weight_lr_power", options.weight_lr_power);
  }

  std::string name() const override { return "schedule_free_adamw"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    const TensorType scalar{update_dtype(param.dtype), {}};
    return {slot_like("z_minus_y", param), slot_like("v", param), {"largest_lr", scalar}, {"weights", scalar}};
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_sqrt_bias_correction("inverse_sqrt_bias_correction2", options_.beta2),
            {"last_weight", [r = options_.r](std::int64_t t) { return std::pow(1 - 1 / static_cast<double>(t), r); }}};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor largest_lr = maximum(a.slots[2], a.lr);
    Tensor last_weight = a.scalars[1], counts = a.graph.constant(true, DType::boolean);
    if (options_.weight_lr_power > 0) {
      counts = greater(largest_lr, 0);
      last_weight = last_weight * pow(a.slots[2] / largest_lr, options_.weight_lr_power);
    }
    const Tensor weights = select(counts, multiply_add(a.slots[3], last_weight, 1), 0);
    const Tensor c = select(counts, 1 / weights, 0);

    const Tensor v = moving_average_of_square(a.slots[1], a.grad, options_.beta2);
    Tensor u = a.grad / multiply_add(sqrt(v), a.scalars[0], options_.eps);
    if (options_.weight_decay > 0) u = multiply_add(a.param, options_.weight_decay, u);

    const Tensor d = a.slots[0];
    const Tensor step = a.lr * (options_.beta1 * (1 - c) - 1);
    const Tensor y = a.param + multiply_add(u, step, c * d);
    const Tensor moved = (1 - c) * (d - (a.lr * options_.beta1) * u);
    return {as(y, args.param.dtype()), {moved, v, largest_lr, weights}};
  }

  Tensor evaluation_value(Graph&, Tensor param, const std::vector<Tensor>& slots) const override {
    const Tensor y = as(param, slots[0].dtype());
    return as(multiply_add(slots[0], 1 - 1 / options_.beta1, y), param.dtype());
  }

 private:
  ScheduleFree options_;
};

}  // namespace

ScheduleFree::operator Optimizer() const { return std::make_shared<ScheduleFreeRule>(*this); }

}  // namespace wholestep
