// Every optimizer, by name, fits a line.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "support/devices.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"
#include "wholestep/trainer.h"

namespace wholestep {
namespace {

struct Rate {
  std::string optimizer;
  double lr;
};
void PrintTo(const Rate& rate, std::ostream* out) { *out << rate.optimizer; }

std::vector<Rate> rates() {
  return {
      {"sgd", 0.2},     {"adam", 0.1},  {"adamw", 0.1},     {"nadamw", 0.1}, {"radam", 0.2},
      {"qhadamw", 0.1}, {"lamb", 0.05}, {"adafactor", 0.3}, {"lion", 0.03},  {"soap", 0.1},
      {"kron", 0.05},   {"muon", 0.1},  {"sophia", 0.05},   {"mars", 0.1},   {"schedule_free_adamw", 0.2},
  };
}

constexpr int kBatch = 16, kIn = 4, kOut = 3;

Graph regression() {
  Graph graph("regression");
  const Tensor x = graph.input("x", {kBatch, kIn}), y = graph.input("y", {kBatch, kOut});
  graph.set_outputs({squared_error(nn::linear(graph, "fit", x, kOut), y)});
  return graph;
}

TEST(OptimizerConvergence, IsTestedForEveryName) {
  std::vector<std::string> tested, names = optimizer_names();
  for (const Rate& rate : rates()) tested.push_back(rate.optimizer);
  std::ranges::sort(tested);
  std::ranges::sort(names);
  EXPECT_EQ(tested, names);
}

class OnALine : public ::testing::TestWithParam<std::tuple<Rate, Device>> {};
INSTANTIATE_TEST_SUITE_P(Of, OnALine,
                         ::testing::Combine(::testing::ValuesIn(rates()),
                                            ::testing::ValuesIn(testing::built_devices())),
                         [](const ::testing::TestParamInfo<OnALine::ParamType>& info) {
                           return std::get<0>(info.param).optimizer + "On" + std::get<1>(info.param).name;
                         });

TEST_P(OnALine, EveryOptimizerConverges) {
  const auto& [rate, device] = GetParam();
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> x(kBatch * kIn), weight(kIn * kOut), y;
  for (float& each : x) each = normal(random);
  for (float& each : weight) each = normal(random);
  for (int n = 0; n < kBatch; ++n) {
    for (int j = 0; j < kOut; ++j) {
      float sum = 0.5f;
      for (int i = 0; i < kIn; ++i) sum += x[n * kIn + i] * weight[i * kOut + j];
      y.push_back(sum);
    }
  }
  const Graph graph = regression();
  ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, 1), optimizer_by_name(rate.optimizer, rate.lr),
                          device);
  const float first = trainer.step({{"x", x}, {"y", y}}).loss();
  for (int t = 0; t < 100; ++t) trainer.step({{"x", x}, {"y", y}});
  const float last = trainer.step({{"x", x}, {"y", y}}).loss();
  EXPECT_LT(last, 0.05f * first) << first << " to " << last;
}

}  // namespace
}  // namespace wholestep
