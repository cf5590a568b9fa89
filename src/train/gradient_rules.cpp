#include "train/gradient_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "wholestep/ops.h"

namespace wholestep::train {
namespace {

Tensor where(Tensor gate, Tensor value) { return select(gate, value, value.graph().constant(0, value.dtype())); }

}  // namespace

// 0 * x is 0 for finite x, else NaN.
Tensor all_finite(const std::vector<Tensor>& grads, const std::vector<Tensor>& gates) {
  Tensor finite;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const Tensor zero = sum(grads[i] * 0.0);
    const Tensor here = logical_or(logical_not(gates[i]), equal(zero, 0));
    finite = finite.valid() ? logical_and(finite, here) : here;
  }
  return finite;
}

Tensor global_norm(const std::vector<Tensor>& grads, const std::vector<Tensor>& gates) {
  constexpr double kLarge = 0x1p40, kDown = 0x1p-90, kUp = 0x1p90;
  const bool wide = std::ranges::any_of(grads, [](Tensor grad) { return grad.dtype() == DType::f64; });
  const DType dtype = wide ? DType::f64 : DType::f32;
  Tensor squares, large_squares;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const Tensor large = greater(abs(grads[i]), kLarge), zero = grads[i].graph().constant(0, grads[i].dtype());
    const Tensor ordinary = cast(where(gates[i], sum(select(large, zero, square(grads[i])))), dtype);
    const Tensor scaled = cast(where(gates[i], sum(select(large, square(grads[i] * kDown), zero))), dtype);
    squares = squares.valid() ? squares + ordinary : ordinary;
    large_squares = large_squares.valid() ? large_squares + scaled : scaled;
  }
  return select(greater(large_squares, 0), sqrt(large_squares + squares * kDown * kDown) * kUp, sqrt(squares));
}

Tensor clip_factor(Tensor norm, double limit) {
  Graph& graph = norm.graph();
  const Tensor most = graph.constant(limit, norm.dtype());
  return select(greater(norm, most), most / norm, graph.constant(1, norm.dtype()));
}

Tensor clip_by_value(Tensor grad, double limit) { return minimum(maximum(grad, -limit), limit); }

void update_loss_scale(Tensor scale, Tensor good_steps, Tensor finite, const LossScaling& how) {
  Graph& graph = scale.graph();
  const Tensor good = good_steps + 1;
  const Tensor grows = logical_and(finite, equal(good, static_cast<double>(how.interval)));
  const Tensor larger = minimum(scale * how.factor, kMostLossScale), smaller = maximum(scale / how.factor, how.least);
  graph.set_update(scale, select(finite, select(grows, larger, scale), smaller));
  graph.set_update(good_steps, select(logical_and(finite, logical_not(grows)), good, graph.constant(0, DType::i32)));
}

}  // namespace wholestep::train
