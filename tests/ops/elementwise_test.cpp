// What element-wise ops mean at the edges, and what their builders accept.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "support/values.h"

namespace wholestep {
namespace {

using testing::value_of;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// The result of `f` of vectors of `dtype`, rounded and wrapped as the dtypes are.
HostValue run(DType dtype, const std::vector<std::vector<double>>& operands, const Function& f) {
  Graph g;
  testing::Values values;
  std::vector<Tensor> tensors;
  for (const std::vector<double>& numbers : operands) {
    const TensorType type{dtype, {static_cast<std::int64_t>(numbers.size())}};
    const std::string name = "x" + std::to_string(tensors.size());
    tensors.push_back(g.input(name, type.shape, dtype));
    values.emplace(name, value_of(type, numbers));
  }
  g.set_outputs({f(tensors)});
  return testing::evaluate(g, values, false).at(0);
}

std::vector<std::int64_t> integers(DType dtype, const std::vector<std::vector<double>>& operands, const Function& f) {
  return run(dtype, operands, f).integer;
}

std::vector<double> reals(DType dtype, const std::vector<std::vector<double>>& operands, const Function& f) {
  return run(dtype, operands, f).real;
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

using Integers = std::vector<std::int64_t>;
constexpr double kMin32 = std::numeric_limits<std::int32_t>::min();
constexpr double kMax32 = std::numeric_limits<std::int32_t>::max();

TEST(IntegerOps, Wrap) {
  EXPECT_EQ(integers(i32, {{kMax32, kMin32}, {1, -1}}, [](auto& x) { return x[0] + x[1]; }),
            (Integers{std::int64_t(kMin32), std::int64_t(kMax32)}));
  EXPECT_EQ(integers(u8, {{3, 200}, {5, 100}}, [](auto& x) { return x[0] - x[1]; }), (Integers{254, 100}));
  EXPECT_EQ(integers(i32, {{65536, 46341}, {65536, 46341}}, [](auto& x) { return x[0] * x[1]; }),
            (Integers{0, -2147479015}));
  EXPECT_EQ(integers(i32, {{kMin32, 5}}, [](auto& x) { return -x[0]; }), (Integers{std::int64_t(kMin32), -5}));
  EXPECT_EQ(integers(i32, {{kMin32, -5}}, [](auto& x) { return abs(x[0]); }), (Integers{std::int64_t(kMin32), 5}));
  EXPECT_EQ(integers(u8, {{1, 0}}, [](auto& x) { return -x[0]; }), (Integers{255, 0}));
  EXPECT_EQ(integers(u8, {{20, 15}}, [](auto& x) { return square(x[0]); }), (Integers{144, 225}));
}

TEST(IntegerOps, DivideTowardsZeroAndByZeroWithoutTrapping) {
  const std::vector<std::vector<double>> cases = {{7, -7, 7, -7, 9, kMin32}, {2, 2, -2, -2, 0, -1}};
  EXPECT_EQ(integers(i32, cases, [](auto& x) { return x[0] / x[1]; }),
            (Integers{3, -3, -3, 3, -1, std::int64_t(kMin32)}));
  EXPECT_EQ(integers(i32, cases, [](auto& x) { return rem(x[0], x[1]); }), (Integers{1, -1, 1, -1, 9, 0}));
  EXPECT_EQ(integers(u8, {{9}, {0}}, [](auto& x) { return x[0] / x[1]; }), (Integers{255}));
  EXPECT_EQ(integers(i64, {{-0x1p63}, {-1}}, [](auto& x) { return x[0] / x[1]; }),
            (Integers{std::numeric_limits<std::int64_t>::min()}));
}

TEST(IntegerOps, ShiftsByCountsOutsideTheWordGiveZeroOrTheSign) {
  EXPECT_EQ(integers(i32, {{1, 1, 1, 1, 3}, {0, 31, 32, -1, 31}}, [](auto& x) { return shift_left(x[0], x[1]); }),
            (Integers{1, std::int64_t(kMin32), 0, 0, std::int64_t(kMin32)}));
  EXPECT_EQ(integers(i32, {{-8, -8, 8, -8, 8}, {1, 40, 40, -1, -1}}, [](auto& x) { return shift_right(x[0], x[1]); }),
            (Integers{-4, -1, 0, -1, 0}));
  EXPECT_EQ(integers(u8, {{255, 255, 1}, {4, 8, 7}}, [](auto& x) { return shift_right(x[0], x[1]); }),
            (Integers{15, 0, 0}));
  EXPECT_EQ(integers(u8, {{255, 1}, {4, 8}}, [](auto& x) { return shift_left(x[0], x[1]); }), (Integers{240, 0}));
}

TEST(IntegerOps, BitsAreThoseOfTwosComplement) {
  EXPECT_EQ(integers(i32, {{12, -1}, {10, 7}}, [](auto& x) { return bit_and(x[0], x[1]); }), (Integers{8, 7}));
  EXPECT_EQ(integers(i32, {{12, -8}, {10, 7}}, [](auto& x) { return bit_or(x[0], x[1]); }), (Integers{14, -1}));
  EXPECT_EQ(integers(i32, {{12, -1}, {10, 7}}, [](auto& x) { return bit_xor(x[0], x[1]); }), (Integers{6, -8}));
  EXPECT_EQ(integers(i32, {{0, 5}}, [](auto& x) { return bit_not(x[0]); }), (Integers{-1, -6}));
  EXPECT_EQ(integers(u8, {{0, 5}}, [](auto& x) { return bit_not(x[0]); }), (Integers{255, 250}));
}

TEST(Rounding, IsHalfToEven) {
  EXPECT_EQ(reals(f32, {{0.5, 1.5, 2.5, -0.5, -1.5, 2.4}}, [](auto& x) { return round(x[0]); }),
            (std::vector<double>{0, 2, 2, -0.0, -2, 2}));
}

TEST(Comparisons, WithNaNAreFalseButNotEqual) {
  const std::vector<std::vector<double>> cases = {{kNaN, 1, kNaN, 1}, {1, kNaN, kNaN, 1}};
  EXPECT_EQ(integers(f32, cases, [](auto& x) { return equal(x[0], x[1]); }), (Integers{0, 0, 0, 1}));
  EXPECT_EQ(integers(f32, cases, [](auto& x) { return not_equal(x[0], x[1]); }), (Integers{1, 1, 1, 0}));
  EXPECT_EQ(integers(f32, cases, [](auto& x) { return less_equal(x[0], x[1]); }), (Integers{0, 0, 0, 1}));
  EXPECT_EQ(integers(f32, cases, [](auto& x) { return greater_equal(x[0], x[1]); }), (Integers{0, 0, 0, 1}));
  EXPECT_EQ(integers(f32, cases, [](auto& x) { return less(x[0], x[1]); }), (Integers{0, 0, 0, 0}));
  EXPECT_EQ(integers(f32, {{kNaN, 0}}, [](auto& x) { return is_nan(x[0]); }), (Integers{1, 0}));
}

TEST(Extremes, PropagateNaNAndOrderZeros) {
  const std::vector<std::vector<double>> cases = {{kNaN, 1, -0.0, 0.0}, {1, kNaN, 0.0, -0.0}};
  const std::vector<double> high = reals(f32, cases, [](auto& x) { return maximum(x[0], x[1]); });
  const std::vector<double> low = reals(f32, cases, [](auto& x) { return minimum(x[0], x[1]); });
  for (std::size_t i : {0, 1}) EXPECT_TRUE(std::isnan(high[i]) && std::isnan(low[i]));
  for (std::size_t i : {2, 3}) {
    EXPECT_FALSE(std::signbit(high[i]));
    EXPECT_TRUE(std::signbit(low[i]));
  }
}

TEST(Cast, FromFloatSaturatesAndNaNIsZero) {
  const std::vector<std::vector<double>> x = {{-1.9, 1.9, 300, -300, 1e20, -1e20, kNaN, kInf}};
  EXPECT_EQ(integers(f64, x, [](auto& x) { return cast(x[0], u8); }), (Integers{0, 1, 255, 0, 255, 0, 0, 255}));
  EXPECT_EQ(integers(f64, x, [](auto& x) { return cast(x[0], i32); }),
            (Integers{-1, 1, 300, -300, 2147483647, -2147483648LL, 0, 2147483647}));
  EXPECT_EQ(integers(f64, x, [](auto& x) { return cast(x[0], i64); }),
            (Integers{-1, 1, 300, -300, std::numeric_limits<std::int64_t>::max(),
                      std::numeric_limits<std::int64_t>::min(), 0, std::numeric_limits<std::int64_t>::max()}));
  EXPECT_EQ(integers(f64, {{0, -0.0, 0.1, kNaN}}, [](auto& x) { return cast(x[0], boolean); }), (Integers{0, 0, 1, 1}));
}

TEST(Cast, BetweenIntegersWrapsAndToNarrowFloatsRoundsToEven) {
  EXPECT_EQ(integers(i32, {{256, -1, 511}}, [](auto& x) { return cast(x[0], u8); }), (Integers{0, 255, 255}));
  EXPECT_EQ(integers(i32, {{256, 0, -1}}, [](auto& x) { return cast(x[0], boolean); }), (Integers{1, 0, 1}));
  EXPECT_EQ(reals(f64, {{1 + 0x1p-8, 1 + 3 * 0x1p-8, 1e39}}, [](auto& x) { return cast(x[0], bf16); }),
            (std::vector<double>{1, 1 + 0x1p-6, kInf}));
  EXPECT_EQ(reals(f32, {{2049, 2051, 70000, 0x1p-24}}, [](auto& x) { return cast(x[0], f16); }),
            (std::vector<double>{2048, 2052, kInf, 0x1p-24}));
}

TEST(Cast, ToTheSameDtypeIsTheTensorItself) {
  Graph g;
  const Tensor x = g.input("x", {2});
  EXPECT_EQ(cast(x, f32).id(), x.id());
}

/// Derivative of op at x in f32 arithmetic, every node rounded.
double derivative(const char* op, double at, DType dtype = f32) {
  return reals(dtype, {{at}}, [&](auto& x) {
    Graph& g = x[0].graph();
    return append_gradients(g, g.apply(op, {x[0]}), g.full({1}, 1, dtype), {x[0]})[0];
  })[0];
}

void expect_relative(double actual, double expected, double tolerance) {
  EXPECT_NEAR(actual / expected, 1, tolerance) << actual << " for " << expected;
}

TEST(Tails, OfActivationsNeitherOverflowNorCancel) {
  const auto value = [](const char* op, double at) {
    return reals(f32, {{at}}, [&](auto& x) { return x[0].graph().apply(op, {x[0]}); })[0];
  };
  expect_relative(value("sigmoid", -80), std::exp(-80.0), 1e-6);
  EXPECT_EQ(value("sigmoid", 1000), 1);
  EXPECT_EQ(value("sigmoid", -1000), 0);
  expect_relative(value("log_sigmoid", 20), -std::exp(-20.0), 1e-6);
  EXPECT_EQ(value("log_sigmoid", -1000), -1000);
  expect_relative(value("softplus", -20), std::exp(-20.0), 1e-6);
  EXPECT_EQ(value("softplus", 1000), 1000);
  EXPECT_EQ(value("softplus", -1000), 0);
  expect_relative(value("silu", -80), -80 * std::exp(-80.0), 1e-6);
  expect_relative(value("gelu", -10), -5 * std::erfc(10 / std::sqrt(2.0)), 1e-6);
  EXPECT_LT(value("gelu_tanh", -6), 0);
  EXPECT_EQ(value("gelu_tanh", -1e30), 0);
  EXPECT_EQ(value("gelu_tanh", 1e30), float(1e30));
}

TEST(Tails, OfDerivativesNeitherOverflowNorCancel) {
  expect_relative(derivative("sigmoid", 20), std::exp(-20.0), 1e-5);
  expect_relative(derivative("tanh", 12), 4 * std::exp(-24.0), 1e-5);
  EXPECT_EQ(derivative("tanh", 500), 0);
  expect_relative(derivative("expm1", -20), std::exp(-20.0), 1e-6);
  expect_relative(derivative("log_sigmoid", 20), std::exp(-20.0), 1e-6);
  expect_relative(derivative("softplus", -20), std::exp(-20.0), 1e-6);
  EXPECT_EQ(derivative("softplus", 1000), 1);
  expect_relative(derivative("asinh", 1e30), 1e-30, 1e-6);
  expect_relative(derivative("asinh", 3000, f16), 1 / 3000.0, 1e-3);
  expect_relative(derivative("acosh", 1e30), 1e-30, 1e-6);
  expect_relative(derivative("asin", 1 - 0x1p-24), 1 / std::sqrt(0x1p-23), 1e-3);
  expect_relative(derivative("softsign", 1000, f16), 1e-6, 5e-2);
  expect_relative(derivative("reciprocal", 0x1p-60), -0x1p120, 1e-6);
  EXPECT_EQ(derivative("gelu", 1e30), 1);
  EXPECT_EQ(derivative("gelu", -1e30), 0);
  EXPECT_EQ(derivative("gelu_tanh", 1e30), 1);
  EXPECT_EQ(derivative("gelu_tanh", -1e30), 0);
  EXPECT_EQ(derivative("gelu_tanh", -300, f16), 0);
  EXPECT_EQ(derivative("silu", -1000), 0);
}

TEST(Tails, OfAtan2DerivativesDoNotOverflow) {
  const std::vector<double> slopes = reals(f32, {{1e30}, {1e30}}, [](auto& x) {
    Graph& g = x[0].graph();
    return append_gradients(g, atan2(x[0], x[1]), g.full({1}, 1, f32), {x[0]})[0];
  });
  expect_relative(slopes[0], 0.5e-30, 1e-6);
}

TEST(Kinks, AreJaxs) {
  EXPECT_EQ(derivative("relu", 0), 0);
  EXPECT_EQ(derivative("relu", kNaN), 0);
  EXPECT_EQ(derivative("abs", 0), 1);
  EXPECT_EQ(derivative("sqrt", 0), kInf);
  EXPECT_EQ(derivative("sign", 0.5), 0);
  for (const char* op : {"maximum", "minimum"}) {
    const auto halves = reals(f32, {{2, 3}, {2, 4}}, [&](auto& x) {
      Graph& g = x[0].graph();
      return append_gradients(g, g.apply(op, {x[0], x[1]}), g.full({2}, 1, f32), {x[0]})[0];
    });
    EXPECT_EQ(halves[0], 0.5) << op;
  }
}

TEST(Builders, BroadcastLikeNumpy) {
  Graph g;
  const Tensor a = g.input("a", {4, 1, 3});
  const Tensor b = g.input("b", {2, 1});
  EXPECT_EQ((a + b).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(g.nodes_of("broadcast").size(), 2U);
  EXPECT_EQ((a * a).shape(), (Shape{4, 1, 3}));
  EXPECT_EQ(g.nodes_of("broadcast").size(), 2U);
  EXPECT_EQ((g.input("c", {0, 3}) + g.input("d", {1, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(select(g.input("p", {2, 1}, boolean), g.input("q", {3}), 0).shape(), (Shape{2, 3}));
}

TEST(Builders, TakeNumbersOnEitherSide) {
  EXPECT_EQ(reals(f32, {{4}}, [](auto& x) { return 1 - x[0] / 2 + 3 * x[0]; }), (std::vector<double>{11}));
  EXPECT_EQ(reals(f32, {{4}}, [](auto& x) { return pow(2, x[0]) - maximum(x[0], 10) + minimum(1, x[0]); }),
            (std::vector<double>{7}));
  EXPECT_EQ(integers(i32, {{4}}, [](auto& x) { return less(x[0], 5); }), (Integers{1}));
  EXPECT_EQ(run(f16, {{4}}, [](auto& x) { return x[0] + 1; }).type.dtype, f16);
}

TEST(Builders, RefuseWhatCannotBeCombined) {
  Graph g, other;
  const Tensor a = g.input("a", {2, 3});
  const Tensor b = g.input("b", {4});
  const Tensor n = g.input("n", {2, 3}, i32);
  const Tensor foreign = other.input("a", {2, 3});
  EXPECT_EQ(code_of([&] { a + b; }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { a + n; }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { a + foreign; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { a + Tensor(); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { sqrt(Tensor()); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { Tensor() * 2; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { sqrt(n); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { n + 0.5; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { logical_not(a); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { bit_and(a, a); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { select(a, a, a); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { select(less(a, 0), a, n); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { g.apply("add", {a, g.input("c", {3, 2})}); }), ErrorCode::shape_mismatch);
}

TEST(Builders, ErrorsNameTheOpAndBothOperands) {
  Graph g;
  try {
    g.input("a", {2, 3}) * g.input("b", {4});
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const char* part : {"mul", "f32[2, 3]", "f32[4]"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace wholestep
