// One trainer whose parameters have four optimizers, two of them with refreshes: each parameter goes where it goes with
// its optimizer alone, on all devices and paths.
#include <gtest/gtest.h>

#include <cstdio>

#include "optim/step_problems.h"
#include "support/devices.h"
#include "train/models.h"
#include "wholestep/training_session.h"

namespace wholestep {
namespace {

using testing::Problem;

/// The optimizer of each problem's parameter.
const char* optimizer_of(const Problem& problem) {
  if (problem.name == "matrix") return "soap";
  if (problem.name == "kernel") return "muon";
  return problem.name == "scalar" ? "sophia" : "adamw";
}

class MixedGroups : public testing::OnEachDevice {
 protected:
  MixedGroups() {
    for (const Problem& problem : problems) {
      const Tensor p = graph.param(problem.name, problem.shape), g = graph.input("g/" + problem.name, problem.shape);
      const Tensor dot = reduce_sum(p * g);
      loss = loss.valid() ? loss + dot : dot;
      // The term with curvature is of the parameter whose optimizer has it in the file.
      if (optimizer_of(problem) == std::string("sophia")) loss = loss + square(reduce_sum(square(p))) / 8.0;
      names.push_back(problem.name);
      start.emplace_back(problem.name, Array::from_doubles({DType::f32, problem.shape}, problem.start));
    }
    graph.set_outputs({loss});
    std::vector<ParameterGroup> groups;
    for (const testing::Variant& variant : testing::step_variants()) {
      for (const Problem& problem : problems) {
        if (optimizer_of(problem) != variant.name) continue;
        if (variant.name == "adamw") {
          rest = variant.optimizer;
        } else {
          groups.push_back({problem.name.substr(0, 2) + "*", variant.optimizer});
        }
      }
    }
    optimizer = wholestep::groups(groups, rest);
  }

  /// What `take` gets are the inputs of step `t`.
  template <class Take>
  void with_gradients(std::size_t t, Take take) const {
    NamedArrays values;
    for (const Problem& problem : problems) values.emplace_back("g/" + problem.name, problem.gradient(t));
    take(Inputs(values.begin(), values.end()));
  }
  ResidentTrainer trainer(const CompileOptions& options = {}) const {
    return ResidentTrainer(graph, names, start, optimizer, GetParam(), options);
  }

  const std::vector<Problem> problems = testing::step_problems();
  Graph graph{"mixed"};
  Tensor loss;
  std::vector<std::string> names;
  NamedArrays start;
  Optimizer rest, optimizer;
};
INSTANTIATE_TEST_SUITE_P(On, MixedGroups, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(MixedGroups, EndWhereOtherImplementationsDo) {
  ResidentTrainer mixed = trainer();
  for (std::size_t t = 0; t < 20; ++t) with_gradients(t, [&](const Inputs& inputs) { mixed.step(inputs); });
  for (const Problem& problem : problems) {
    testing::expect_close(mixed.param(problem.name).to_doubles(),
                          testing::numbers(problem.expected[optimizer_of(problem)]["final"]), 1e-5, problem.name);
  }
}

TEST_P(MixedGroups, HaveTheSameBitsWithoutFusion) {
  ResidentTrainer fused = trainer(), plain = trainer({.fusion = false});
  for (std::size_t t = 0; t < 4; ++t) {
    with_gradients(t, [&](const Inputs& inputs) { fused.step(inputs), plain.step(inputs); });
    EXPECT_TRUE(testing::same_bits(fused, plain)) << "step " << t + 1;
  }
}

TEST_P(MixedGroups, HaveTheSameBitsOnTheHostClippedAndAveraged) {
  const TrainConfig config{.optimizer = optimizer, .update = {.clip_norm = 3, .ema_decay = 0.9}};
  TrainingSession host(graph, names, start, config, GetParam()), fused(graph, names, start, config, GetParam());
  fused.with_fused_optimizer();
  for (std::size_t t = 0; t < 4; ++t) {
    with_gradients(t, [&](const Inputs& inputs) { EXPECT_EQ(host.step(inputs).loss, fused.step(inputs).loss); });
    EXPECT_TRUE(testing::same_bits(host.params(), fused.params())) << "step " << t + 1;
    EXPECT_TRUE(testing::same_bits(host.averages(), fused.averages())) << "step " << t + 1;
    EXPECT_TRUE(testing::same_bits(host.optimizer_state(), fused.optimizer_state())) << "step " << t + 1;
  }
}

// Of the steps after the checkpoint, the sixth renews SOAP's bases and the seventh Sophia's curvature.
TEST_P(MixedGroups, GoOnFromACheckpointWithTheSameBits) {
  const std::string path = ::testing::TempDir() + "/mixed" + GetParam().name + ".safetensors";
  ResidentTrainer without_stop = trainer(), resumed = trainer();
  for (std::size_t t = 0; t < 5; ++t) with_gradients(t, [&](const Inputs& inputs) { without_stop.step(inputs); });
  without_stop.save(path);
  resumed.load(path);
  for (std::size_t t = 5; t < 8; ++t) {
    with_gradients(t, [&](const Inputs& inputs) { without_stop.step(inputs), resumed.step(inputs); });
  }
  EXPECT_TRUE(testing::same_bits(without_stop, resumed));
  std::remove(path.c_str());
}

}  // namespace
}  // namespace wholestep
