#include <gtest/gtest.h>

#include <cmath>

#include "io/support.h"
#include "wholestep/graph.h"

namespace wholestep {
namespace {

TEST(Trainable, ListsParametersInOrderOfDefinition) {
  Graph graph;
  graph.param("z", {1});
  graph.input("x", {1});
  graph.state("s", {1});
  graph.param("a", {1});
  EXPECT_EQ(trainable(graph), (std::vector<std::string>{"z", "a"}));
}

TEST(InitialValues, FollowTheInitOfEachParameter) {
  Graph graph;
  graph.param("zeros", {3});
  graph.param("ones", {2, 2}, f32, Init::ones());
  graph.param("constant", {2}, i32, Init::constant(-7));
  graph.param("scalar", {}, f64, Init::constant(0.1));
  graph.param("empty", {0, 4}, f32, Init::normal(0, 1));
  const NamedArrays values = initial_values(graph, 0);
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[0].first, "zeros");
  EXPECT_TRUE(values[0].second.same_bits(Array(f32, {3})));
  EXPECT_TRUE(values[1].second.same_bits(Array::from<float>({1, 1, 1, 1}, {2, 2})));
  EXPECT_TRUE(values[2].second.same_bits(Array::from<std::int32_t>({-7, -7})));
  EXPECT_TRUE(values[3].second.same_bits(Array::scalar(0.1)));
  EXPECT_TRUE(values[4].second.same_bits(Array(f32, {0, 4})));
}

TEST(InitialValues, AreUniformAndNormalWhereAsked) {
  Graph graph;
  constexpr int kCount = 100'000;
  graph.param("u", {kCount}, f32, Init::uniform(-2, 6));
  graph.param("n", {kCount}, f64, Init::normal(3, 0.5));
  const NamedArrays values = initial_values(graph, 11);
  double sum = 0, lowest = 9, highest = -9;
  for (const float value : values[0].second.as<float>()) {
    sum += value;
    lowest = std::min<double>(lowest, value);
    highest = std::max<double>(highest, value);
  }
  EXPECT_NEAR(sum / kCount, 2, 0.03);
  EXPECT_GE(lowest, -2);
  EXPECT_LT(lowest, -1.99);
  EXPECT_LE(highest, 6);
  EXPECT_GT(highest, 5.99);
  double mean = 0, variance = 0;
  for (const double value : values[1].second.as<double>()) mean += value / kCount;
  for (const double value : values[1].second.as<double>()) variance += (value - mean) * (value - mean) / kCount;
  EXPECT_NEAR(mean, 3, 0.01);
  EXPECT_NEAR(std::sqrt(variance), 0.5, 0.01);
}

TEST(InitialValues, DependOnTheSeedAndTheNameAlone) {
  Graph one, two;
  one.param("w", {10}, f32, Init::normal(0, 1));
  two.param("before", {3}, f32, Init::normal(0, 1));
  two.param("w", {10}, f32, Init::normal(0, 1));
  two.param("v", {10}, f32, Init::normal(0, 1));
  const NamedArrays values = initial_values(two, 5);
  EXPECT_TRUE(initial_values(one, 5)[0].second.same_bits(*find(values, "w")));
  EXPECT_FALSE(find(values, "v")->same_bits(*find(values, "w")));
  EXPECT_FALSE(initial_values(one, 6)[0].second.same_bits(*find(values, "w")));
}

}  // namespace
}  // namespace wholestep
