// Against where twenty steps of other implementations end: tests/tools/make_optimizer_steps.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "support/devices.h"
#include "support/json_values.h"
#include "train/models.h"
#include "wholestep/ops.h"
#include "wholestep/session.h"
#include "wholestep/trainer.h"

namespace wholestep {
namespace {

using Values = std::vector<double>;

struct Variant {
  std::string name;  // in the file
  Optimizer optimizer;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

std::vector<Variant> variants() {
  return {
      {"sgd", SGD{.lr = 0.05, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.1}},
      {"adam", Adam{.lr = 0.05, .weight_decay = 0.1}},
      {"adamw", AdamW{.lr = 0.05, .weight_decay = 0.1}},
      {"nadamw", NAdamW{.lr = 0.05, .weight_decay = 0.1}},
      {"radam", RAdam{.lr = 0.05, .weight_decay = 0.1}},
      {"radam decoupled",
       RAdam{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.1, .decoupled_weight_decay = true}},
      {"qhadamw", QHAdamW{.lr = 0.05, .nu2 = 0.9, .weight_decay = 0.1}},
      {"lamb", LAMB{.lr = 0.05, .weight_decay = 0.1}},
      {"adafactor", Adafactor{.lr = 0.125, .weight_decay = 0.1}},
      {"lion", Lion{.lr = 0.05, .weight_decay = 0.1}},
      {"muon", Muon{.lr = 0.05,
                    .momentum = 0.9,
                    .weight_decay = 0.1,
                    .rest = {.lr = 0.01, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0}}},
      {"muon without nesterov",
       Muon{.lr = 0.05, .nesterov = false, .rest = {.lr = 0.01, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0}}},
      {"soap", SOAP{.lr = 0.05, .beta1 = 0.9, .weight_decay = 0.1, .precondition_frequency = 4}},
      {"soap for one axis",
       SOAP{.lr = 0.05, .beta1 = 0.9, .shampoo_beta = 0.8, .weight_decay = 0, .max_precond_dim = 4}},
      {"kron", Kron{.lr = 0.05, .weight_decay = 0.1}},
      {"sophia", Sophia{.lr = 0.05, .beta1 = 0.9, .beta2 = 0.8, .gamma = 2, .weight_decay = 0.1, .k = 3}},
      {"mars", MARS{.lr = 0.05, .gamma = 0.1, .weight_decay = 0.1}},
      {"schedule free", ScheduleFree{.lr = 0.05, .weight_decay = 0.1}},
      {"schedule free weighted", ScheduleFree{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .r = 1.5}},
  };
}

/// The loss is the dot product of the parameter with an input, so that input is the gradient; with curvature, the sum
/// of p^4 / 12 is added, whose Hessian is diagonal.
Graph dot_product(const Shape& shape, bool curvature) {
  Graph graph("dot");
  const Tensor g = graph.input("g", shape), p = graph.param("p", shape);
  const Tensor dot = reduce_sum(p * g);
  graph.set_outputs({curvature ? dot + reduce_sum(square(square(p))) / 12.0 : dot});
  return graph;
}

struct Problem {
  explicit Problem(const nlohmann::json& json)
      : name(json["name"]),
        type{DType::f32, json["shape"].get<Shape>()},
        start(Array::from_doubles(type, testing::numbers(json["start"]))),
        expected(json["optimizers"]) {
    for (const auto& gradient : json["gradients"]) {
      gradients.push_back(Array::from_doubles(type, testing::numbers(gradient)));
    }
  }
  ResidentTrainer trainer(const Optimizer& optimizer, const Device& device, const CompileOptions& options = {}) const {
    return ResidentTrainer(dot_product(type.shape, optimizer->needs_curvature()), {"p"}, {{"p", start}}, optimizer,
                           device, options);
  }

