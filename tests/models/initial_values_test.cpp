#include <gtest/gtest.h>

#include <cmath>

#include "support/devices.h"
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

struct Spread {
  double mean = 0, stddev = 0, largest = 0;
};

Spread spread_of(const Shape& shape, const Init& init) {
  Graph graph;
  graph.param("w", shape, f64, init);
  const Array value = initial_values(graph, 3)[0].second;
  Spread out;
  for (const double x : value.as<double>()) {
    out.mean += x / static_cast<double>(value.size());
    out.largest = std::max(out.largest, std::fabs(x));
  }
  for (const double x : value.as<double>()) {
    out.stddev += (x - out.mean) * (x - out.mean) / static_cast<double>(value.size());
  }
  out.stddev = std::sqrt(out.stddev);
  return out;
}

// The papers' formulas, written out for a matrix [in, out] and a kernel [out, in, h, w].
TEST(InitialValues, SpreadAsXavierAndKaimingSay) {
  const Shape matrix{300, 100}, kernel{40, 20, 5, 5};
  const auto expect_normal = [](const Spread& got, double stddev) {
    EXPECT_NEAR(got.mean, 0, 0.03 * stddev);
    EXPECT_NEAR(got.stddev, stddev, 0.02 * stddev);
    EXPECT_GT(got.largest, 3 * stddev);
  };
  const auto expect_uniform = [](const Spread& got, double bound) {
    EXPECT_NEAR(got.mean, 0, 0.03 * bound);
    EXPECT_NEAR(got.stddev, bound / std::sqrt(3), 0.02 * bound);
    EXPECT_LE(got.largest, bound);
    EXPECT_GT(got.largest, 0.99 * bound);
  };
  expect_uniform(spread_of(matrix, Init::xavier_uniform()), std::sqrt(6.0 / 400));
  expect_uniform(spread_of(kernel, Init::xavier_uniform(2)), 2 * std::sqrt(6.0 / 1500));
  expect_normal(spread_of(matrix, Init::xavier_normal(3)), 3 * std::sqrt(2.0 / 400));
  expect_normal(spread_of(kernel, Init::xavier_normal()), std::sqrt(2.0 / 1500));
  expect_uniform(spread_of(matrix, Init::kaiming_uniform()), std::sqrt(6.0 / 300));
  expect_uniform(spread_of(matrix, Init::kaiming_uniform(Fan::out, 1)), std::sqrt(3.0 / 100));
  expect_uniform(spread_of(kernel, Init::kaiming_uniform()), std::sqrt(6.0 / 500));
  expect_normal(spread_of(matrix, Init::kaiming_normal()), std::sqrt(2.0 / 300));
  expect_normal(spread_of(kernel, Init::kaiming_normal()), std::sqrt(2.0 / 500));
  expect_normal(spread_of(kernel, Init::kaiming_normal(Fan::out)), std::sqrt(2.0 / 1000));
}

