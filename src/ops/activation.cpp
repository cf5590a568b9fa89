// Activation functions: element-wise ops that are written from other scalar operations.
#include <cmath>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::define;
using elementwise::Scalar;
using elementwise::Takes;
using elementwise::UnaryCotangent;
using loops::BinaryOp;
using loops::UnaryOp;

/// max(x, 0). The derivative at 0 is 0.
Tensor relu(Tensor x) { return apply_broadcast("relu", {x}); }

/// 1 / (1 + exp(-x)), accurate in both tails.
Tensor sigmoid(Tensor x) { return apply_broadcast("sigmoid", {x}); }

/// log(sigmoid(x)), without overflow or cancellation.
Tensor log_sigmoid(Tensor x) { return apply_broadcast("log_sigmoid", {x}); }

/// log(1 + exp(x)), without overflow or cancellation.
Tensor softplus(Tensor x) { return apply_broadcast("softplus", {x}); }

/// x / (1 + |x|).
Tensor softsign(Tensor x) { return apply_broadcast("softsign", {x}); }

/// x * sigmoid(x).
Tensor silu(Tensor x) { return apply_broadcast("silu", {x}); }

/// x times the normal distribution function at x (Hendrycks and Gimpel, 2016), by erfc.
Tensor gelu(Tensor x) { return apply_broadcast("gelu", {x}); }

/// The approximation of gelu by tanh: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.
Tensor gelu_tanh(Tensor x) { return apply_broadcast("gelu_tanh", {x}); }

namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInvSqrtTwoPi = 0.39894228040143267794;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kGeluCubic = 0.044715;

// exp of a negative number only, so that neither tail overflows or loses its digits.
double sigmoid_of(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

Scalar sigmoid_of(Scalar x) {
  const Scalar e = elementwise::apply(UnaryOp::exp, -elementwise::apply(UnaryOp::abs, x));
  const Scalar is_upper = elementwise::apply(BinaryOp::ge, x, x.constant(0));
  return elementwise::select(is_upper, x.constant(1), e) / (1.0 + e);
}

}  // namespace

void register_activation(OpTable& table) {
  table.add(define({
      .name = "relu",
      .doc = "max(x, 0); NaN of NaN. The derivative at 0 is 0.",
      .takes = Takes::numbers,
      .real = [](double x) { return x < 0 ? 0 : x; },
      .integer = [](std::int64_t x) { return x < 0 ? 0 : x; },
      .lower = [](Scalar x) { return elementwise::apply(BinaryOp::max, x, x.constant(0)); },
      // By the output, so that a layer's input need not be kept.
      .gradient = [](const UnaryCotangent& at) { return select(greater(at.y, 0), at.g, 0); },
      .ranges = {{0.1, 2}, {-2, -0.1}},
  }));
  table.add(define({
      .name = "sigmoid",
      .doc = "1 / (1 + exp(-x)), accurate in both tails.",
      .real = [](double x) { return sigmoid_of(x); },
      .lower = [](Scalar x) { return sigmoid_of(x); },
      // sigmoid(-x), not 1 - y, which cancels in the upper tail.
      .gradient = [](const UnaryCotangent& at) { return at.g * (at.y * sigmoid(-at.x)); },
  }));
  table.add(define({
      .name = "log_sigmoid",
      .doc = "log(sigmoid(x)) as min(x, 0) - log1p(exp(-|x|)), which neither overflows nor cancels.",
      .real = [](double x) { return (x > 0 ? 0 : x) - std::log1p(std::exp(-std::fabs(x))); },
      .lower =
          [](Scalar x) {
            const Scalar e = elementwise::apply(UnaryOp::exp, -elementwise::apply(UnaryOp::abs, x));
            return elementwise::apply(BinaryOp::min, x, x.constant(0)) - elementwise::apply(UnaryOp::log1p, e);
          },
      .gradient = [](const UnaryCotangent& at) { return at.g * sigmoid(-at.x); },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "softplus",
      .doc = "log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which neither overflows nor cancels.",
      .real = [](double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); },
      .lower =
          [](Scalar x) {
            const Scalar e = elementwise::apply(UnaryOp::exp, -elementwise::apply(UnaryOp::abs, x));
            return elementwise::apply(BinaryOp::max, x, x.constant(0)) + elementwise::apply(UnaryOp::log1p, e);
          },
      .gradient = [](const UnaryCotangent& at) { return at.g * sigmoid(at.x); },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "softsign",
      .doc = "x / (1 + |x|).",
      .real = [](double x) { return x / (1 + std::fabs(x)); },
      .lower = [](Scalar x) { return x / (1.0 + elementwise::apply(UnaryOp::abs, x)); },
      .gradient =
          [](const UnaryCotangent& at) {
            const Tensor r = reciprocal(abs(at.x) + 1);
            return at.g * r * r;
          },
      .ranges = {{0.1, 2}, {-2, -0.1}},
  }));
  table.add(define({
      .name = "silu",
      .doc = "x * sigmoid(x), also called swish.",
      .real = [](double x) { return x * sigmoid_of(x); },
      .lower = [](Scalar x) { return x * sigmoid_of(x); },
      .gradient =
          [](const UnaryCotangent& at) {
            const Tensor s = sigmoid(at.x);
            return at.g * (s * (at.x * (1 - s) + 1));
          },
  }));
  table.add(define({
      .name = "gelu",
      .doc = "x times the normal distribution function at x, by erfc, which keeps the lower tail.",
      .real = [](double x) { return 0.5 * x * std::erfc(-x * kSqrtHalf); },
      .lower = [](Scalar x) { return 0.5 * x * elementwise::apply(UnaryOp::erfc, -kSqrtHalf * x); },
      .gradient =
          [](const UnaryCotangent& at) {
            const Tensor distribution = erfc(at.x * -kSqrtHalf) * 0.5;
            const Tensor density = exp(square(at.x) * -0.5) * kInvSqrtTwoPi;
            return at.g * (distribution + at.x * density);
          },
  }));
  table.add(define({
      .name = "gelu_tanh",
      .doc =
          "The approximation of gelu by tanh, (1 + tanh(u)) / 2 written as sigmoid(2 u), which keeps the lower tail.",
      .real = [](double x) { return x * sigmoid_of(2 * kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)); },
      .lower = [](Scalar x) { return x * sigmoid_of(2 * kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)); },
      .gradient =
          [](const UnaryCotangent& at) {
            // Beyond 32 both factors of the product below are at their limits in every dtype, and x^3 may overflow.
            const Tensor x = minimum(maximum(at.x, -32), 32);
            const Tensor x2 = square(x);
            const Tensor u2 = x * (x2 * (2 * kSqrtTwoOverPi * kGeluCubic) + 2 * kSqrtTwoOverPi);
            const Tensor slope = x2 * (6 * kSqrtTwoOverPi * kGeluCubic) + 2 * kSqrtTwoOverPi;
            const Tensor s = sigmoid(u2);
            return at.g * (s * (x * sigmoid(-u2) * slope + 1));
          },
  }));
}

}  // namespace wholestep
