#include <cmath>

#include "optim/moments.h"

namespace wholestep {
namespace {

using namespace optim;

std::vector<std::int64_t> with_axis_first(std::size_t rank, std::size_t axis) {
  std::vector<std::int64_t> order{static_cast<std::int64_t>(axis)};
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(static_cast<std::int64_t>(i));
  }
  return order;
}

/// `x` as a matrix [extent of the axis, the others].
Tensor unfolded(Tensor x, std::size_t axis) {
  const std::int64_t extent = x.shape()[axis], others = num_elements(x.shape()) / extent;
  return reshape(transpose(x, with_axis_first(x.shape().size(), axis)), {extent, others});
}

/// matrix^T (or matrix) times `x` along `axis`.
Tensor along(Tensor x, std::size_t axis, Tensor matrix, bool transposed) {
  const std::vector<std::int64_t> order = with_axis_first(x.shape().size(), axis);
  Shape moved;
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    moved.push_back(x.shape()[static_cast<std::size_t>(order[i])]);
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return transpose(reshape(matmul(matrix, unfolded(x, axis), transposed), moved), back);
}

/// The permutation matrix [n, n] that brings columns into falling order of `values` [n], equal ones in their order.
Tensor falling_order(Tensor values) {
  Graph& graph = values.graph();
  const std::int64_t n = values.shape()[0];
  const Tensor other = broadcast(reshape(values, {1, n}), {n, n}), own = broadcast(reshape(values, {n, 1}), {n, n});
  const Tensor column = iota(graph, {n, n}, 1, DType::i32), row = iota(graph, {n, n}, 0, DType::i32);
  const Tensor before = logical_or(greater(other, own), logical_and(equal(other, own), less(column, row)));
  const Tensor rank = reduce_sum(cast(before, DType::i32), {1}, true);
  return cast(equal(broadcast(rank, {n, n}), column), values.dtype());
}

class SoapRule : public MomentsRule<SOAP> {
 public:
  explicit SoapRule(const SOAP& options) : MomentsRule("soap", "SOAP", options) {
    require_decay_rate("SOAP", "shampoo_beta", options.shampoo_beta);
    require_at_least_one("SOAP", "precondition_frequency", options.precondition_frequency);
    require_non_negative("SOAP", "max_precond_dim", static_cast<double>(options.max_precond_dim));
  }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    std::vector<OptimizerSlot> all = MomentsRule::slots(param);
    for (const std::size_t axis : axes(param.shape)) {
      const TensorType square{update_dtype(param.dtype), {param.shape[axis], param.shape[axis]}};
      all.push_back({"L" + std::to_string(axis), square});
      all.push_back({"Q" + std::to_string(axis), square});
    }
    return all;
  }

  // The first step only begins L; Adam counts from the second.
  std::vector<StepScalar> scalars() const override {
    return {{"soap_moves", [](std::int64_t t) { return t > 1 ? 1.0 : 0.0; }},
            {"soap_step_size", [beta1 = options_.beta1, beta2 = options_.beta2](std::int64_t t) {
               return t > 1 ? std::sqrt(bias_correction(beta2, t - 1)) / bias_correction(beta1, t - 1) : 0;
             }}};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const std::vector<std::size_t> axes = this->axes(a.param.shape());
    const Tensor moves = greater(a.scalars[0], 0.5);
    const auto if_moves = [&](Tensor now, Tensor old) { return select(moves, now, old); };

    const Tensor m = if_moves(moving_average(a.slots[0], a.grad, options_.beta1), a.slots[0]);
    const Tensor g = in_bases(a.grad, a.slots, axes, true);
    const Tensor v = if_moves(moving_average_of_square(a.slots[1], g, options_.beta2), a.slots[1]);
    const Tensor direction = in_bases(m, a.slots, axes, true) / (sqrt(v) + options_.eps);
    const Tensor stepped = a.param - (a.lr * a.scalars[1]) * in_bases(direction, a.slots, axes, false);
    const Tensor p = if_moves(decayed(stepped, a.lr, options_.weight_decay), a.param);

    std::vector<Tensor> slots{m, v};
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Tensor matrix = unfolded(a.grad, axes[i]);
      slots.push_back(moving_average(a.slots[2 + 2 * i], matmul(matrix, matrix, false, true), options_.shampoo_beta));
      slots.push_back(a.slots[3 + 2 * i]);
    }
    return {as(p, args.param.dtype()), slots};
  }

  int refresh_due(std::int64_t t) const override {
    if (t == 2) return kFirstBases;
    return t > 2 && (t - 2) % options_.precondition_frequency == 0 ? kNextBases : 0;
  }
  int refresh_kinds() const override { return kNextBases; }

  std::vector<Tensor> append_refresh(const RefreshArgs& args) const override {
    std::vector<Tensor> slots = args.step.slots;
    const std::vector<std::size_t> axes = this->axes(args.step.param.shape());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const Tensor l = slots[2 + 2 * i];
      Tensor& q = slots[3 + 2 * i];
      if (args.kind == kFirstBases) {
        q = eigenvectors(l);
        continue;
      }
      const Tensor order = falling_order(reduce_sum(q * matmul(l, q), {0}));
      slots[1] = along(slots[1], axes[i], order, true);
      q = qr_q(matmul(l, matmul(q, order)));
    }
    return slots;
  }

 private:
  static constexpr int kFirstBases = 1, kNextBases = 2;

  /// The axes that have a preconditioner.
  std::vector<std::size_t> axes(const Shape& shape) const {
    std::vector<std::size_t> chosen;
    if (shape.size() < 2 || num_elements(shape) == 0) return chosen;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] <= options_.max_precond_dim) chosen.push_back(i);
    }
    return chosen;
  }

  /// `x` in the bases Q, or back from them.
  static Tensor in_bases(Tensor x, const std::vector<Tensor>& slots, const std::vector<std::size_t>& axes, bool into) {
    for (std::size_t i = 0; i < axes.size(); ++i) x = along(x, axes[i], slots[3 + 2 * i], into);
    return x;
  }
};

}  // namespace

SOAP::operator Optimizer() const { return std::make_shared<SoapRule>(*this); }

}  // namespace wholestep
