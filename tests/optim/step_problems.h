#pragma once
// The optimizers and problems of tests/tools/make_optimizer_steps.py, which says where others end after twenty steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "support/json_values.h"
#include "wholestep/ops.h"
#include "wholestep/trainer.h"

namespace wholestep::testing {

struct Variant {
  std::string name;  // in the file
  Optimizer optimizer;
};

inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

inline std::vector<Variant> step_variants() {
  const AdamW rest{.lr = 0.01, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
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
      {"muon", Muon{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .rest = rest}},
      {"muon without nesterov", Muon{.lr = 0.05, .nesterov = false, .rest = rest}},
      {"soap", SOAP{.lr = 0.05, .beta1 = 0.9, .weight_decay = 0.1, .precondition_frequency = 4}},
      {"soap for one axis",
       SOAP{.lr = 0.05, .beta1 = 0.9, .shampoo_beta = 0.8, .weight_decay = 0, .max_precond_dim = 4}},
      {"kron", Kron{.lr = 0.05, .weight_decay = 0.1}},
      {"sophia", Sophia{.lr = 0.05, .beta1 = 0.9, .beta2 = 0.8, .gamma = 2, .weight_decay = 0.1, .k = 3}},
      {"mars", MARS{.lr = 0.05, .gamma = 0.1, .eps = 1e-14, .weight_decay = 0.1}},
      {"schedule free", ScheduleFree{.lr = 0.05, .weight_decay = 0.1}},
      {"schedule free weighted", ScheduleFree{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .r = 1.5}},
  };
}

struct Problem {
  explicit Problem(const nlohmann::json& json)
      : name(json["name"]),
        shape(json["shape"].get<Shape>()),
        start(numbers(json["start"])),
        expected(json["optimizers"]) {
    for (const auto& gradient : json["gradients"]) gradients.push_back(numbers(gradient));
  }

  /// The loss is the dot product of the parameter "p" with the input "g", so that input is the gradient; with
  /// curvature, (sum of p^2)^2 / 8 is added.
  Graph graph(DType dtype, bool curvature) const {
    Graph graph("dot");
    const Tensor g = graph.input("g", shape, dtype), p = graph.param("p", shape, dtype);
    const Tensor dot = reduce_sum(p * g);
    graph.set_outputs({curvature ? dot + square(reduce_sum(square(p))) / 8.0 : dot});
    return graph;
  }
  NamedArrays initial(DType dtype) const { return {{"p", Array::from_doubles({dtype, shape}, start)}}; }
  /// The gradient of step `t`, from 0.
  Array gradient(std::size_t t, DType dtype = DType::f32) const {
    return Array::from_doubles({dtype, shape}, gradients[t]);
  }
  ResidentTrainer trainer(const Optimizer& optimizer, const Device& device, const CompileOptions& options = {},
                          DType dtype = DType::f32) const {
    return ResidentTrainer(graph(dtype, optimizer->needs_curvature()), {"p"}, initial(dtype), optimizer, device,
                           options);
  }

  std::string name;
  Shape shape;
  std::vector<double> start;
  std::vector<std::vector<double>> gradients;
  nlohmann::json expected;
};

inline std::vector<Problem> step_problems() {
  const nlohmann::json document = read_json("optimizer_steps.json");
  std::vector<Problem> all;
  for (const auto& json : document["problems"]) all.emplace_back(json);
  EXPECT_EQ(all.size(), 4u);
  return all;
}

/// Relative to the value, or to 1 % of the largest where it is smaller.
inline void expect_close(const std::vector<double>& reached, const std::vector<double>& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(reached.size(), expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < reached.size(); ++i) {
    EXPECT_NEAR(reached[i], expected[i], tolerance * std::max(std::abs(expected[i]), 0.01 * largest))
        << what << " " << i;
  }
}

}  // namespace wholestep::testing
