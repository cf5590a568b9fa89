#include <algorithm>
#include <cmath>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

/// The shape in which a parameter is preconditioned: of rank 2 at most.
Shape merged(const Shape& shape) {
  if (shape.size() <= 2) return shape;
  const std::int64_t elements = num_elements(shape), first = shape.front(), last = shape.back();
  if (elements == 0) return {0};
  const Shape by_last{elements / last, last}, by_first{first, elements / first};
  return last - elements / last <= elements / first - first ? by_last : by_first;
}

Tensor identity(Graph& graph, std::int64_t n, DType dtype) {
  return cast(equal(iota(graph, {n, n}, 0, DType::i32), iota(graph, {n, n}, 1, DType::i32)), dtype);
}

Tensor upper_triangle(Tensor x) {
  const std::int64_t n = x.shape()[0];
  Graph& graph = x.graph();
  return select(less_equal(iota(graph, {n, n}, 0, DType::i32), iota(graph, {n, n}, 1, DType::i32)), x, 0.0);
}

/// A cheap lower bound of the spectral norm of symmetric `x`, whose largest magnitude is `largest`.
Tensor spectral_bound(Tensor x, Tensor largest) {
  const std::int64_t n = x.shape()[0];
  x = x / largest;
  const Tensor longest = argmax(reduce_sum(square(x), {0}), 0);
  Tensor row = reshape(gather_rows(x, longest), {1, n});
  row = matmul(row, x);
  row = row / l2_norm(row);
  return l2_norm(matmul(row, x, false, true)) * largest;
}

class KronRule : public OptimizerRule {
 public:
  explicit KronRule(const Kron& options) : options_(options) {
    require_non_negative("Kron", "lr", options.lr);
    require_decay_rate("Kron", "beta1", options.beta1);
    require_non_negative("Kron", "weight_decay", options.weight_decay);
    require_non_negative("Kron", "max_size_triangular", static_cast<double>(options.max_size_triangular));
    require_positive("Kron", "precond_lr", options.precond_lr);
    require(options.min_probability > 0 && options.min_probability <= 1, "Kron", "min_probability", "in (0, 1]",
            options.min_probability);
    require_positive("Kron", "decay", options.decay);
    require_non_negative("Kron", "flat_start", options.flat_start);
  }

  std::string name() const override { return "kron"; }
  double lr() const override { return options_.lr; }

  std::vector<OptimizerSlot> slots(const TensorType& param) const override {
    std::vector<OptimizerSlot> all{slot_like("m", param)};
    const Shape shape = merged(param.shape);
    const std::size_t factors = std::max<std::size_t>(shape.size(), 1);
    for (std::size_t i = 0; i < factors; ++i) {
      Shape factor = shape.empty() ? Shape{} : Shape{shape[i]};
      if (triangular(shape, i)) factor.push_back(shape[i]);
      all.push_back({"Q" + std::to_string(i), {update_dtype(param.dtype), factor}});
    }
    return all;
  }

