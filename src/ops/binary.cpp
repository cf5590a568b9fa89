// Arithmetic of two operands.
#include <cmath>
#include <limits>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::BinaryCotangent;
using elementwise::define;
using elementwise::primitive;
using elementwise::scalar_like;
using elementwise::Takes;
using loops::BinaryOp;

/// a + b. Integers wrap. Shapes broadcast.
Tensor add(Tensor a, Tensor b) { return apply_broadcast("add", {a, b}); }

/// As above, with a number on one side.
Tensor add(Tensor a, double b) { return add(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor add(double a, Tensor b) { return add(scalar_like(b, a), b); }

/// The same as `add`.
Tensor operator+(Tensor a, Tensor b) { return add(a, b); }

/// The same as `add`.
Tensor operator+(Tensor a, double b) { return add(a, b); }

/// The same as `add`.
Tensor operator+(double a, Tensor b) { return add(a, b); }

/// a - b. Integers wrap. Shapes broadcast.
Tensor sub(Tensor a, Tensor b) { return apply_broadcast("sub", {a, b}); }

/// As above, with a number on one side.
Tensor sub(Tensor a, double b) { return sub(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor sub(double a, Tensor b) { return sub(scalar_like(b, a), b); }

/// The same as `sub`.
Tensor operator-(Tensor a, Tensor b) { return sub(a, b); }

/// The same as `sub`.
Tensor operator-(Tensor a, double b) { return sub(a, b); }

/// The same as `sub`.
Tensor operator-(double a, Tensor b) { return sub(a, b); }

/// a * b. Integers wrap. Shapes broadcast.
Tensor mul(Tensor a, Tensor b) { return apply_broadcast("mul", {a, b}); }

/// As above, with a number on one side.
Tensor mul(Tensor a, double b) { return mul(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor mul(double a, Tensor b) { return mul(scalar_like(b, a), b); }

/// The same as `mul`.
Tensor operator*(Tensor a, Tensor b) { return mul(a, b); }

/// The same as `mul`.
Tensor operator*(Tensor a, double b) { return mul(a, b); }

/// The same as `mul`.
Tensor operator*(double a, Tensor b) { return mul(a, b); }

/// a / b. Integers round towards zero; a / 0 is -1, and the smallest integer over -1 is itself. Shapes broadcast.
Tensor div(Tensor a, Tensor b) { return apply_broadcast("div", {a, b}); }

/// As above, with a number on one side.
Tensor div(Tensor a, double b) { return div(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor div(double a, Tensor b) { return div(scalar_like(b, a), b); }

/// The same as `div`.
Tensor operator/(Tensor a, Tensor b) { return div(a, b); }

/// The same as `div`.
Tensor operator/(Tensor a, double b) { return div(a, b); }

/// The same as `div`.
Tensor operator/(double a, Tensor b) { return div(a, b); }

/// Remainder of a / b with the sign of a (C's fmod). Of integers, a rem 0 is a. Shapes broadcast.
Tensor rem(Tensor a, Tensor b) { return apply_broadcast("rem", {a, b}); }

/// As above, with a number on one side.
Tensor rem(Tensor a, double b) { return rem(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor rem(double a, Tensor b) { return rem(scalar_like(b, a), b); }

/// a to the power b, of floats. Shapes broadcast.
Tensor pow(Tensor a, Tensor b) { return apply_broadcast("pow", {a, b}); }

/// As above, with a number on one side.
Tensor pow(Tensor a, double b) { return pow(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor pow(double a, Tensor b) { return pow(scalar_like(b, a), b); }

/// Angle of the point (x = b, y = a) in [-pi, pi]. Shapes broadcast.
Tensor atan2(Tensor a, Tensor b) { return apply_broadcast("atan2", {a, b}); }

/// As above, with a number on one side.
Tensor atan2(Tensor a, double b) { return atan2(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor atan2(double a, Tensor b) { return atan2(scalar_like(b, a), b); }

/// The larger of a and b; NaN where either is. Equal operands share the gradient. Shapes broadcast.
Tensor maximum(Tensor a, Tensor b) { return apply_broadcast("maximum", {a, b}); }

/// As above, with a number on one side.
Tensor maximum(Tensor a, double b) { return maximum(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor maximum(double a, Tensor b) { return maximum(scalar_like(b, a), b); }

/// The smaller of a and b; NaN where either is. Equal operands share the gradient. Shapes broadcast.
Tensor minimum(Tensor a, Tensor b) { return apply_broadcast("minimum", {a, b}); }

/// As above, with a number on one side.
Tensor minimum(Tensor a, double b) { return minimum(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor minimum(double a, Tensor b) { return minimum(scalar_like(b, a), b); }

namespace {

// Integer arithmetic wraps, which signed C++ does not. The interpreter wraps further to narrower dtypes.
std::int64_t wrapping(std::uint64_t x) { return static_cast<std::int64_t>(x); }

std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (b == 0) return -1;
  return b == -1 ? wrapping(-static_cast<std::uint64_t>(a)) : a / b;
}

std::int64_t remainder(std::int64_t a, std::int64_t b) {
  if (b == 0) return a;
  return b == -1 ? 0 : a % b;
}

// +0 is above -0.
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

// The cotangent of the operand `mine` of max or min: all of g where it alone was taken, half where both are equal,
// none where the other was taken or either is NaN.
Tensor of_chosen(Tensor is_chosen, Tensor mine, Tensor other, Tensor g) {
  return select(is_chosen, g, select(equal(mine, other), g * 0.5, 0));
}

// (cotangent with respect to y, and to x) / g of atan2(y, x): x / (x^2 + y^2) and -y / (x^2 + y^2), where dividing by
// the larger magnitude first keeps the squares from overflowing.
struct Atan2Slopes {
  Tensor y, x;
};
Atan2Slopes atan2_slopes(Tensor y, Tensor x) {
  double largest = std::numeric_limits<double>::max();
  if (x.dtype() == f32) largest = std::numeric_limits<float>::max();
  if (x.dtype() == bf16) largest = 0x1.fep127;
  if (x.dtype() == f16) largest = 65504;
  const Tensor scale = minimum(maximum(abs(x), abs(y)), largest);
  const Tensor u = x / scale;
  const Tensor v = y / scale;
  const Tensor norm = (square(u) + square(v)) * scale;
  return {u / norm, -(v / norm)};
}

}  // namespace

void register_binary(OpTable& table) {
  table.add(define({
      .name = "add",
      .doc = "a + b. Integers wrap.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return a + b; },
      .integer = [](std::int64_t a,
                    std::int64_t b) { return wrapping(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b)); },
      .lower = primitive(BinaryOp::add),
      .gradient_a = [](const BinaryCotangent& at) { return at.g; },
      .gradient_b = [](const BinaryCotangent& at) { return at.g; },
  }));
  table.add(define({
      .name = "sub",
      .doc = "a - b. Integers wrap.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return a - b; },
      .integer = [](std::int64_t a,
                    std::int64_t b) { return wrapping(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b)); },
      .lower = primitive(BinaryOp::sub),
      .gradient_a = [](const BinaryCotangent& at) { return at.g; },
      .gradient_b = [](const BinaryCotangent& at) { return -at.g; },
  }));
  table.add(define({
      .name = "mul",
      .doc = "a * b. Integers wrap.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return a * b; },
      .integer = [](std::int64_t a,
                    std::int64_t b) { return wrapping(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b)); },
      .lower = primitive(BinaryOp::mul),
      .gradient_a = [](const BinaryCotangent& at) { return at.g * at.b; },
      .gradient_b = [](const BinaryCotangent& at) { return at.g * at.a; },
  }));
  table.add(define({
      .name = "div",
      .doc = "a / b. Integers round towards zero; a / 0 is -1, and the smallest integer over -1 is itself.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return a / b; },
      .integer = divide,
      .lower = primitive(BinaryOp::div),
      .gradient_a = [](const BinaryCotangent& at) { return at.g / at.b; },
      .gradient_b = [](const BinaryCotangent& at) { return -(at.g / at.b * at.y); },
      .ranges = {{{-2, 2}, {0.5, 2}}, {{-2, 2}, {-2, -0.5}}},
  }));
  table.add(define({
      .name = "rem",
      .doc = "Remainder of a / b with the sign of a, exact. Of integers, a rem 0 is a.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return std::fmod(a, b); },
      .integer = remainder,
      .lower = primitive(BinaryOp::rem),
      .gradient_a = [](const BinaryCotangent& at) { return at.g; },
      .gradient_b = [](const BinaryCotangent& at) { return -(at.g * trunc(at.a / at.b)); },
      .ranges = {{{4.2, 4.8}, {1.7, 2}}, {{-4.8, -4.2}, {1.7, 2}}},
  }));
  table.add(define({
      .name = "pow",
      .doc = "a to the power b. The gradients are JAX's: with respect to b it is 0 where a is 0 and the power finite.",
      .real = [](double a, double b) { return std::pow(a, b); },
      .lower = primitive(BinaryOp::pow),
      .gradient_a = [](const BinaryCotangent& at) { return at.g * (at.b * pow(at.a, at.b - 1)); },
      .gradient_b = [](const BinaryCotangent& at) { return at.g * (log(select(equal(at.a, 0), 1, at.a)) * at.y); },
      .ranges = {{{0.4, 2}, {-2, 2}}},
      .compute_in = ComputeIn::full,
  }));
  table.add(define({
      .name = "atan2",
      .doc = "Angle of the point (x = b, y = a) in [-pi, pi].",
      .real = [](double a, double b) { return std::atan2(a, b); },
      .lower = primitive(BinaryOp::atan2),
      .gradient_a = [](const BinaryCotangent& at) { return at.g * atan2_slopes(at.a, at.b).y; },
      .gradient_b = [](const BinaryCotangent& at) { return at.g * atan2_slopes(at.a, at.b).x; },
      .ranges = {{{0.3, 2}, {-2, 2}}, {{-2, 2}, {0.3, 2}}},
  }));
  table.add(define({
      .name = "maximum",
      .doc = "The larger of a and b; NaN where either is. Equal operands have half of the gradient each.",
      .takes = Takes::numbers,
      .real = larger,
      .integer = [](std::int64_t a, std::int64_t b) { return a > b ? a : b; },
      .lower = primitive(BinaryOp::max),
      .gradient_a = [](const BinaryCotangent& at) { return of_chosen(greater(at.a, at.b), at.a, at.b, at.g); },
      .gradient_b = [](const BinaryCotangent& at) { return of_chosen(less(at.a, at.b), at.a, at.b, at.g); },
  }));
  table.add(define({
      .name = "minimum",
      .doc = "The smaller of a and b; NaN where either is. Equal operands have half of the gradient each.",
      .takes = Takes::numbers,
      .real = [](double a, double b) { return -larger(-a, -b); },
      .integer = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; },
      .lower = primitive(BinaryOp::min),
      .gradient_a = [](const BinaryCotangent& at) { return of_chosen(less(at.a, at.b), at.a, at.b, at.g); },
      .gradient_b = [](const BinaryCotangent& at) { return of_chosen(greater(at.a, at.b), at.a, at.b, at.g); },
  }));
}

}  // namespace wholestep
