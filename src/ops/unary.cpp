// Element-wise functions of one operand: arithmetic, rounding, powers and exponentials.
#include <cmath>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::define;
using elementwise::primitive;
using elementwise::Scalar;
using elementwise::Takes;
using elementwise::UnaryCotangent;
using loops::UnaryOp;

/// -x. Integers wrap.
Tensor neg(Tensor x) { return apply_broadcast("neg", {x}); }

/// -x.
Tensor operator-(Tensor x) { return neg(x); }

/// Absolute value. Integers wrap. The derivative at 0 is 1, as JAX's.
Tensor abs(Tensor x) { return apply_broadcast("abs", {x}); }

/// -1, 0 or 1; NaN of NaN.
Tensor sign(Tensor x) { return apply_broadcast("sign", {x}); }

/// Smallest integer not below x.
Tensor ceil(Tensor x) { return apply_broadcast("ceil", {x}); }

/// Largest integer not above x.
Tensor floor(Tensor x) { return apply_broadcast("floor", {x}); }

/// Nearest integer, half to even.
Tensor round(Tensor x) { return apply_broadcast("round", {x}); }

/// Nearest integer towards zero.
Tensor trunc(Tensor x) { return apply_broadcast("trunc", {x}); }

/// Square root; NaN below 0.
Tensor sqrt(Tensor x) { return apply_broadcast("sqrt", {x}); }

/// 1 / sqrt(x).
Tensor rsqrt(Tensor x) { return apply_broadcast("rsqrt", {x}); }

/// x * x. Integers wrap.
Tensor square(Tensor x) { return apply_broadcast("square", {x}); }

/// 1 / x.
Tensor reciprocal(Tensor x) { return apply_broadcast("reciprocal", {x}); }

/// e to the x.
Tensor exp(Tensor x) { return apply_broadcast("exp", {x}); }

/// exp(x) - 1, accurate near 0.
Tensor expm1(Tensor x) { return apply_broadcast("expm1", {x}); }

/// Natural logarithm; -infinity at 0, NaN below.
Tensor log(Tensor x) { return apply_broadcast("log", {x}); }

/// log(1 + x), accurate near 0.
Tensor log1p(Tensor x) { return apply_broadcast("log1p", {x}); }

/// Error function.
Tensor erf(Tensor x) { return apply_broadcast("erf", {x}); }

/// 1 - erf(x), accurate in the upper tail.
Tensor erfc(Tensor x) { return apply_broadcast("erfc", {x}); }

/// Whether x is NaN.
Tensor is_nan(Tensor x) { return apply_broadcast("is_nan", {x}); }

namespace {

constexpr double kTwoOverSqrtPi = 1.1283791670955125739;

// Integer arithmetic wraps, which signed C++ does not.
std::int64_t wrapping_neg(std::int64_t x) { return static_cast<std::int64_t>(-static_cast<std::uint64_t>(x)); }
std::int64_t wrapping_square(std::int64_t x) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(x));
}

}  // namespace

