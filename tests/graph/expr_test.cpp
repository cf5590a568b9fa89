#include "expr/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "expect_error.h"

namespace wholestep::loops {
namespace {

struct Builder : ::testing::Test {
  std::vector<Expr> exprs;
  ExprBuilder b{exprs};
  ExprId load(DType dtype, int buffer = 0) { return b.load(buffer, dtype, Affine::of(0), {}); }
  const Expr& at(ExprId id) { return exprs[static_cast<std::size_t>(id)]; }
  bool is_real(ExprId id, double value) {
    return at(id).kind == ExprKind::constant && at(id).real == value &&
           std::signbit(at(id).real) == std::signbit(value);
  }
  bool is_integer(ExprId id, std::int64_t value) {
    return at(id).kind == ExprKind::constant && at(id).integer == value && !is_float(at(id).dtype);
  }
};
using Exprs = Builder;

TEST_F(Exprs, EqualOnesAreOne) {
  const ExprId x = load(f32);
  EXPECT_EQ(load(f32), x);
  EXPECT_EQ(b.binary(BinaryOp::add, x, x), b.binary(BinaryOp::add, x, x));
  EXPECT_NE(b.binary(BinaryOp::add, x, x), b.binary(BinaryOp::mul, x, x));
  EXPECT_NE(load(f32, 1), x);
  EXPECT_NE(b.load(0, f32, Affine::of(1), {}), x);
  EXPECT_EQ(b.constant(NAN, f32), b.constant(NAN, f32));
}

TEST_F(Exprs, ZeroAndMinusZeroAreTwoConstants) {
  EXPECT_NE(b.constant(0.0, f32), b.constant(-0.0, f32));
  EXPECT_NE(b.constant(0.0, f32), b.constant(0.0, f64));
}

TEST_F(Exprs, FoldsWhatEveryMachineRoundsTheSame) {
  const auto c = [&](double value, DType dtype) { return b.constant(value, dtype); };
  EXPECT_TRUE(is_real(b.binary(BinaryOp::add, c(0.1, f32), c(0.2, f32)), 0.1f + 0.2f));
  EXPECT_TRUE(is_real(b.binary(BinaryOp::add, c(0.1, f64), c(0.2, f64)), 0.1 + 0.2));
  EXPECT_TRUE(is_real(b.binary(BinaryOp::div, c(1, f32), c(3, f32)), 1.0f / 3.0f));
  EXPECT_TRUE(is_real(b.binary(BinaryOp::add, c(-0.0, f32), c(-0.0, f32)), -0.0));
  EXPECT_TRUE(is_real(b.unary(UnaryOp::sqrt, c(2, f32)), std::sqrt(2.0f)));
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::add, c(2147483647, i32), c(1, i32)), -2147483648LL));
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::mul, c(16, u8), c(17, u8)), 16));
  EXPECT_TRUE(is_integer(b.unary(UnaryOp::neg, c(1, u8)), 255));
  EXPECT_TRUE(is_integer(b.unary(UnaryOp::bit_not, c(0, u8)), 255));
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::lt, c(NAN, f32), c(1, f32)), 0));
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::ne, c(NAN, f32), c(1, f32)), 1));
  EXPECT_TRUE(is_integer(b.unary(UnaryOp::is_nan, c(NAN, f32)), 1));
  EXPECT_TRUE(is_integer(b.cast(c(3.9, f32), i32), 3));
  EXPECT_TRUE(is_integer(b.cast(c(1e20, f32), i32), 2147483647));
  EXPECT_TRUE(is_real(b.cast(c(16777217, i32), f32), 16777216));
}

TEST_F(Exprs, LeavesToTheTargetWhatTargetsRoundTheirOwnWay) {
  const ExprId one = b.constant(1, f32), zero = b.constant(0, f32);
  EXPECT_EQ(at(b.unary(UnaryOp::exp, one)).kind, ExprKind::unary);
  EXPECT_EQ(at(b.fma(one, one, one)).kind, ExprKind::fma);
  EXPECT_EQ(at(b.binary(BinaryOp::div, zero, zero)).kind, ExprKind::binary) << "the bits of a new NaN";
  const ExprId x = load(f32);
  EXPECT_EQ(at(b.binary(BinaryOp::add, x, zero)).kind, ExprKind::binary) << "-0 + 0 is 0";
}

TEST_F(Exprs, HalfPrecisionIsComputedInSingleAndRoundedAfterEachOp) {
  const ExprId x = load(bf16), y = load(bf16, 1);
  const ExprId sum = b.binary(BinaryOp::add, x, y);
  ASSERT_EQ(at(sum).kind, ExprKind::cast);
  EXPECT_EQ(at(sum).dtype, bf16);
  const Expr wide = at(at(sum).operands[0]);
  EXPECT_EQ(wide.kind, ExprKind::binary);
  EXPECT_EQ(wide.dtype, f32);
  EXPECT_EQ(at(wide.operands[0]).kind, ExprKind::cast);
  EXPECT_EQ(at(wide.operands[0]).operands[0], x);
  EXPECT_EQ(at(b.binary(BinaryOp::lt, x, y)).dtype, boolean);
  EXPECT_EQ(at(b.unary(UnaryOp::is_nan, x)).dtype, boolean);
  b.fma(x, y, x);
  b.select(b.binary(BinaryOp::lt, x, y), x, y);
  b.unary(UnaryOp::exp, b.constant(0.1, f16));
  for (const Expr& e : exprs)
    if (e.dtype == bf16 || e.dtype == f16) {
      EXPECT_TRUE(e.kind == ExprKind::load || e.kind == ExprKind::cast);
    }
}

