// Every optimizer on problems with given gradients: against others, on all devices, in all types, on both paths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "optim/step_problems.h"
#include "support/devices.h"
#include "train/models.h"
#include "wholestep/session.h"
#include "wholestep/training_session.h"

namespace wholestep {
namespace {

using testing::expect_close;
using testing::numbers;
using testing::Problem;
using testing::Variant;

std::string case_name(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

class OptimizerSteps : public ::testing::TestWithParam<std::tuple<Variant, Device>> {
 protected:
  const Variant& variant() const { return std::get<0>(GetParam()); }
  const Device& device() const { return std::get<1>(GetParam()); }
  std::vector<double> final_values(const Problem& problem, DType dtype) const {
    ResidentTrainer trainer = problem.trainer(variant().optimizer, device(), {}, dtype);
    for (std::size_t t = 0; t < problem.gradients.size(); ++t) trainer.step({{"g", problem.gradient(t, dtype)}});
    return trainer.param("p").to_doubles();
  }
  std::vector<double> expected(const Problem& problem) const {
    return numbers(problem.expected[variant().name]["final"]);
  }

  const std::vector<Problem> problems = testing::step_problems();
};
INSTANTIATE_TEST_SUITE_P(Of, OptimizerSteps,
                         ::testing::Combine(::testing::ValuesIn(testing::step_variants()),
                                            ::testing::ValuesIn(testing::built_devices())),
                         [](const ::testing::TestParamInfo<OptimizerSteps::ParamType>& info) {
                           return case_name(std::get<0>(info.param).name) + "On" + std::get<1>(info.param).name;
                         });

TEST_P(OptimizerSteps, EndWhereOtherImplementationsDo) {
  for (const Problem& problem : problems) {
    expect_close(final_values(problem, DType::f32), expected(problem), 1e-5, problem.name);
  }
}

// Learning rate and scalars are f32 inputs, so the steps are not closer than that.
TEST_P(OptimizerSteps, EndThereInF64) {
  for (const Problem& problem : problems) {
    expect_close(final_values(problem, DType::f64), expected(problem), 1e-6, problem.name);
  }
}

// Start and gradients are numbers of bf16. A gradient with curvature is computed in bf16 too, and not the same.
TEST_P(OptimizerSteps, InBf16AreThoseOfF32RoundedOnce) {
  if (variant().optimizer->needs_curvature()) GTEST_SKIP();
  for (const Problem& problem : problems) {
    ResidentTrainer exact = problem.trainer(variant().optimizer, device());
    ResidentTrainer rounded = problem.trainer(variant().optimizer, device(), {}, DType::bf16);
    exact.step({{"g", problem.gradient(0)}});
    rounded.step({{"g", problem.gradient(0, DType::bf16)}});
    EXPECT_TRUE(testing::same_bits(exact.optimizer_state(), rounded.optimizer_state())) << problem.name;
    const Array expected = Array::from_doubles({DType::bf16, problem.shape}, exact.param("p").to_doubles());
    EXPECT_TRUE(rounded.param("p").same_bits(expected)) << problem.name;
  }
}

// The parameter is rounded once per step: by at most half an ulp, 2^-8 of its magnitude.
TEST_P(OptimizerSteps, EndNearThereInBf16) {
  for (const Problem& problem : problems) {
    const std::vector<double> reached = final_values(problem, DType::bf16), expected = this->expected(problem);
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const double magnitude = std::max({0.1, std::abs(problem.start[i]), std::abs(expected[i])});
      EXPECT_NEAR(reached[i], expected[i], 20 * 0x1p-8 * magnitude) << problem.name << " " << i;
    }
  }
}

// A graph of its own, as evaluation would be: the parameter and its slots come from the trainer.
TEST_P(OptimizerSteps, EvaluateWhereOtherImplementationsDo) {
  for (const Problem& problem : problems) {
    const auto& expected = problem.expected[variant().name];
    if (!expected.contains("evaluated")) continue;
    ResidentTrainer trainer = problem.trainer(variant().optimizer, device());
    for (std::size_t t = 0; t < problem.gradients.size(); ++t) trainer.step({{"g", problem.gradient(t)}});

    Graph graph("evaluation");
    const Tensor p = graph.input("p", problem.shape);
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
    expect_close(evaluated.to_doubles(), numbers(expected["evaluated"]), 1e-5, problem.name);
  }
}

TEST_P(OptimizerSteps, HaveTheSameBitsWithoutFusion) {
  for (const Problem& problem : problems) {
    ResidentTrainer fused = problem.trainer(variant().optimizer, device());
    ResidentTrainer plain = problem.trainer(variant().optimizer, device(), {.fusion = false});
    for (std::size_t t = 0; t < 3; ++t) {
      fused.step({{"g", problem.gradient(t)}});
      plain.step({{"g", problem.gradient(t)}});
      EXPECT_TRUE(testing::same_bits(fused, plain)) << problem.name << " step " << t + 1;
    }
  }
}

TEST_P(OptimizerSteps, HaveTheSameBitsOnTheHost) {
  for (const Problem& problem : problems) {
    const Graph graph = problem.graph(DType::f32, variant().optimizer->needs_curvature());
    const auto session = [&] {
      return TrainingSession(graph, {"p"}, problem.initial(DType::f32), {.optimizer = variant().optimizer}, device());
    };
    TrainingSession host = session(), fused = session();
    fused.with_fused_optimizer();
    for (std::size_t t = 0; t < 3; ++t) {
      EXPECT_EQ(host.step({{"g", problem.gradient(t)}}).loss, fused.step({{"g", problem.gradient(t)}}).loss)
          << problem.name;
      EXPECT_TRUE(testing::same_bits(host.params(), fused.params())) << problem.name << " step " << t + 1;
      EXPECT_TRUE(testing::same_bits(host.optimizer_state(), fused.optimizer_state()))
          << problem.name << " step " << t + 1;
    }
  }
}

TEST_P(OptimizerSteps, GoOnFromACheckpointWithTheSameBits) {
  const std::string path = ::testing::TempDir() + "/" + case_name(variant().name) + device().name + ".safetensors";
  for (const Problem& problem : problems) {
    ResidentTrainer without_stop = problem.trainer(variant().optimizer, device());
    for (std::size_t t = 0; t < 5; ++t) without_stop.step({{"g", problem.gradient(t)}});
    without_stop.save(path);
    ResidentTrainer resumed = problem.trainer(variant().optimizer, device());
    resumed.load(path);
    for (std::size_t t = 5; t < 8; ++t) {
      without_stop.step({{"g", problem.gradient(t)}});
      resumed.step({{"g", problem.gradient(t)}});
    }
    EXPECT_TRUE(testing::same_bits(without_stop, resumed)) << problem.name;
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace wholestep