TEST(InitialValues, OfATruncatedNormalStayWithinTwoDeviations) {
  const Spread got = spread_of({50'000}, Init::truncated_normal(0, 0.02));
  EXPECT_LE(got.largest, 0.04);
  EXPECT_GT(got.largest, 0.0399);
  EXPECT_NEAR(got.stddev, 0.02 * 0.8796, 0.0002);  // of the standard normal cut at 2
  EXPECT_NEAR(spread_of({50'000}, Init::truncated_normal(5, 0.02)).mean, 5, 0.001);
}

TEST(InitialValues, AreOrthogonalInTheSmallerExtent) {
  constexpr double kGain = 1.5;
  for (const Shape& shape : {Shape{30, 7}, Shape{7, 30}, Shape{12, 12}, Shape{4, 3, 2, 5}, Shape{1, 9}, Shape{9, 1}}) {
    Graph graph;
    graph.param("w", shape, f64, Init::orthogonal(kGain));
    const Array value = initial_values(graph, 3)[0].second;
    const auto w = value.as<double>();
    const auto rows = static_cast<std::size_t>(shape[0]), columns = w.size() / rows;
    const bool tall = rows >= columns;
    for (std::size_t i = 0; i < std::min(rows, columns); ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::size_t k = 0; k < std::max(rows, columns); ++k) {
          product += tall ? w[k * columns + i] * w[k * columns + j] : w[i * columns + k] * w[j * columns + k];
        }
        EXPECT_NEAR(product, i == j ? kGain * kGain : 0, 1e-12) << to_string(shape) << " " << i << " " << j;
      }
    }
  }
}

// With other signs than Householder reflections would give, which make R's first entry negative for a positive first
// element.
TEST(InitialValues, OfAnOrthogonalColumnKeepTheSignsThatWereDrawn) {
  Graph graph;
  graph.param("w", {40, 1}, f64, Init::orthogonal());
  Graph plain;
  plain.param("w", {40, 1}, f64, Init::normal(0, 1));
  const Array unit = initial_values(graph, 3)[0].second, drawn = initial_values(plain, 3)[0].second;
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::signbit(unit.as<double>()[i]), std::signbit(drawn.as<double>()[i]));
  }
}

TEST(InitialValues, OfEmptyShapesAreEmpty) {
  for (const Init& init : {Init::orthogonal(), Init::xavier_normal(), Init::kaiming_uniform()}) {
    Graph graph;
    graph.param("w", {0, 4}, f32, init);
    graph.param("v", {4, 0}, f32, init);
    for (const auto& [name, value] : initial_values(graph, 0)) EXPECT_EQ(value.bytes(), 0U);
  }
}

TEST(InitialValues, SurviveTheTextForm) {
  Graph graph("inits");
  int number = 0;
  for (const Init& init :
       {Init::truncated_normal(1, 2), Init::xavier_uniform(), Init::xavier_normal(0.5), Init::kaiming_uniform(),
        Init::kaiming_normal(Fan::out, 1.25), Init::orthogonal(std::sqrt(2))}) {
    graph.param("w" + std::to_string(number++), {3, 4}, f32, init);
  }
  const Graph parsed = Graph::parse(graph.to_text());
  EXPECT_TRUE(parsed == graph) << graph.to_text();
  const NamedArrays expected = initial_values(graph, 1), actual = initial_values(parsed, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].second.same_bits(expected[i].second));
}

TEST(InitialValues, RefuseRanksAndNumbersThatAnInitDoesNotHave) {
  Graph graph;
  const auto refused = [&](const Shape& shape, const Init& init, const std::string& part) {
    testing::expect_error(ErrorCode::invalid_argument, {"param 'w'", part},
                          [&] { graph.param("w", shape, f32, init); });
  };
  for (const Init& init : {Init::xavier_uniform(), Init::kaiming_normal(), Init::orthogonal()}) {
    refused({4}, init, "rank of at least 2");
    refused({}, init, "rank of at least 2");
  }
  refused({2, 2}, Init::orthogonal(-1), "gain >= 0, got -1");
  refused({2, 2}, Init::xavier_normal(std::nan("")), "gain");
  refused({2, 2}, Init::truncated_normal(0, -1), "truncated_normal init needs");
  refused({2, 2}, Init{Init::Kind::kaiming_uniform, 1, 0.5}, "fan 0 or 1");
  testing::expect_error(ErrorCode::invalid_graph, {"unheard_of", "kaiming_normal"},
                        [] { Graph::parse("graph \"g\"\n%0 = param \"w\" {init=\"unheard_of\"} : f32[2]\n"); });
}

TEST(InitialValues, OfAnAbsurdSizeAreAnErrorThatNamesTheParameterAndItsBytes) {
  Graph graph;
  graph.param("mountain", {std::int64_t{1} << 60});  // more than any allocator is asked for, sanitized ones included
  testing::expect_error(ErrorCode::unsupported, {"'mountain'", "4611686018427387904 bytes"},
                        [&] { initial_values(graph, 0); });
}

TEST(InitialValues, OfAConstantThatIsNotFiniteAreRefused) {
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_THROW(
        {
          Graph graph;
          graph.param("w", {2}, f32, Init::constant(value));
          initial_values(graph, 0);
        },
        Error);
  }
}

}  // namespace
}  // namespace wholestep
