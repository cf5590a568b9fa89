#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "expr/affine.h"
#include "expr/scalar.h"
#include "wholestep/types.h"

namespace wholestep::loops {

using ExprId = std::int32_t;
inline constexpr ExprId kNoExpr = -1;

enum class ExprKind : std::uint8_t {
  constant,  // `real` (floats) or `integer` (others)
  index,     // the value of `index`, as i64
  in_range,  // boolean: all `guards` hold
  load,      // buffer[index]; zero where a guard fails (the memory is then not touched)
  gather,    // buffer[index + clamp(operand 0, 0, limit - 1) * scale]; guards as in load
  unary,     // operand 0
  binary,    // operands 0, 1, of one dtype
  fma,       // operand 0 * operand 1 + operand 2, rounded once where the target has it, else twice
  select,    // operand 0 ? operand 1 : operand 2
  cast,      // operand 0 converted to dtype: float->int saturates and NaN is 0; to bf16/f16 rounds to nearest even; to
             // boolean is != 0
  bitcast,   // f32 <-> i32, f64 <-> i64
  stage_result,  // kernel level: the reduction of stage `slot` at this parallel point
  accumulator,   // nest level: register `slot` of accumulator array `buffer`, slot given by `index`
  horizontal,    // nest level: the lanes of a vector accumulator (same fields), combined by `reduce` in a fixed tree:
                 // halves, quarters, ...
  pair,          // nest level: operands 0 and 1 of bf16 as one i32, operand 0 in the high half
  dot_pairs,     // nest level: operand 2 + the high halves of 0 and 1 multiplied, + the low halves multiplied, as two
                 // fma of f32
};

/// A node of an expression DAG. bf16 and f16 occur in load, gather, cast and store only: arithmetic on them is done in
/// f32 and cast back after each op, so that fusing changes no bits.
struct Expr {
  ExprKind kind = ExprKind::constant;
  DType dtype = DType::f32;
  UnaryOp unary = UnaryOp::neg;
  BinaryOp binary = BinaryOp::add;
  ReduceOp reduce = ReduceOp::sum;
  std::array<ExprId, 3> operands{kNoExpr, kNoExpr, kNoExpr};
  std::int32_t buffer =
      -1;  // load, gather: entry of the kernel's buffer list; accumulator, horizontal: accumulator array
  std::int32_t slot = -1;    // stage_result: the stage
  std::int64_t scale = 0;    // gather
  std::int64_t limit = 0;    // gather
  std::int64_t integer = 0;  // constant
  double real = 0;           // constant
  Affine index;
  std::vector<Guard> guards;
  /// Field by field, `real` by its bits: 0 differs from -0, and NaN equals itself.
  bool operator==(const Expr& other) const;
};

/// Appends expressions to a list, giving equal ones the same id, and folding what is trivially constant.
class ExprBuilder {
 public:
  explicit ExprBuilder(std::vector<Expr>& exprs) : exprs_(exprs) {}
  const Expr& operator[](ExprId id) const { return exprs_[static_cast<std::size_t>(id)]; }

  ExprId add(Expr expr);
  ExprId constant(double value, DType dtype);
  ExprId index(Affine value);
  ExprId in_range(std::vector<Guard> guards);
  ExprId load(int buffer, DType dtype, Affine index, std::vector<Guard> guards);
  ExprId gather(int buffer, DType dtype, Affine index, ExprId row, std::int64_t scale, std::int64_t limit,
                std::vector<Guard> guards);
  /// bf16 and f16 operands go through f32 and back.
  ExprId unary(UnaryOp op, ExprId x);
  ExprId binary(BinaryOp op, ExprId a, ExprId b);
  ExprId fma(ExprId a, ExprId b, ExprId c);
  ExprId pair(ExprId high, ExprId low);
  ExprId dot_pairs(ExprId a, ExprId b, ExprId c);
  ExprId select(ExprId condition, ExprId a, ExprId b);
  ExprId cast(ExprId x, DType dtype);
  ExprId bitcast(ExprId x, DType dtype);
  ExprId stage_result(int stage, DType dtype);

 private:
  std::vector<Expr>& exprs_;
  std::unordered_multimap<std::size_t, ExprId> seen_;
};

}  // namespace wholestep::loops