TEST_F(Exprs, AHalfConstantIsRoundedOnceAndSeenThrough) {
  const ExprId tenth = b.constant(0.1, bf16);
  EXPECT_EQ(at(tenth).dtype, bf16);
  EXPECT_TRUE(is_real(b.cast(tenth, f32), 0.10009765625));
  EXPECT_EQ(b.binary(BinaryOp::add, b.constant(1, f16), b.constant(2, f16)), b.constant(3, f16));
}

TEST_F(Exprs, ACastThereAndBackIsNothingOnlyWhereTheMiddleIsWider) {
  const ExprId x = load(bf16), y = load(f32), i = load(i32);
  EXPECT_EQ(b.cast(b.cast(x, f32), bf16), x);
  EXPECT_NE(b.cast(b.cast(y, bf16), f32), y);
  EXPECT_NE(b.cast(b.cast(i, f32), i32), i);
  EXPECT_EQ(b.cast(b.cast(i, i64), i32), i);
  EXPECT_EQ(b.cast(y, f32), y);
}

TEST_F(Exprs, IndexArithmeticStaysAffine) {
  const ExprId i = b.index(Affine::of(0)), j = b.index(Affine::of(1));
  const ExprId sum = b.binary(BinaryOp::add, b.binary(BinaryOp::mul, i, b.constant(8, i64)), j);
  EXPECT_EQ(at(sum).kind, ExprKind::index);
  EXPECT_EQ(at(sum).index, Affine::of(0, 8) + Affine::of(1));
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::sub, i, i), 0));
  EXPECT_EQ(at(b.binary(BinaryOp::mul, i, j)).kind, ExprKind::binary);
}

TEST_F(Exprs, GuardsThatAreKnownDisappear) {
  EXPECT_TRUE(is_integer(b.in_range({{Affine(3), 0, 4}}), 1));
  EXPECT_TRUE(is_integer(b.in_range({{Affine(4), 0, 4}, {Affine::of(0), 0, 4}}), 0));
  const ExprId guarded =
      b.load(0, f32, Affine::of(0), {{Affine(0), 0, 1}, {Affine::of(0), 2, 5}, {Affine::of(0), 2, 5}});
  EXPECT_EQ(at(guarded).guards.size(), 1u);
  EXPECT_TRUE(is_real(b.load(0, f32, Affine::of(0), {{Affine(-1), 0, 1}}), 0));
}

TEST_F(Exprs, AChoiceThatIsKnownIsMade) {
  const ExprId x = load(f32), y = load(f32, 1), condition = load(boolean, 2);
  EXPECT_EQ(b.select(b.constant(1, boolean), x, y), x);
  EXPECT_EQ(b.select(b.constant(0, boolean), x, y), y);
  EXPECT_EQ(b.select(condition, x, x), x);
  EXPECT_EQ(b.binary(BinaryOp::logical_and, condition, b.constant(1, boolean)), condition);
  EXPECT_TRUE(is_integer(b.binary(BinaryOp::logical_and, condition, b.constant(0, boolean)), 0));
  EXPECT_EQ(b.binary(BinaryOp::logical_or, b.constant(0, boolean), condition), condition);
}

TEST_F(Exprs, MixedDTypesAreADefect) {
  expect_error(ErrorCode::internal, {"add", "f32", "f64"}, [&] { b.binary(BinaryOp::add, load(f32), load(f64)); });
  expect_error(ErrorCode::internal, {"bitcast"}, [&] { b.bitcast(load(f32), f64); });
  expect_error(ErrorCode::internal, {"select"}, [&] { b.select(load(f32), load(f32), load(f32)); });
}

TEST(Affine, AddsScalesAndSubstitutes) {
  const Affine a = Affine::of(0, 128) + Affine::of(2) + Affine(7);
  EXPECT_EQ(to_string(a), "128*v0 + v2 + 7");
  EXPECT_EQ(to_string(a * -1), "-128*v0 - v2 - 7");
  EXPECT_EQ(to_string(Affine(-3)), "-3");
  EXPECT_EQ(a - a, Affine());
  EXPECT_EQ(a * 0, Affine());
  EXPECT_EQ(a.coefficient(2), 1);
  EXPECT_EQ(a.coefficient(1), 0);
  const Affine split = Affine::of(5, 16) + Affine::of(6);
  EXPECT_EQ(a.substitute([&](Var var) { return var == 0 ? &split : nullptr; }),
            Affine::of(2) + Affine::of(5, 2048) + Affine::of(6, 128) + Affine(7));
}

TEST(Affine, FlattensRowMajor) {
  EXPECT_EQ(flatten({Affine::of(0), Affine::of(1), Affine(3)}, {2, 5, 7}), Affine::of(0, 35) + Affine::of(1, 7) + 3);
  EXPECT_EQ(flatten({}, {}), Affine());
}

}  // namespace
}  // namespace wholestep::loops
