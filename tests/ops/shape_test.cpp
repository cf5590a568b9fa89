#include "ops/evaluate.h"

namespace wholestep {
namespace {

using testing::elements_of;
using testing::evaluate;
using testing::expect_error;

using Doubles = std::vector<double>;

Tensor counting(Graph& graph, const Shape& shape) { return reshape(iota(graph, {num_elements(shape)}, 0, f32), shape); }

TEST(Reshape, KeepsRowMajorOrder) {
  Graph g;
  EXPECT_EQ(elements_of(reshape(transpose(counting(g, {2, 3})), {2, 3})), (Doubles{0, 3, 1, 4, 2, 5}));
}

TEST(Reshape, FindsTheExtentInPlaceOfMinusOne) {
  Graph g;
  EXPECT_EQ(reshape(g.input("a", {4, 6}), {3, -1, 2}).shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(reshape(g.input("b", {}), {-1}).shape(), (Shape{1}));
  EXPECT_EQ(reshape(g.input("c", {0, 5}), {-1, 5}).shape(), (Shape{0, 5}));
}

TEST(Reshape, RefusesAShapeOfOtherSize) {
  Graph g;
  Tensor x = g.input("x", {2, 3});
  expect_error(ErrorCode::shape_mismatch, {"reshape", "[2, 3]", "[4]"}, [&] { reshape(x, {4}); });
  expect_error(ErrorCode::shape_mismatch, {"reshape", "[4, -1]"}, [&] { reshape(x, {4, -1}); });
  expect_error(ErrorCode::shape_mismatch, {"reshape"}, [&] { reshape(x, {-1, -1}); });
  expect_error(ErrorCode::shape_mismatch, {"reshape"}, [&] { reshape(g.input("e", {0}), {0, -1}); });
  expect_error(ErrorCode::invalid_argument, {"reshape", "negative"}, [&] { reshape(x, {-2, -3}); });
}

TEST(Reshape, RefusesExtentsWhoseProductOverflows) {
  Graph g;
  Tensor x = g.input("x", {0});
  const std::int64_t huge = std::int64_t{1} << 40;
  expect_error(ErrorCode::invalid_argument, {"reshape", "2^62"}, [&] { reshape(x, {huge, huge, 0}); });
}

TEST(Reshape, RefusesATensorOfNoGraph) {
  expect_error(ErrorCode::invalid_argument, {"reshape"}, [] { reshape(Tensor(), {1}); });
}

TEST(Transpose, SwapsTheLastTwoAxesByDefault) {
  Graph g;
  Tensor y = transpose(counting(g, {2, 2, 3}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(elements_of(y), (Doubles{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  expect_error(ErrorCode::invalid_argument, {"transpose", "f32[3]"}, [&] { transpose(counting(g, {3})); });
}

TEST(Transpose, PutsAxisPermOfIAtI) {
  Graph g;
  Tensor y = transpose(counting(g, {2, 3, 1}), {2, 0, -2});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(elements_of(transpose(counting(g, {2, 3, 2}), {2, 0, 1})), (Doubles{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
}

TEST(Transpose, RefusesWhatIsNoPermutation) {
  Graph g;
  Tensor x = counting(g, {2, 3});
  for (const auto& perm : std::vector<std::vector<std::int64_t>>{{0, 0}, {0}, {0, 1, 1}}) {
    expect_error(ErrorCode::invalid_argument, {"transpose", "perm"}, [&] { transpose(x, perm); });
  }
  expect_error(ErrorCode::invalid_argument, {"transpose", "axis 2"}, [&] { transpose(x, {0, 2}); });
}

TEST(Broadcast, RepeatsOnesAndMissingAxes) {
  Graph g;
  Tensor column = counting(g, {2, 1});
  EXPECT_EQ(elements_of(broadcast(column, {2, 2, 3})), (Doubles{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(broadcast(counting(g, {1}), {0}).shape(), (Shape{0}));
}

TEST(Broadcast, RefusesExtentsThatDiffer) {
  Graph g;
  Tensor x = counting(g, {2, 3});
  expect_error(ErrorCode::shape_mismatch, {"broadcast", "[2, 3]", "[2, 4]"}, [&] { broadcast(x, {2, 4}); });
  expect_error(ErrorCode::shape_mismatch, {"broadcast"}, [&] { broadcast(x, {3}); });
  expect_error(ErrorCode::shape_mismatch, {"broadcast"}, [&] { broadcast(x, {2, 3, 1}); });
}

TEST(Broadcast, GradientSumsWhatWasRepeated) {
  Graph g;
  Tensor x = g.input("x", {2, 1});
  Tensor y = mul(broadcast(x, {3, 2, 2}), counting(g, {3, 2, 2}));
  EXPECT_EQ(elements_of(testing::gradient(y, x), {{"x", Array::from<float>({1, 1}, {2, 1})}}), (Doubles{27, 39}));
}

TEST(Flatten, MergesTheAxesFromFirstOn) {
  Graph g;
  Tensor x = g.input("x", {2, 3, 4});
  EXPECT_EQ(flatten(x).shape(), (Shape{24}));
  EXPECT_EQ(flatten(x, 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(x, -1).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(flatten(g.input("s", {})).shape(), (Shape{1}));
  expect_error(ErrorCode::invalid_argument, {"flatten", "axis 3"}, [&] { flatten(x, 3); });
}

TEST(Squeeze, RemovesOnesOnly) {
  Graph g;
  Tensor x = g.input("x", {1, 3, 1});
  EXPECT_EQ(squeeze(x, {0, -1}).shape(), (Shape{3}));
  expect_error(ErrorCode::shape_mismatch, {"squeeze", "axis 1"}, [&] { squeeze(x, {1}); });
  expect_error(ErrorCode::invalid_argument, {"squeeze", "twice"}, [&] { squeeze(x, {2, -1}); });
}

TEST(Unsqueeze, PutsTheNewAxisWhereItIsAskedFor) {
  Graph g;
  Tensor x = g.input("x", {2, 3});
  EXPECT_EQ(unsqueeze(x, 0).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(unsqueeze(x, 2).shape(), (Shape{2, 3, 1}));
  expect_error(ErrorCode::invalid_argument, {"unsqueeze", "axis 3", "-3 to 2", "f32[2, 3]"}, [&] { unsqueeze(x, 3); });
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  expect_error(ErrorCode::invalid_argument, {"unsqueeze", std::to_string(kLowest), "f32[2, 3]"},
               [&] { unsqueeze(x, kLowest); });
}

TEST(Slice, TakesEveryStrideFromStartToLimit) {
  Graph g;
  Tensor x = counting(g, {4, 5});
  EXPECT_EQ(elements_of(slice(x, {1, 0}, {4, 5}, {2, 3})), (Doubles{5, 8, 15, 18}));
  EXPECT_EQ(elements_of(slice(x, {-1, -2}, {4, 5})), (Doubles{18, 19}));
  EXPECT_EQ(slice(x, {2, 5}, {2, 5}).shape(), (Shape{0, 0}));
  EXPECT_EQ(elements_of(slice(x, {0, 4}, {1, 5}, {1, std::numeric_limits<std::int64_t>::max()})), (Doubles{4}));
}

TEST(Slice, RefusesRangesOutsideTheOperand) {
  Graph g;
  Tensor x = counting(g, {4});
  expect_error(ErrorCode::invalid_argument, {"slice", "axis 0"}, [&] { slice(x, {0}, {5}); });
  expect_error(ErrorCode::invalid_argument, {"slice"}, [&] { slice(x, {3}, {2}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "start -5", "-4 to 4"}, [&] { slice(x, {-5}, {2}); });
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  expect_error(ErrorCode::invalid_argument, {"slice", "limit " + std::to_string(kLowest), "axis 0"},
               [&] { slice(x, {0}, {kLowest}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "stride"}, [&] { slice(x, {0}, {4}, {0}); });
  expect_error(ErrorCode::invalid_argument, {"slice", "starts"}, [&] { slice(x, {0, 0}, {4}); });
}

TEST(Slice, GradientGoesBackToWhereTheElementsWere) {
  Graph g;
  Tensor x = g.input("x", {3, 8});
  Tensor y = mul(slice(x, {0, 1}, {3, 8}, {2, 3}), counting(g, {2, 3}));
  Doubles expected(24, 0);
  expected[1] = 0, expected[4] = 1, expected[7] = 2, expected[17] = 3, expected[20] = 4, expected[23] = 5;
  EXPECT_EQ(elements_of(testing::gradient(y, x), {{"x", Array(f32, {3, 8})}}), expected);
}

TEST(Pad, PutsTheValueAround) {
  Graph g;
  EXPECT_EQ(elements_of(pad(counting(g, {1, 2}), {1, 0}, {0, 1}, 9)), (Doubles{9, 9, 9, 0, 1, 9}));
}

TEST(Pad, RefusesNegativeAmountsAndOverflow) {
  Graph g;
  Tensor x = counting(g, {3});
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  expect_error(ErrorCode::invalid_argument, {"pad", "axis 0"}, [&] { pad(x, {-1}, {0}); });
  expect_error(ErrorCode::invalid_argument, {"pad"}, [&] { pad(x, {huge}, {huge}); });
  expect_error(ErrorCode::invalid_argument, {"pad", "low"}, [&] { pad(x, {1, 1}, {0}); });
}

TEST(Pad, RefusesAValueThatItsIntegerTypeLacks) {
  Graph g;
  Tensor x = g.input("x", {3}, u8);
  for (const double value : {-1.0, 256.0, 0.5, std::nan(""), 1e300}) {
    expect_error(ErrorCode::invalid_argument, {"pad", "u8"}, [&] { pad(x, {1}, {0}, value); });
  }
}

TEST(Concat, PutsOperandsInARow) {
  Graph g;
  Tensor a = counting(g, {2, 1}), b = counting(g, {2, 2});
  EXPECT_EQ(elements_of(concat({a, b, a}, -1)), (Doubles{0, 0, 1, 0, 1, 2, 3, 1}));
}

TEST(Concat, RefusesOperandsThatDoNotFit) {
  Graph g;
  Tensor a = counting(g, {2, 1});
  expect_error(ErrorCode::invalid_argument, {"concat"}, [] { concat({}, 0); });
  expect_error(ErrorCode::shape_mismatch, {"concat", "operand 1"}, [&] { concat({a, counting(g, {3, 1})}, 1); });
  expect_error(ErrorCode::shape_mismatch, {"concat"}, [&] { concat({a, counting(g, {2})}, 0); });
  expect_error(ErrorCode::dtype_mismatch, {"concat", "i32"}, [&] { concat({a, g.input("i", {2, 1}, i32)}, 0); });
  expect_error(ErrorCode::invalid_argument, {"concat", "axis 2"}, [&] { concat({a, a}, 2); });
}

TEST(Concat, GradientIsCutIntoTheOperandsParts) {
  Graph g;
  Tensor a = g.input("a", {2, 1}), b = g.input("b", {2, 2});
  Tensor y = mul(concat({a, b}, 1), counting(g, {2, 3}));
  const testing::Values values{{"a", Array(f32, {2, 1})}, {"b", Array(f32, {2, 2})}};
  EXPECT_EQ(elements_of(testing::gradient(y, a), values), (Doubles{0, 3}));
  EXPECT_EQ(elements_of(testing::gradient(y, b), values), (Doubles{1, 2, 4, 5}));
}

TEST(Iota, CountsAlongItsAxis) {
  Graph g;
  EXPECT_EQ(elements_of(iota(g, {2, 3}, 0, i32)), (Doubles{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(elements_of(iota(g, {2, 3}, -1, f32)), (Doubles{0, 1, 2, 0, 1, 2}));
}

TEST(Iota, WrapsAsItsTypeDoes) {
  Graph g;
  const Doubles values = elements_of(iota(g, {258}, 0, u8));
  EXPECT_EQ(values[255], 255);
  EXPECT_EQ(values[257], 1);
}

TEST(Iota, RefusesBoolAndAxesThatItsShapeLacks) {
  Graph g;
  expect_error(ErrorCode::dtype_mismatch, {"iota", "bool"}, [&] { iota(g, {2}, 0, boolean); });
  expect_error(ErrorCode::invalid_argument, {"iota", "axis 0"}, [&] { iota(g, {}, 0, i32); });
  expect_error(ErrorCode::invalid_argument, {"iota"}, [&] { iota(g, {-1}, 0, i32); });
}

}  // namespace
}  // namespace wholestep
