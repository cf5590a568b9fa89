#include <gtest/gtest.h>

#include <cmath>

#include "backend/reference/interpreter.h"
#include "core/random.h"
#include "support/devices.h"
#include "support/values.h"
#include "wholestep/nn.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

using testing::expect_error;

constexpr std::int64_t kCount = 20'000;

/// Dropout of ones, and of ones again in a second layer, as outputs.
Graph two_layers(double rate, DType dtype = f32, std::int64_t count = kCount) {
  Graph graph("dropout");
  const Tensor x = graph.input("x", {count}, dtype);
  graph.set_outputs({nn::dropout(graph, x, rate), nn::dropout(graph, x, rate)});
  return graph;
}

std::vector<Array> run(const Graph& graph, const Device& device, std::int32_t step, bool training, bool fusion = true) {
  const TensorType& type = graph.node(graph.find_id("x")).type;
  const Array x = Array::from_doubles(type, std::vector<double>(static_cast<std::size_t>(num_elements(type.shape)), 1));
  const Array key = Array::from<std::int32_t>({17, 0, step, 0}), mode = Array::scalar(training);
  return Session(device)
      .compile(graph, {.fusion = fusion, .disk_cache = false})
      .run({{"x", x}, {std::string(nn::kStepSeed), key}, {std::string(nn::kStepTraining), mode}});
}

double zeros_in(const Array& array) {
  double zeros = 0;
  for (const double x : array.to_doubles()) zeros += x == 0;
  return zeros;
}

TEST(Dropout, DropsElementsAtItsRateAndScalesTheRestToTheSameMean) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::vector<Array> outputs = run(two_layers(rate), Device::reference(), 0, true);
    const double deviation = std::sqrt(rate * (1 - rate) / kCount);
    for (const Array& output : outputs) {
      EXPECT_NEAR(zeros_in(output) / kCount, rate, 4 * deviation);
      for (const double x : output.to_doubles()) {
        ASSERT_TRUE(x == 0 || x == static_cast<double>(static_cast<float>(1 / (1 - rate)))) << x;
      }
    }
  }
}

TEST(Dropout, DrawsAnewInEachStepAndEachLayer) {
  const Graph graph = two_layers(0.5);
  const std::vector<Array> first = run(graph, Device::reference(), 0, true);
  const std::vector<Array> second = run(graph, Device::reference(), 1, true);
  const auto agreement = [](const Array& a, const Array& b) {
    const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
    double same = 0;
    for (std::size_t i = 0; i < x.size(); ++i) same += x[i] == y[i];
    return same / static_cast<double>(x.size());
  };
  EXPECT_TRUE(first[0].same_bits(run(graph, Device::reference(), 0, true)[0]));
  EXPECT_NEAR(agreement(first[0], first[1]), 0.5, 0.02) << "layers";
  EXPECT_NEAR(agreement(first[0], second[0]), 0.5, 0.02) << "steps";
  EXPECT_NEAR(agreement(first[1], second[0]), 0.5, 0.02) << "a layer and the next step's other";
}

TEST(Dropout, KeepsTheSameElementsOnEveryDeviceWithAnyThreadsAndFusion) {
  const Graph graph = two_layers(0.3, f32, 1000);
  const std::vector<Array> expected = run(graph, Device::reference(), 5, true);
  const auto expect_same = [&](const std::vector<Array>& actual) {
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].same_bits(expected[i])) << i;
  };
  for (const int threads : {1, 2, 4}) expect_same(run(graph, Device::cpu(threads), 5, true));
  expect_same(run(graph, Device::cpu(2), 5, true, false));
}

TEST(Dropout, IsTheIdentityInEvaluation) {
  for (const Array& output : run(two_layers(0.9), Device::cpu(1), 3, false)) EXPECT_EQ(zeros_in(output), 0);
}

TEST(Dropout, OfRateZeroIsTheValueItself) {
  Graph graph;
  const Tensor x = graph.input("x", {3});
  EXPECT_EQ(nn::dropout(graph, x, 0).id(), x.id());
  EXPECT_FALSE(graph.find(nn::kStepSeed));
}

TEST(Dropout, NeverLetsADroppedNaNThrough) {
  Graph graph("g");
  const Tensor x = graph.input("x", {kCount});
  graph.set_outputs({nn::dropout(graph, x * std::nan(""), 0.5)});
  const std::vector<double> values = run(graph, Device::reference(), 0, true)[0].to_doubles();
  const auto nans = std::count_if(values.begin(), values.end(), [](double v) { return std::isnan(v); });
  EXPECT_NEAR(static_cast<double>(nans) / kCount, 0.5, 0.02);
}

TEST(Dropout, HasTheGradientOfFiniteDifferencesAtAFixedKey) {
  for (const bool training : {true, false}) {
    Graph graph("g");
    const TensorType type{f64, {3, 4}};
    const Tensor x = graph.input("x", type.shape, f64), cotangent = graph.input("cotangent", type.shape, f64);
    const Tensor y = nn::dropout(graph, mul(x, x), 0.4);
    graph.set_outputs({y});
    random::Stream stream(3, 4);
    const testing::Values values{
        {"x", testing::random_value(type, -2, 2, stream)},
        {"cotangent", testing::random_value(type, 0.5, 1.5, stream)},
        {std::string(nn::kStepSeed), testing::value_of({i32, {4}}, {1, 2, 3, 4})},
        {std::string(nn::kStepTraining), testing::value_of({boolean, {}}, {training ? 1.0 : 0.0})}};
    const Graph forward = graph;
    graph.set_outputs(append_gradients(graph, y, cotangent, {x}));
    const HostValue gradient = testing::evaluate(graph, values).at(0);
    int dropped = 0;
    for (std::size_t i = 0; i < gradient.real.size(); ++i) {
      dropped += gradient.real[i] == 0;
      EXPECT_NEAR(gradient.real[i], testing::central_difference(forward, values, "x", i, values.at("cotangent")), 1e-8);
    }
    EXPECT_EQ(dropped > 0, training);
  }
}

TEST(Dropout, RefusesRatesAndValuesThatItCannotTake) {
  Graph graph("g");
  const Tensor x = graph.input("x", {3}), labels = graph.input("labels", {3}, i32);
  for (const double rate : {-0.1, 1.0, 2.0, std::nan("")}) {
    expect_error(ErrorCode::invalid_argument, {"dropout", "0 <= rate < 1"}, [&] { nn::dropout(graph, x, rate); });
  }
  expect_error(ErrorCode::dtype_mismatch, {"dropout", "i32[3]"}, [&] { nn::dropout(graph, labels, 0.5); });
  expect_error(ErrorCode::dtype_mismatch, {"no graph"}, [&] { nn::dropout(graph, Tensor(), 0.5); });
  Graph taken("taken");
  taken.param(std::string(nn::kStepSeed), {4}, i32);
  expect_error(ErrorCode::duplicate_name, {"step/seed", "reserved", "param"}, [&] { nn::step_seed(taken); });
}

}  // namespace
}  // namespace wholestep
