// Against numbers that Optax computed: tests/tools/make_optimizer_values.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/devices.h"
#include "wholestep/ops.h"
#include "wholestep/trainer.h"

namespace wholestep {
namespace {

class OptaxValues : public testing::OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, OptaxValues, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(OptaxValues, AreReachedByEveryOptimizer) {
  std::ifstream file(std::string(WHOLESTEP_TEST_DATA) + "/optimizers.json");
  ASSERT_TRUE(file) << "tests/data/optimizers.json is missing";
  const auto document = nlohmann::json::parse(file);
  const auto start = document["start"].get<std::vector<double>>();
  const auto gradients = document["gradients"].get<std::vector<std::vector<double>>>();
  const std::vector<std::pair<std::string, Optimizer>> optimizers{
      {"sgd", SGD{.lr = 0.125}},
      {"sgd momentum", SGD{.lr = 0.0625, .momentum = 0.9}},
      {"sgd nesterov", SGD{.lr = 0.0625, .momentum = 0.9, .nesterov = true}},
      {"adam", Adam{.lr = 0.03125}},
      {"adam other betas", Adam{.lr = 0.03125, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3}},
      {"adamw", AdamW{.lr = 0.03125, .weight_decay = 0.01}},
      {"adamw large decay", AdamW{.lr = 0.03125, .weight_decay = 0.5}},
  };
  ASSERT_EQ(document["final"].size(), optimizers.size());
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph graph("dot");
    const TensorType type{dtype, {static_cast<std::int64_t>(start.size())}};
    Tensor g = graph.input("g", type.shape, dtype), p = graph.param("p", type.shape, dtype);
    graph.set_outputs({reduce_sum(p * g, {0})});
    for (const auto& [name, optimizer] : optimizers) {
      ResidentTrainer trainer(graph, {"p"}, {{"p", Array::from_doubles(type, start)}}, optimizer, GetParam());
      for (const auto& gradient : gradients) trainer.step({{"g", Array::from_doubles(type, gradient)}});
      const std::vector<double> reached = trainer.param("p").to_doubles();
      const auto expected = document["final"][name].get<std::vector<double>>();
      // f64: the bias corrections are single-precision inputs.
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(reached[i], expected[i], dtype == DType::f32 ? 2e-6 : 1e-7)
            << name << " " << to_string(dtype) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace wholestep