  std::string name;
  TensorType type;
  Array start;
  std::vector<Array> gradients;
  nlohmann::json expected;
};

std::vector<Problem> problems() {
  const nlohmann::json document = testing::read_json("optimizer_steps.json");
  std::vector<Problem> all;
  for (const auto& json : document["problems"]) all.emplace_back(json);
  EXPECT_EQ(all.size(), 3u);
  return all;
}

// Relative to the value, or to 1 % of the largest where it is smaller.
void expect_close(const Values& reached, const Values& expected, const std::string& what) {
  ASSERT_EQ(reached.size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < reached.size(); ++i) {
    EXPECT_NEAR(reached[i], expected[i], 1e-5 * std::max(std::abs(expected[i]), 0.01 * largest)) << what << " " << i;
  }
}

std::string case_name(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

class OptimizerSteps : public ::testing::TestWithParam<std::tuple<Variant, Device>> {
 protected:
  const Variant& variant() const { return std::get<0>(GetParam()); }
  const Device& device() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Of, OptimizerSteps,
                         ::testing::Combine(::testing::ValuesIn(variants()),
                                            ::testing::ValuesIn(testing::built_devices())),
                         [](const ::testing::TestParamInfo<OptimizerSteps::ParamType>& info) {
                           return case_name(std::get<0>(info.param).name) + "On" + std::get<1>(info.param).name;
                         });

TEST_P(OptimizerSteps, EndWhereOtherImplementationsDo) {
  for (const Problem& problem : problems()) {
    ResidentTrainer trainer = problem.trainer(variant().optimizer, device());
    for (const Array& gradient : problem.gradients) trainer.step({{"g", gradient}});
    const auto& expected = problem.expected[variant().name];
    expect_close(trainer.param("p").to_doubles(), testing::numbers(expected["final"]), problem.name);
  }
}

// A graph of its own, as evaluation would be: the parameter and its slots come from the trainer.
TEST_P(OptimizerSteps, EvaluateWhereOtherImplementationsDo) {
  for (const Problem& problem : problems()) {
    const auto& expected = problem.expected[variant().name];
    if (!expected.contains("evaluated")) continue;
    ResidentTrainer trainer = problem.trainer(variant().optimizer, device());
    for (const Array& gradient : problem.gradients) trainer.step({{"g", gradient}});

    Graph graph("evaluation");
    const Tensor p = graph.input("p", problem.type.shape);
    const Array value = trainer.param("p");
    Inputs inputs{{"p", value}};
    std::vector<Tensor> slots;
    const OptimizerState state = trainer.optimizer_state();
    for (const OptimizerState::Entry& entry : state.entries) {
      slots.push_back(graph.input(entry.slot, entry.value.type().shape));
      inputs.emplace_back(entry.slot, entry.value);
    }
    graph.set_outputs({variant().optimizer->evaluation_value(graph, p, slots)});
    const Array evaluated = Session(device()).compile(graph).run(inputs).front();
    expect_close(evaluated.to_doubles(), testing::numbers(expected["evaluated"]), problem.name);
  }
}

TEST_P(OptimizerSteps, HaveTheSameBitsWithoutFusion) {
  for (const Problem& problem : problems()) {
    ResidentTrainer fused = problem.trainer(variant().optimizer, device());
    ResidentTrainer plain = problem.trainer(variant().optimizer, device(), {.fusion = false});
    for (int t = 0; t < 3; ++t) {
      const Inputs inputs{{"g", problem.gradients[t]}};
      fused.step(inputs);
      plain.step(inputs);
      EXPECT_TRUE(testing::same_bits(fused, plain)) << problem.name << " step " << t + 1;
    }
  }
}

TEST_P(OptimizerSteps, GoOnFromACheckpointWithTheSameBits) {
  const std::string path = ::testing::TempDir() + "/" + case_name(variant().name) + device().name + ".safetensors";
  for (const Problem& problem : problems()) {
    ResidentTrainer without_stop = problem.trainer(variant().optimizer, device());
    for (int t = 0; t < 5; ++t) without_stop.step({{"g", problem.gradients[t]}});
    without_stop.save(path);
    ResidentTrainer resumed = problem.trainer(variant().optimizer, device());
    resumed.load(path);
    for (int t = 5; t < 8; ++t) {
      without_stop.step({{"g", problem.gradients[t]}});
      resumed.step({{"g", problem.gradients[t]}});
    }
    EXPECT_TRUE(testing::same_bits(without_stop, resumed)) << problem.name;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace wholestep
