// Trigonometric and hyperbolic functions and their inverses. Angles are in radians.
#include <cmath>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::define;
using elementwise::primitive;
using elementwise::UnaryCotangent;
using loops::UnaryOp;

/// Sine of x radians.
Tensor sin(Tensor x) { return apply_broadcast("sin", {x}); }

/// Cosine of x radians.
Tensor cos(Tensor x) { return apply_broadcast("cos", {x}); }

/// Tangent of x radians.
Tensor tan(Tensor x) { return apply_broadcast("tan", {x}); }

/// Angle in [-pi/2, pi/2] whose sine is x.
Tensor asin(Tensor x) { return apply_broadcast("asin", {x}); }

/// Angle in [0, pi] whose cosine is x.
Tensor acos(Tensor x) { return apply_broadcast("acos", {x}); }

/// Angle in [-pi/2, pi/2] whose tangent is x.
Tensor atan(Tensor x) { return apply_broadcast("atan", {x}); }

/// (exp(x) - exp(-x)) / 2.
Tensor sinh(Tensor x) { return apply_broadcast("sinh", {x}); }

/// (exp(x) + exp(-x)) / 2.
Tensor cosh(Tensor x) { return apply_broadcast("cosh", {x}); }

/// Hyperbolic tangent.
Tensor tanh(Tensor x) { return apply_broadcast("tanh", {x}); }

/// Inverse of sinh.
Tensor asinh(Tensor x) { return apply_broadcast("asinh", {x}); }

/// Inverse of cosh, not negative; NaN below 1.
Tensor acosh(Tensor x) { return apply_broadcast("acosh", {x}); }

/// Inverse of tanh; NaN outside [-1, 1].
Tensor atanh(Tensor x) { return apply_broadcast("atanh", {x}); }

namespace {

// 1 - x * x, which does not cancel near 1.
Tensor one_minus_square(Tensor x) { return (1 - x) * (1 + x); }

// 1 / sqrt(1 + x * x). Where x * x could overflow, 1 is too small to count.
Tensor rsqrt_one_plus_square(Tensor x) {
  const double large = x.dtype() == f16 ? 0x1p7 : 0x1p28;
  const Tensor magnitude = abs(x);
  return select(greater(magnitude, large), reciprocal(magnitude), rsqrt(square(x) + 1));
}

}  // namespace

void register_trigonometry(OpTable& table) {
  table.add(define({
      .name = "sin",
      .doc = "Sine of x radians.",
      .real = [](double x) { return std::sin(x); },
      .lower = primitive(UnaryOp::sin),
      .gradient = [](const UnaryCotangent& at) { return at.g * cos(at.x); },
  }));
  table.add(define({
      .name = "cos",
      .doc = "Cosine of x radians.",
      .real = [](double x) { return std::cos(x); },
      .lower = primitive(UnaryOp::cos),
      .gradient = [](const UnaryCotangent& at) { return -(at.g * sin(at.x)); },
  }));
  table.add(define({
      .name = "tan",
      .doc = "Tangent of x radians.",
      .real = [](double x) { return std::tan(x); },
      .lower = primitive(UnaryOp::tan),
      .gradient = [](const UnaryCotangent& at) { return at.g * (square(at.y) + 1); },
      .ranges = {{-1.2, 1.2}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "asin",
      .doc = "Angle in [-pi/2, pi/2] whose sine is x. NaN outside [-1, 1].",
      .real = [](double x) { return std::asin(x); },
      .lower = primitive(UnaryOp::asin),
      .gradient = [](const UnaryCotangent& at) { return at.g * rsqrt(one_minus_square(at.x)); },
      .ranges = {{-0.8, 0.8}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "acos",
      .doc = "Angle in [0, pi] whose cosine is x. NaN outside [-1, 1].",
      .real = [](double x) { return std::acos(x); },
      .lower = primitive(UnaryOp::acos),
      .gradient = [](const UnaryCotangent& at) { return -(at.g * rsqrt(one_minus_square(at.x))); },
      .ranges = {{-0.8, 0.8}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "atan",
      .doc = "Angle in [-pi/2, pi/2] whose tangent is x.",
      .real = [](double x) { return std::atan(x); },
      .lower = primitive(UnaryOp::atan),
      .gradient = [](const UnaryCotangent& at) { return at.g / (square(at.x) + 1); },
  }));
  table.add(define({
      .name = "sinh",
      .doc = "(exp(x) - exp(-x)) / 2.",
      .real = [](double x) { return std::sinh(x); },
      .lower = primitive(UnaryOp::sinh),
      .gradient = [](const UnaryCotangent& at) { return at.g * cosh(at.x); },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "cosh",
      .doc = "(exp(x) + exp(-x)) / 2.",
      .real = [](double x) { return std::cosh(x); },
      .lower = primitive(UnaryOp::cosh),
      .gradient = [](const UnaryCotangent& at) { return at.g * sinh(at.x); },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "tanh",
      .doc = "Hyperbolic tangent.",
      .real = [](double x) { return std::tanh(x); },
      .lower = primitive(UnaryOp::tanh),
      // Not 1 - y * y, which cancels where y is near 1, nor 1 / cosh(x)^2, whose own derivative overflows.
      .gradient = [](const UnaryCotangent& at) { return at.g * (sigmoid(at.x * 2) * sigmoid(at.x * -2) * 4); },
  }));
  table.add(define({
      .name = "asinh",
      .doc = "Inverse of sinh.",
      .real = [](double x) { return std::asinh(x); },
      .lower = primitive(UnaryOp::asinh),
      .gradient = [](const UnaryCotangent& at) { return at.g * rsqrt_one_plus_square(at.x); },
  }));
  table.add(define({
      .name = "acosh",
      .doc = "Inverse of cosh, not negative. NaN below 1.",
      .real = [](double x) { return std::acosh(x); },
      .lower = primitive(UnaryOp::acosh),
      // As two factors, x * x - 1 neither cancels near 1 nor overflows.
      .gradient = [](const UnaryCotangent& at) { return at.g * rsqrt(at.x - 1) * rsqrt(at.x + 1); },
      .ranges = {{1.3, 4}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "atanh",
      .doc = "Inverse of tanh. Infinite at -1 and 1, NaN outside.",
      .real = [](double x) { return std::atanh(x); },
      .lower = primitive(UnaryOp::atanh),
      .gradient = [](const UnaryCotangent& at) { return at.g / one_minus_square(at.x); },
      .ranges = {{-0.8, 0.8}},
      .compute_in = ComputeIn::full,
  }));
}

}  // namespace wholestep
