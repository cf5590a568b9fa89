// Norm, clipping and finiteness of gradients as graph code, on the reference interpreter in the dtypes themselves.
#include "train/gradient_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/values.h"

namespace wholestep::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Vectors with gates, as constants of a graph.
struct Vectors {
  Graph graph;
  std::vector<Tensor> grads, gates;

  void add(const std::vector<double>& values, bool gate = true, DType dtype = f32) {
    const TensorType type{dtype, {static_cast<std::int64_t>(values.size())}};
    grads.push_back(graph.constant(Array::from_doubles(type, values)));
    gates.push_back(graph.constant(gate, boolean));
  }
  HostValue evaluate(Tensor output) {
    graph.set_outputs({output});
    return testing::evaluate(graph, {}, false).at(0);
  }
  double norm() { return evaluate(global_norm(grads, gates)).real.at(0); }
  bool finite() { return evaluate(all_finite(grads, gates)).integer.at(0) != 0; }
};

double norm_of(const std::vector<double>& values) {
  Vectors vectors;
  vectors.add(values);
  return vectors.norm();
}

TEST(GlobalNorm, IsThatOfAllGradientsAsOneVector) {
  Vectors vectors;
  vectors.add({3, 0});
  vectors.add({0, 0, -4});
  EXPECT_EQ(vectors.norm(), 5);
}

TEST(GlobalNorm, LeavesOutWhatIsFrozen) {
  Vectors vectors;
  vectors.add({3, 4});
  vectors.add({NAN, 1e30, kInfinity}, false);
  EXPECT_EQ(vectors.norm(), 5);
  EXPECT_TRUE(vectors.finite());
}

TEST(GlobalNorm, NeitherOverflowsNorVanishesWhereItsSquareWould) {
  EXPECT_NEAR(norm_of({3e30, 4e30, 1}) / 5e30, 1, 1e-6);
  EXPECT_NEAR(norm_of({2e38, -2e38}) / (2e38 * std::sqrt(2.0)), 1, 1e-6);
  EXPECT_NEAR(norm_of({3e12, 4e12, 5e11}) / std::hypot(5e12, 5e11), 1, 1e-6);
  EXPECT_NEAR(norm_of({3e-18, 4e-18}) / 5e-18, 1, 1e-6);
}

TEST(GlobalNorm, IsContinuousWhereLargeElementsAreSummedApart) {
  const double below = std::nextafter(0x1p40, 0), above = std::nextafter(0x1p40, kInfinity);
  EXPECT_NEAR(norm_of({below, below}) / norm_of({above, above}), 1, 1e-6);
}

TEST(GlobalNorm, OfNaNIsNaNAndOfInfinityInfinite) {
  EXPECT_TRUE(std::isnan(norm_of({1, NAN})));
  EXPECT_EQ(norm_of({1, -kInfinity}), kInfinity);
}

TEST(GlobalNorm, IsInF64WhereAGradientIs) {
  Vectors vectors;
  vectors.add({3, 0});
  vectors.add({4e-9}, true, f64);
  EXPECT_EQ(vectors.norm(), std::sqrt(9 + 16e-18));
}

TEST(AllFinite, SeesASingleNaNOrInfinity) {
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    Vectors vectors;
    vectors.add({1, 2, 3.4e38, -3.4e38, 1e-45});
    EXPECT_TRUE(vectors.finite());
    vectors.add({1, bad});
    EXPECT_FALSE(vectors.finite()) << bad;
  }
}

TEST(ClipFactor, BringsALongerVectorToTheLimitAndLeavesAShorterOne) {
  Graph graph;
  const auto factor = [&](double norm) {
    graph.set_outputs({clip_factor(graph.constant(norm, f32), 2)});
    return testing::evaluate(graph, {}, false).at(0).real.at(0);
  };
  EXPECT_EQ(factor(8), 0.25);
  EXPECT_EQ(factor(2), 1);
  EXPECT_EQ(factor(0), 1);
  EXPECT_EQ(factor(kInfinity), 0);
}

TEST(ClipByValue, LimitsBothSidesAndKeepsNaN) {
  Vectors vectors;
  vectors.add({-3, -0.5, 2, NAN, kInfinity});
  const HostValue clipped = vectors.evaluate(clip_by_value(vectors.grads[0], 1));
  EXPECT_EQ(clipped.real[0], -1);
  EXPECT_EQ(clipped.real[1], -0.5);
  EXPECT_EQ(clipped.real[2], 1);
  EXPECT_TRUE(std::isnan(clipped.real[3]));
  EXPECT_EQ(clipped.real[4], 1);
}

/// Scale and counter after steps whose gradients were finite or not.
std::pair<double, double> scale_after(const std::vector<bool>& finite, const LossScaling& how) {
  std::pair<double, double> now{how.initial, 0};
  for (const bool good : finite) {
    Graph graph;
    const Tensor scale = graph.state("scale", {}), count = graph.state("count", {}, i32);
    update_loss_scale(scale, count, graph.constant(good, boolean), how);
    graph.set_outputs({graph.tensor(graph.updates()[0].value), graph.tensor(graph.updates()[1].value)});
    const testing::Values values{{"scale", testing::value_of({f32, {}}, {now.first})},
                                 {"count", testing::value_of({i32, {}}, {now.second})}};
    const std::vector<HostValue> next = testing::evaluate(graph, values, false);
    now = {next[0].real[0], static_cast<double>(next[1].integer[0])};
  }
  return now;
}

TEST(LossScale, GrowsAfterAnIntervalOfGoodStepsAndShrinksAtOnce) {
  const LossScaling how{.initial = 1024, .factor = 2, .interval = 3};
  EXPECT_EQ(scale_after({true, true}, how), std::pair(1024.0, 2.0));
  EXPECT_EQ(scale_after({true, true, true}, how), std::pair(2048.0, 0.0));
  EXPECT_EQ(scale_after({true, true, false}, how), std::pair(512.0, 0.0));
  EXPECT_EQ(scale_after({true, true, false, true, true}, how), std::pair(512.0, 2.0));
}

TEST(LossScale, StaysFiniteAndAboveZeroForEver) {
  EXPECT_EQ(scale_after(std::vector<bool>(300, false), {}).first, 1);
  EXPECT_EQ(scale_after(std::vector<bool>(300, false), {.initial = 1, .least = 0x1p-120}).first, 0x1p-120);
  EXPECT_EQ(scale_after(std::vector<bool>(300, true), {.initial = 1, .factor = 2, .interval = 1}).first, 0x1p120);
}

}  // namespace
}  // namespace wholestep::train
