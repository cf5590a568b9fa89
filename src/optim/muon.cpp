#include <algorithm>
#include <cmath>

#include "optim/rule.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using namespace optim;

/// Newton-Schulz iteration towards the orthogonal factor of the polar decomposition of `x`: its singular values end
/// near 1. Works on the side of fewer rows.
Tensor orthogonalised(Tensor x, int iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;
  const bool tall = x.shape()[0] > x.shape()[1];
  x = x / (l2_norm(x) + eps);
  if (tall) x = transpose(x);
  for (int i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(x, x, false, true);
    const Tensor polynomial = multiply_add(gram, b, c * matmul(gram, gram));
    x = multiply_add(x, a, matmul(polynomial, x));
  }
  return tall ? transpose(x) : x;
}

bool is_convolution(const Shape& shape) { return shape.size() == 4; }

/// Matrices and convolution kernels.
class OrthogonalRule : public OptimizerRule {
 public:
  explicit OrthogonalRule(const Muon& options) : options_(options) {}

  std::string name() const override { return "muon"; }
  double lr() const override { return options_.lr; }
  std::vector<OptimizerSlot> slots(const TensorType& param) const override { return {slot_like("momentum", param)}; }

  OptimizerResult append(const OptimizerArgs& args) const override {
    const OptimizerArgs a = in_update_dtype(args);
    const Shape shape = a.param.shape();  // a copy: appending moves the graph's nodes
    const Tensor momentum = moving_average(a.slots[0], a.grad, options_.momentum);
    const Tensor direction = options_.nesterov ? moving_average(momentum, a.grad, options_.momentum) : momentum;
    const std::int64_t outputs = is_convolution(shape) ? shape[0] : shape[1];
    const std::int64_t inputs = is_convolution(shape) ? shape[1] * shape[2] * shape[3] : shape[0];
    const Tensor matrix = is_convolution(shape) ? reshape(direction, {outputs, inputs}) : direction;
    const Tensor update = reshape(orthogonalised(matrix, options_.iterations), shape);
    const double scale = std::sqrt(std::max(1.0, static_cast<double>(outputs) / static_cast<double>(inputs)));
    const Tensor p = decayed(a.param, a.lr, options_.weight_decay);
    return {as(descended(p, a.lr * scale, update), args.param.dtype()), {momentum}};
  }

 private:
  Muon options_;
};

class MuonRule : public CompositeRule {
 public:
  explicit MuonRule(const Muon& options) : matrices_(options), rest_(options.rest), lr_(options.lr) {
    require_positive("Muon", "lr", options.lr);
    require_decay_rate("Muon", "momentum", options.momentum);
    require_at_least_one("Muon", "iterations", options.iterations);
    require_non_negative("Muon", "weight_decay", options.weight_decay);
    require_non_negative("Muon", "the ratio of rest.lr to lr", rest_->lr() / lr_);
  }

  std::string name() const override { return "muon"; }
  double lr() const override { return lr_; }

  ParameterRule rule_for(std::string_view, const TensorType& type) const override {
    const bool matrix = num_elements(type.shape) > 0 && (type.shape.size() == 2 || is_convolution(type.shape));
    if (matrix) return {&matrices_};
    return {rest_.get(), rest_->lr() / lr_};
  }

 private:
  OrthogonalRule matrices_;
  Optimizer rest_;
  double lr_;
};

}  // namespace

Muon::operator Optimizer() const { return std::make_shared<MuonRule>(*this); }

}  // namespace wholestep
