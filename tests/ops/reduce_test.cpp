#include "ops/evaluate.h"

namespace wholestep {
namespace {

using testing::elements_of;
using testing::evaluate;
using testing::expect_error;
using testing::expect_near;
using testing::gradient;
using testing::Values;

using Doubles = std::vector<double>;
const float kNan = std::nanf("");
const double kInfinity = std::numeric_limits<double>::infinity();

Tensor floats(Graph& graph, const std::vector<float>& values, const Shape& shape) {
  return graph.constant(Array::from(values, shape));
}

TEST(ReduceSum, SumsOverTheAxesGiven) {
  Graph g;
  Tensor x = floats(g, {1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(elements_of(sum(x, {0})), (Doubles{5, 7, 9}));
  EXPECT_EQ(elements_of(sum(x, {-1})), (Doubles{6, 15}));
  EXPECT_EQ(elements_of(sum(x)), (Doubles{21}));
  EXPECT_EQ(sum(x, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(sum(x).shape(), (Shape{}));
  EXPECT_EQ(elements_of(sum(x, {})), (Doubles{1, 2, 3, 4, 5, 6}));
}

TEST(ReduceSum, RefusesAxesThatAreMissingOrGivenTwice) {
  Graph g;
  Tensor x = g.input("x", {2, 3});
  expect_error(ErrorCode::invalid_argument, {"reduce_sum", "axis 2", "[2, 3]"}, [&] { sum(x, {2}); });
  expect_error(ErrorCode::invalid_argument, {"reduce_sum", "twice"}, [&] { sum(x, {1, -1}); });
  expect_error(ErrorCode::dtype_mismatch, {"reduce_sum", "bool"}, [&] { sum(g.input("b", {2}, boolean)); });
}

TEST(ReduceSum, WrapsIntegersToTheirType) {
  Graph g;
  const auto largest = std::numeric_limits<std::int32_t>::max();
  Tensor x = g.constant(Array::from<std::int32_t>({largest, 1}));
  EXPECT_EQ(elements_of(sum(x)), (Doubles{double(std::numeric_limits<std::int32_t>::min())}));
  EXPECT_EQ(elements_of(sum(g.constant(Array::from<std::uint8_t>({200, 100})))), (Doubles{44}));
}

TEST(ReduceSum, OfHalfPrecisionDoesNotStopGrowing) {
  Graph g;
  EXPECT_EQ(elements_of(sum(g.full({1000}, 1, bf16))), (Doubles{1000}));
}

TEST(Reductions, OverNoElementsGiveTheirNeutralValue) {
  Graph g;
  Tensor none = g.input("f", {2, 0}), integers = g.input("i", {0}, i32);
  const Values values{{"f", Array(f32, {2, 0})}, {"i", Array(i32, {0})}};
  EXPECT_EQ(elements_of(sum(none, {1}), values), (Doubles{0, 0}));
  EXPECT_EQ(elements_of(prod(none, {1}), values), (Doubles{1, 1}));
  EXPECT_EQ(elements_of(reduce_max(none, {1}), values), (Doubles{-kInfinity, -kInfinity}));
  EXPECT_EQ(elements_of(reduce_min(none, {1}), values), (Doubles{kInfinity, kInfinity}));
  EXPECT_EQ(elements_of(reduce_max(integers), values), (Doubles{-2147483648.0}));
  EXPECT_EQ(elements_of(reduce_min(integers), values), (Doubles{2147483647.0}));
  expect_near(elements_of(mean(none, {1}), values), {kNan, kNan}, 0);
  EXPECT_EQ(evaluate(sum(none, {0}), values).shape(), (Shape{0}));
}

TEST(ReduceMax, PropagatesNaN) {
  Graph g;
  Tensor x = floats(g, {1, kNan, 3, 4, 5, 6}, {2, 3});
  expect_near(elements_of(reduce_max(x, {1})), {kNan, 6}, 0);
  expect_near(elements_of(reduce_min(x, {1})), {kNan, 4}, 0);
}

TEST(ReduceMax, OfBooleansIsWhetherAnyIsTrue) {
  Graph g;
  Tensor x = g.constant(Array::from<std::uint8_t>({0, 1, 0, 0}, {2, 2}));
  x = cast(x, boolean);
  EXPECT_EQ(elements_of(reduce_max(x, {1})), (Doubles{1, 0}));
  EXPECT_EQ(elements_of(reduce_min(x, {0})), (Doubles{0, 0}));
}

TEST(ReduceMax, GradientIsSplitEquallyBetweenTies) {
  Graph g;
  Tensor x = g.input("x", {2, 4});
  const Values values{{"x", Array::from<float>({1, 3, 3, 0, 2, 2, 2, 2}, {2, 4})}};
  EXPECT_EQ(elements_of(gradient(reduce_max(x, {1}), x), values), (Doubles{0, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(elements_of(gradient(reduce_min(x, {1}), x), values), (Doubles{0, 0, 0, 1, 0.25, 0.25, 0.25, 0.25}));
}

TEST(ReduceProd, GradientIsRightWithZeros) {
  Graph g;
  Tensor x = g.input("x", {4, 3});
  const Values values{{"x", Array::from<float>({2, 3, 4, 0, 3, 4, 0, 3, 0, 0, 0, 0}, {4, 3})}};
  EXPECT_EQ(elements_of(gradient(prod(x, {1}), x), values), (Doubles{12, 8, 6, 12, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ReduceProd, SecondDerivativeIsRightWithAZero) {
  Graph g;
  Tensor x = g.input("x", {3});
  Tensor first = gradient(prod(x), x);                                 // [bc, ac, ab]
  Tensor second = gradient(mul(first, floats(g, {0, 1, 0}, {3})), x);  // of ac: [c, 0, a]
  EXPECT_EQ(elements_of(second, {{"x", Array::from<float>({0, 5, 7})}}), (Doubles{7, 0, 0}));
}

TEST(ReduceProd, GradientCoversOuterAndSeveralAxes) {
  Graph g;
  Tensor x = g.input("x", {2, 3});
  const Values values{{"x", Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})}};
  EXPECT_EQ(elements_of(gradient(prod(x, {0}), x), values), (Doubles{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(elements_of(gradient(prod(x), x), values), (Doubles{720, 360, 240, 180, 144, 120}));
}

TEST(ReduceMean, DividesBySizeOfTheGroup) {
  Graph g;
  Tensor x = g.input("x", {2, 4});
  const Values values{{"x", Array::from<float>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 4})}};
  EXPECT_EQ(elements_of(mean(x, {1}), values), (Doubles{2.5, 6.5}));
  EXPECT_EQ(elements_of(mean(x), values), (Doubles{4.5}));
  EXPECT_EQ(elements_of(gradient(mean(x, {1}), x), values), Doubles(8, 0.25));
  expect_error(ErrorCode::dtype_mismatch, {"reduce_mean", "i32"}, [&] { mean(g.input("i", {2}, i32)); });
}

TEST(ArgMax, TakesTheFirstOfTiesAndTheFirstNaN) {
  Graph g;
  Tensor x = floats(g, {1, 3, 3, 0, 2, kNan, 9, kNan}, {2, 4});
  EXPECT_EQ(elements_of(argmax(x, 1)), (Doubles{1, 1}));
  EXPECT_EQ(elements_of(argmin(x, 1)), (Doubles{3, 1}));
  EXPECT_EQ(argmax(x, -1).dtype(), i64);
  EXPECT_EQ(argmax(x, 0, true).shape(), (Shape{1, 4}));
  EXPECT_EQ(elements_of(argmax(x, 0)), (Doubles{1, 1, 1, 1}));
}

TEST(ArgMax, OfInfinitiesAndExtremeIntegersIsTheirFirst) {
  Graph g;
  const auto inf = static_cast<float>(kInfinity);
  EXPECT_EQ(elements_of(argmax(floats(g, {-inf, -inf}, {2}), 0)), (Doubles{0}));
  const auto lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(elements_of(argmax(g.constant(Array::from<std::int64_t>({lowest, lowest + 1})), 0)), (Doubles{1}));
}

TEST(ArgMax, RefusesAnEmptyAxis) {
  Graph g;
  expect_error(ErrorCode::invalid_argument, {"argmax", "axis 1", "empty"}, [&] { argmax(g.input("x", {2, 0}), 1); });
  EXPECT_EQ(argmax(g.input("y", {0, 2}), 1).shape(), (Shape{0}));
  expect_error(ErrorCode::invalid_argument, {"argmin"}, [&] { argmin(g.input("s", {}), 0); });
}

}  // namespace
}  // namespace wholestep