  std::vector<StepScalar> scalars() const override {
    return {inverse_bias_correction("inverse_bias_correction1", options_.beta1)};
  }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Shape whole = a.param.shape(), shape = merged(whole);
    const Tensor m = moving_average(a.slots[0], a.grad, options_.beta1);
    std::vector<Tensor> factors = this->factors(a, shape);
    Tensor u = reshape(m * a.scalars[0], shape);
    for (std::size_t i = 0; i < factors.size(); ++i) u = times_gram(u, i, factors[i]);
    const Tensor size = sqrt(reduce_mean(square(u))) + 1e-12;
    u = reshape(u * minimum(1.1 / size, 1.0), whole);
    if (options_.weight_decay > 0 && whole.size() >= 2) u = multiply_add(a.param, options_.weight_decay, u);
    std::vector<Tensor> slots{m};
    slots.insert(slots.end(), factors.begin(), factors.end());
    return {as(a.param - a.lr * u, args.param.dtype()), slots};
  }

  int refresh_due(std::int64_t t) const override {
    const double now = std::floor(updates(t)), before = std::floor(updates(t - 1));
    if (now == before) return 0;
    return std::fmod(now, kBalanceEvery) == 0 ? kBalance : kUpdate;
  }
  int refresh_kinds() const override { return kBalance; }

  std::vector<Tensor> append_refresh(const RefreshArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args.step);
    const Shape shape = merged(a.param.shape());
    const DType dtype = a.param.dtype();
    std::vector<Tensor> factors = this->factors(a, shape);
    if (args.kind == kBalance && factors.size() > 1) balance(factors);

    const Tensor m = moving_average(a.slots[0], a.grad, options_.beta1);
    const Tensor momentum = reshape(m * a.scalars[0], shape);
    const Tensor noise = as(args.normal(shape), dtype);
    const Tensor g = momentum + std::sqrt(0x1p-23) * reduce_mean(abs(momentum)) * noise;
    Tensor forward = g, backward = noise;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      forward = times(forward, i, factors[i]);
      backward = over(backward, i, factors[i]);
    }
    std::vector<Tensor> slots{args.step.slots[0]};
    for (std::size_t i = 0; i < factors.size(); ++i) slots.push_back(moved(factors[i], i, forward, backward));
    return slots;
  }

 private:
  static constexpr int kUpdate = 1, kBalance = 2;
  static constexpr double kBalanceEvery = 100;

  bool triangular(const Shape& shape, std::size_t axis) const {
    return shape.size() == 2 && shape[axis] > 1 && shape[axis] <= options_.max_size_triangular;
  }

  /// The integral of the share of steps at which factors are updated.
  double updates(std::int64_t t) const {
    const double flat = options_.flat_start, n = static_cast<double>(t);
    if (n <= flat) return n;
    const double least = options_.min_probability, falls_until = flat - std::log(least) / options_.decay;
    const double falling = (1 - std::exp(-options_.decay * (std::min(n, falls_until) - flat))) / options_.decay;
    return flat + falling + least * std::max(0.0, n - falls_until);
  }

  /// The factors as they are, or as they start where the slots are zeros: a factor's diagonal never is.
  std::vector<Tensor> factors(const OptimizerArgs& a, const Shape& shape) const {
    std::vector<Tensor> all;
    for (std::size_t i = 0; i + 1 < a.slots.size(); ++i) {
      const Tensor q = a.slots[i + 1];
      const Tensor start =
          triangular(shape, i) ? identity(a.graph, shape[i], q.dtype()) : a.graph.full(q.shape(), 1, q.dtype());
      all.push_back(num_elements(q.shape()) == 0 ? q : select(equal(largest(q), 0.0), start, q));
    }
    return all;
  }

  static Tensor largest(Tensor x) { return x.rank() == 0 ? abs(x) : reduce_max(abs(x)); }

  /// A diagonal as it multiplies a matrix along `axis`.
  static Tensor along(Tensor diagonal, std::size_t axis, int rank) {
    const std::int64_t n = diagonal.rank() == 0 ? 1 : diagonal.shape()[0];
    return rank == 2 && axis == 0 ? reshape(diagonal, {n, 1}) : diagonal;
  }
  /// Q x along `axis`.
  static Tensor times(Tensor x, std::size_t axis, Tensor q) {
    if (q.rank() < 2) return x * along(q, axis, x.rank());
    return axis == 0 ? matmul(q, x) : matmul(x, q, false, true);
  }
  /// Q^-T x along `axis`.
  static Tensor over(Tensor x, std::size_t axis, Tensor q) {
    if (q.rank() < 2) return x / along(q, axis, x.rank());
    if (axis == 0) return triangular_solve(q, x, false, true);
    return transpose(triangular_solve(q, transpose(x), false, true));
  }
  /// Q^T Q x along `axis`.
  static Tensor times_gram(Tensor x, std::size_t axis, Tensor q) {
    if (q.rank() < 2) return x * square(along(q, axis, x.rank()));
    return axis == 0 ? matmul(q, matmul(q, x), true) : matmul(matmul(x, q, false, true), q);
  }

  Tensor moved(Tensor q, std::size_t axis, Tensor forward, Tensor backward) const {
    constexpr double kTiny = 0x1p-126;
    const auto gram = [&](Tensor x) {
      if (q.rank() == 2) return axis == 0 ? matmul(x, x, false, true) : matmul(x, x, true);
      return x.rank() == 2 ? reduce_sum(square(x), {axis == 0 ? 1 : 0}) : square(x);
    };
    const Tensor a = gram(forward), b = gram(backward);
    const Tensor difference = (a - b) * options_.precond_lr, sum = a + b;
    const Tensor norm = largest(sum);
    if (q.rank() < 2) return q - difference * (q / maximum(norm, kTiny));
    const Tensor bound = select(greater(norm, 0.0), spectral_bound(sum, maximum(norm, kTiny)), norm);
    return q - matmul(upper_triangle(difference) / maximum(bound, kTiny), q);
  }

  /// Scales the factors to one largest magnitude, their product unchanged.
  static void balance(std::vector<Tensor>& factors) {
    const Tensor first = largest(factors[0]), second = largest(factors[1]);
    const Tensor mean = sqrt(first * second);
    factors[0] = factors[0] * (mean / first);
    factors[1] = factors[1] * (mean / second);
  }

  Kron options_;
};

}  // namespace

Kron::operator Optimizer() const { return std::make_shared<KronRule>(*this); }

}  // namespace wholestep