void register_unary(OpTable& table) {
  table.add(define({
      .name = "neg",
      .doc = "-x. Integers wrap.",
      .takes = Takes::numbers,
      .real = [](double x) { return -x; },
      .integer = wrapping_neg,
      .lower = primitive(UnaryOp::neg),
      .gradient = [](const UnaryCotangent& at) { return -at.g; },
  }));
  table.add(define({
      .name = "abs",
      .doc = "Absolute value. Integers wrap. The derivative at 0 is 1.",
      .takes = Takes::numbers,
      .real = [](double x) { return std::fabs(x); },
      .integer = [](std::int64_t x) { return x < 0 ? wrapping_neg(x) : x; },
      .lower = primitive(UnaryOp::abs),
      .gradient = [](const UnaryCotangent& at) { return select(greater_equal(at.x, 0), at.g, -at.g); },
      .ranges = {{0.1, 2}, {-2, -0.1}},
  }));
  table.add(define({
      .name = "sign",
      .doc = "-1, 0 or 1. Zeros keep their sign; NaN of NaN.",
      .takes = Takes::numbers,
      .real = [](double x) { return x > 0   ? 1
                                    : x < 0 ? -1
                                            : x; },
      .integer = [](std::int64_t x) { return std::int64_t{x > 0} - std::int64_t{x < 0}; },
      .lower = primitive(UnaryOp::sign),
      .gradient = NotDifferentiable{"constant but for a jump at 0"},
  }));
  table.add(define({
      .name = "ceil",
      .doc = "Smallest integer not below x.",
      .real = [](double x) { return std::ceil(x); },
      .lower = primitive(UnaryOp::ceil),
      .gradient = NotDifferentiable{"constant between integers"},
  }));
  table.add(define({
      .name = "floor",
      .doc = "Largest integer not above x.",
      .real = [](double x) { return std::floor(x); },
      .lower = primitive(UnaryOp::floor),
      .gradient = NotDifferentiable{"constant between integers"},
  }));
  table.add(define({
      .name = "round",
      .doc = "Nearest integer, half to even.",
      .real = [](double x) { return std::nearbyint(x); },
      .lower = primitive(UnaryOp::round),
      .gradient = NotDifferentiable{"constant between half integers"},
  }));
  table.add(define({
      .name = "trunc",
      .doc = "Nearest integer towards zero.",
      .real = [](double x) { return std::trunc(x); },
      .lower = primitive(UnaryOp::trunc),
      .gradient = NotDifferentiable{"constant between integers"},
  }));
  table.add(define({
      .name = "sqrt",
      .doc = "Square root. NaN below 0.",
      .real = [](double x) { return std::sqrt(x); },
      .lower = primitive(UnaryOp::sqrt),
      .gradient = [](const UnaryCotangent& at) { return at.g * 0.5 / at.y; },
      .ranges = {{0.1, 4}},
  }));
  table.add(define({
      .name = "rsqrt",
      .doc = "1 / sqrt(x). Infinity at 0, NaN below.",
      .real = [](double x) { return 1 / std::sqrt(x); },
      .lower = [](Scalar x) { return 1.0 / elementwise::apply(UnaryOp::sqrt, x); },
      .gradient = [](const UnaryCotangent& at) { return at.g * -0.5 * (at.y / at.x); },
      .ranges = {{0.2, 4}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "square",
      .doc = "x * x. Integers wrap.",
      .takes = Takes::numbers,
      .real = [](double x) { return x * x; },
      .integer = wrapping_square,
      .lower = [](Scalar x) { return x * x; },
      .gradient = [](const UnaryCotangent& at) { return at.g * at.x * 2; },
  }));
  table.add(define({
      .name = "reciprocal",
      .doc = "1 / x.",
      .real = [](double x) { return 1 / x; },
      .lower = [](Scalar x) { return 1.0 / x; },
      // In this order the square of a large 1 / x does not overflow where g makes the product small.
      .gradient = [](const UnaryCotangent& at) { return -(at.g * at.y * at.y); },
      .ranges = {{0.3, 3}, {-3, -0.3}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "exp",
      .doc = "e to the x.",
      .real = [](double x) { return std::exp(x); },
      .lower = primitive(UnaryOp::exp),
      .gradient = [](const UnaryCotangent& at) { return at.g * at.y; },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "expm1",
      .doc = "exp(x) - 1, accurate near 0.",
      .real = [](double x) { return std::expm1(x); },
      .lower = primitive(UnaryOp::expm1),
      // Not y + 1, which cancels for x far below 0.
      .gradient = [](const UnaryCotangent& at) { return at.g * exp(at.x); },
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "log",
      .doc = "Natural logarithm. -infinity at 0, NaN below.",
      .real = [](double x) { return std::log(x); },
      .lower = primitive(UnaryOp::log),
      .gradient = [](const UnaryCotangent& at) { return at.g / at.x; },
      .ranges = {{0.2, 4}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "log1p",
      .doc = "log(1 + x), accurate near 0. -infinity at -1, NaN below.",
      .real = [](double x) { return std::log1p(x); },
      .lower = primitive(UnaryOp::log1p),
      .gradient = [](const UnaryCotangent& at) { return at.g / (at.x + 1); },
      .ranges = {{-0.7, 3}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "erf",
      .doc = "Error function.",
      .real = [](double x) { return std::erf(x); },
      .lower = primitive(UnaryOp::erf),
      .gradient = [](const UnaryCotangent& at) { return at.g * (exp(-square(at.x)) * kTwoOverSqrtPi); },
  }));
  table.add(define({
      .name = "erfc",
      .doc = "1 - erf(x), accurate in the upper tail.",
      .real = [](double x) { return std::erfc(x); },
      .lower = primitive(UnaryOp::erfc),
      .gradient = [](const UnaryCotangent& at) { return at.g * (exp(-square(at.x)) * -kTwoOverSqrtPi); },
  }));
  table.add(define({
      .name = "is_nan",
      .doc = "Whether x is NaN.",
      .boolean_result = true,
      .real = [](double x) { return std::isnan(x) ? 1.0 : 0.0; },
      .lower = primitive(UnaryOp::is_nan),
      .gradient = NotDifferentiable{"the result is boolean"},
  }));
}

}  // namespace wholestep
