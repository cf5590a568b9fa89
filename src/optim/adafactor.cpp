#include <cmath>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

Tensor root_mean_square(Tensor x) { return sqrt(reduce_mean(square(x))); }

class AdafactorRule : public OptimizerRule {
 public:
  explicit AdafactorRule(const Adafactor& options) : options_(options) {
    require_non_negative("Adafactor", "lr", options.lr);
    require(std::isfinite(options.beta2_decay) && options.beta2_decay <= 0, "Adafactor", "beta2_decay",
            "finite and at most 0", options.beta2_decay);
    // Its square keeps a division from zero.
    const bool has_square_in_f32 = options.eps1 >= 0x1p-63 && options.eps1 <= 0x1p63;
    require(has_square_in_f32, "Adafactor", "eps1", "from 2^-63 to 2^63", options.eps1);
    require_positive("Adafactor", "eps2", options.eps2);
    require(options.d >= 1 && non_negative_in_f32(options.d), "Adafactor", "d", "finite in f32 and at least 1",
            options.d);
    require_non_negative("Adafactor", "weight_decay", options.weight_decay);
  }

  std::string name() const override { return "adafactor"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    if (param.shape.size() < 2) return {slot_like("v", param)};
    TensorType row = slot_like("", param).type, column = row;
    row.shape.back() = 1;
    column.shape[column.shape.size() - 2] = 1;
    return {{"row", row}, {"column", column}};
  }

  std::vector<StepScalar> scalars() const override {
    return {
        {"one_minus_beta2", [k = options_.beta2_decay](std::int64_t t) { return std::pow(static_cast<double>(t), k); }},
        {"inverse_sqrt_step", [](std::int64_t t) { return 1 / std::sqrt(static_cast<double>(t)); }},
    };
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Tensor g2 = square(a.grad);
    const auto averaged = [&](Tensor average, Tensor value) {
      return multiply_add(value - average, a.scalars[0], average);
    };
    std::vector<Tensor> slots;
    Tensor v;
    if (a.param.rank() < 2) {
      v = averaged(a.slots[0], g2);
      slots = {v};
    } else {
      const std::int64_t last = a.param.rank() - 1;
      const Tensor row = averaged(a.slots[0], reduce_mean(g2, {last}, true));
      const Tensor column = averaged(a.slots[1], reduce_mean(g2, {last - 1}, true));
      v = row / maximum(reduce_mean(row, {last - 1}, true), options_.eps1) * column;
      slots = {row, column};
    }
    const Tensor update = a.grad / sqrt(maximum(v, options_.eps1 * options_.eps1));
    const Tensor clip = maximum(root_mean_square(update) / options_.d, 1);
    const Tensor rate = minimum(a.lr, a.scalars[1]) * maximum(root_mean_square(a.param), options_.eps2);
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, rate / clip, update), args.param.dtype()), slots};
  }

 private:
  Adafactor options_;
};

}  // namespace

Adafactor::operator Optimizer() const { return std::make_shared<AdafactorRule>(*this); }

}  // namespace wholestep
