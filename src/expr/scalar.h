#pragma once
// The scalar operations that expressions are made of: what every renderer must be able to say, and nothing else.
#include <cstdint>
#include <string_view>

namespace wholestep::loops {

enum class UnaryOp : std::uint8_t {
  neg,
  abs,
  sign,
  ceil,
  floor,
  round,
  trunc,  // round: half to even; sign(NaN) is NaN
  sqrt,
  exp,
  expm1,
  log,
  log1p,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  is_nan,       // float -> boolean
  logical_not,  // boolean
  bit_not,      // integer
};

enum class BinaryOp : std::uint8_t {
  add,
  sub,
  mul,
  div,
  rem,  // integers wrap; x/0 = -1, x%0 = x, min/-1 = min, min%-1 = 0; rem has the sign of x
  pow,
  atan2,  // floats
  max,
  min,  // floats: NaN if either is NaN
  eq,
  ne,
  lt,
  le,
  gt,
  ge,  // -> boolean; any comparison with NaN is false but ne
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,  // integers; shift_right is arithmetic but for u8; counts outside [0, bits) give 0 (or the sign)
};

/// How values combine in a reduction. Float max and min propagate NaN.
enum class ReduceOp : std::uint8_t { sum, prod, max, min, logical_and, logical_or };

std::string_view to_string(UnaryOp op);
std::string_view to_string(BinaryOp op);
std::string_view to_string(ReduceOp op);
/// True for eq ... ge: the result is boolean whatever the operands are.
bool is_comparison(BinaryOp op);
/// True where every processor has an instruction for `op`, or two or three: it costs about as much as an addition.
bool is_one_instruction(UnaryOp op);
/// The operation that combines two partial results of `op`.
BinaryOp combiner(ReduceOp op);

}  // namespace wholestep::loops
