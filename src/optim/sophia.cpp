#include <limits>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

class SophiaRule : public OptimizerRule {
 public:
  explicit SophiaRule(const Sophia& options) : options_(options) {
    require_non_negative("Sophia", "lr", options.lr);
    require_decay_rate("Sophia", "beta1", options.beta1);
    require_decay_rate("Sophia", "beta2", options.beta2);
    require_positive("Sophia", "gamma", options.gamma);
    require_positive("Sophia", "eps", options.eps);
    require_non_negative("Sophia", "weight_decay", options.weight_decay);
    require_at_least_one("Sophia", "k", options.k);
  }

  std::string name() const override { return "sophia"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    return {slot_like("m", param), slot_like("h", param)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor m = moving_average(a.slots[0], a.grad, options_.beta1), h = a.slots[1];
    const Tensor ratio = m / maximum(h * options_.gamma, options_.eps);
    const Tensor clipped = minimum(maximum(ratio, -1.0), 1.0);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr, clipped), args.param.dtype()), {m, h}};
  }

  int refresh_due(std::int64_t t) const override { return (t - 1) % options_.k == 0; }
  int refresh_kinds() const override { return 1; }
  bool needs_curvature() const override { return true; }
  std::vector<Tensor> append_refresh(const RefreshArgs& args) const override {
    const Tensor m = args.step.slots[0], h = args.step.slots[1];
    // Second derivatives leave the range of f16 before gradients do: such an element keeps the estimate that it has.
    const Tensor finite = less(abs(args.curvature), std::numeric_limits<double>::infinity());
    return {m, select(finite, moving_average(h, args.curvature, options_.beta2), h)};
  }

 private:
  Sophia options_;
};

}  // namespace

Sophia::operator Optimizer() const { return std::make_shared<SophiaRule>(*this); }

}  // namespace wholestep
