#include "graph/op.h"
#include "ops/evaluate.h"

namespace wholestep {
namespace {

using testing::elements_of;
using testing::expect_error;
using testing::expect_near;
using testing::gradient;
using testing::Values;

using Doubles = std::vector<double>;
const double kInfinity = std::numeric_limits<double>::infinity();

TEST(Softmax, SumsToOneAlongItsAxis) {
  Graph g;
  Tensor x = g.constant(Array::from<float>({0, 1, 2, 3, 3, 3}, {2, 3}));
  expect_near(elements_of(softmax(x)), {0.09003057, 0.24472847, 0.66524096, 1. / 3, 1. / 3, 1. / 3}, 1e-7);
  expect_near(elements_of(sum(softmax(x, 0), {0})), {1, 1, 1}, 1e-6);
}

TEST(Softmax, NeitherOverflowsNorLosesSmallDifferences) {
  Graph g;
  Tensor x = g.constant(Array::from<float>({1e30f, 1e30f, -1e30f, 0, -1000, -1001}, {3, 2}));
  expect_near(elements_of(softmax(x)), {0.5, 0.5, 0, 1, 0.7310585786, 0.2689414214}, 1e-7);
  expect_near(elements_of(log_softmax(x)),
              {-0.6931471806, -0.6931471806, -static_cast<double>(1e30f), 0, -0.3132616875, -1.3132616875}, 1e-6);
}

TEST(Softmax, GradientIsThatOfTheFormula) {
  Graph g;
  Tensor x = g.input("x", {3}), weight = g.constant(Array::from<float>({1, 0, 0}));
  const Values values{{"x", Array::from<float>({0, 1, 2})}};
  // y0 * (delta_0i - y_i)
  expect_near(elements_of(gradient(mul(softmax(x), weight), x), values), {0.08192506, -0.02203305, -0.05989202}, 1e-7);
  expect_near(elements_of(gradient(mul(log_softmax(x), weight), x), values), {0.90996943, -0.24472847, -0.66524096},
              1e-7);
}

TEST(Softmax, RefusesIntegersAndScalars) {
  Graph g;
  expect_error(ErrorCode::dtype_mismatch, {"softmax", "i32"}, [&] { softmax(g.input("i", {2}, i32)); });
  expect_error(ErrorCode::invalid_argument, {"softmax", "axis -1"}, [&] { softmax(g.input("s", {})); });
}

TEST(OneHot, MarksTheLabelAndNothingForLabelsOutside) {
  Graph g;
  Tensor labels = g.constant(Array::from<std::int32_t>({1, -1, 3, 2}));
  EXPECT_EQ(elements_of(one_hot(labels, 3)), (Doubles{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(one_hot(labels, 3, boolean).type(), (TensorType{boolean, {4, 3}}));
  expect_error(ErrorCode::dtype_mismatch, {"one_hot", "integer"}, [&] { one_hot(g.input("f", {2}), 3); });
  expect_error(ErrorCode::invalid_argument, {"one_hot", "depth"}, [&] { one_hot(labels, -1); });
}

TEST(CrossEntropy, IsTheMeanNegativeLogProbabilityOfTheLabels) {
  Graph g;
  Tensor logits = g.constant(Array::from<float>({0, 1, 2, 1000, 0, 0}, {2, 3}));
  Tensor loss = cross_entropy(logits, g.constant(Array::from<std::int32_t>({0, 1})));
  EXPECT_EQ(loss.shape(), (Shape{}));
  expect_near(elements_of(loss), {(2.40760596 + 1000) / 2}, 1e-4);
}

TEST(CrossEntropy, GradientIsProbabilityMinusOneHotOverRows) {
  Graph g;
  Tensor logits = g.input("x", {2, 3});
  Tensor loss = cross_entropy(logits, g.constant(Array::from<std::int32_t>({0, 2})));
  const Values values{{"x", Array::from<float>({0, 1, 2, 3, 3, 3}, {2, 3})}};
  expect_near(elements_of(gradient(loss, logits), values),
              {-0.45498471, 0.12236424, 0.33262048, 1. / 6, 1. / 6, -1. / 3}, 1e-7);
}

TEST(CrossEntropy, IsInfiniteForALabelThatIsNoClass) {
  Graph g;
  Tensor logits = g.constant(Array::from<float>({0, 1}, {1, 2}));
  EXPECT_EQ(elements_of(cross_entropy(logits, g.constant(Array::from<std::int32_t>({2})))), (Doubles{kInfinity}));
}

TEST(CrossEntropy, TakesLogitsOfMinusInfinityForOtherClasses) {
  Graph g;
  Tensor logits = g.constant(Array::from<float>({0, -static_cast<float>(kInfinity), 0}, {1, 3}));
  expect_near(elements_of(cross_entropy(logits, g.constant(Array::from<std::int32_t>({0})))), {0.6931471806}, 1e-7);
}

TEST(CrossEntropy, RefusesLabelsThatDoNotFitAndNamesBothShapes) {
  Graph g;
  Tensor logits = g.input("x", {2, 3});
  expect_error(ErrorCode::shape_mismatch, {"cross_entropy", "[2]", "f32[2, 3]", "i32[3]"},
               [&] { cross_entropy(logits, g.input("a", {3}, i32)); });
  expect_error(ErrorCode::dtype_mismatch, {"cross_entropy", "integer"},
               [&] { cross_entropy(logits, g.input("b", {2})); });
  expect_error(ErrorCode::shape_mismatch, {"cross_entropy", "class"},
               [&] { cross_entropy(g.input("c", {2, 0}), g.input("d", {2}, i32)); });
  expect_error(ErrorCode::shape_mismatch, {"cross_entropy"},
               [&] { cross_entropy(g.input("s", {}), g.input("e", {}, i32)); });
}

TEST(CrossEntropy, DeclaresTheNumberOfClassesAsTheBoundOfItsLabels) {
  for (const char* name : {"cross_entropy", "count_correct"}) {
    const OpDef& op = *op_table().find(name);
    ASSERT_TRUE(op.index_operand) << name;
    EXPECT_EQ(op.index_operand->operand, 1);
    EXPECT_EQ(op.index_operand->bound({{f32, {4, 10}}, {i32, {4}}}, {}), 10);
  }
}

TEST(SquaredError, IsTheMeanOfSquaresAndSoIsItsGradient) {
  Graph g;
  Tensor prediction = g.input("p", {2, 2}), target = g.input("t", {2, 2});
  const Values values{{"p", Array::from<float>({1, 2, 3, 4}, {2, 2})}, {"t", Array::from<float>({1, 0, 3, 1}, {2, 2})}};
  Tensor loss = squared_error(prediction, target);
  EXPECT_EQ(elements_of(loss, values), (Doubles{3.25}));
  EXPECT_EQ(elements_of(gradient(loss, prediction), values), (Doubles{0, 1, 0, 1.5}));
  EXPECT_EQ(elements_of(gradient(loss, target), values), (Doubles{0, -1, 0, -1.5}));
  expect_error(ErrorCode::shape_mismatch, {"squared_error", "f32[2]"},
               [&] { squared_error(prediction, g.input("o", {2})); });
}

TEST(CountCorrect, CountsRowsWhoseLargestLogitIsTheLabel) {
  Graph g;
  Tensor logits = g.constant(Array::from<float>({0, 1, 2, 3, 3, 1, 1, 1, 5}, {3, 3}));
  Tensor count = count_correct(logits, g.constant(Array::from<std::int32_t>({2, 1, 2})));
  EXPECT_EQ(count.type(), (TensorType{i32, {}}));
  EXPECT_EQ(elements_of(count), (Doubles{2}));
}

TEST(CountCorrect, TakesEveryIntegerTypeOfLabels) {
  Graph g;
  Tensor logits = g.constant(Array::from<float>({0, 1, 1, 0}, {2, 2}));
  EXPECT_EQ(elements_of(count_correct(logits, g.constant(Array::from<std::int64_t>({1, 0})))), (Doubles{2}));
  EXPECT_EQ(elements_of(count_correct(logits, g.constant(Array::from<std::uint8_t>({1, 1})))), (Doubles{1}));
}

}  // namespace
}  // namespace wholestep
