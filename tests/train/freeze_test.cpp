#include <gtest/gtest.h>

#include <set>

#include "support/devices.h"
#include "train/models.h"

namespace wholestep {
namespace {

using namespace testing;

class Frozen : public OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, Frozen, ::testing::ValuesIn(built_devices()), device_name);

/// Those with state or scalars that others do not have, then every one by name.
std::vector<Optimizer> optimizers() {
  std::vector<Optimizer> all{SGD{.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1}, Adam{.weight_decay = 0.1}};
  for (const std::string& name : optimizer_names()) all.push_back(optimizer_by_name(name));
  all.push_back(groups({{"*.bias", SGD{.lr = 0.1, .momentum = 0.9}}}, SOAP{.precondition_frequency = 2}));
  return all;
}

TEST_P(Frozen, ParameterAndItsStateDoNotMoveByABit) {
  for (const Optimizer& optimizer : optimizers()) {
    ResidentTrainer trainer = small_trainer(optimizer, GetParam());
    for (int i = 0; i < 2; ++i) trainer.step(random_batch(16, i).inputs());
    const Array before = trainer.param("fc1.weight");
    const OptimizerState state = trainer.optimizer_state();
    EXPECT_FALSE(trainer.is_frozen("fc1.weight"));
    trainer.set_frozen("fc1.weight", true);
    EXPECT_TRUE(trainer.is_frozen("fc1.weight"));
    for (int i = 2; i < 5; ++i) trainer.step(random_batch(16, i).inputs());

    EXPECT_TRUE(trainer.param("fc1.weight").same_bits(before)) << optimizer->name();
    const OptimizerState after = trainer.optimizer_state();
    std::set<std::string> moved;
    for (std::size_t i = 0; i < after.entries.size(); ++i) {
      if (!after.entries[i].value.same_bits(state.entries[i].value)) moved.insert(after.entries[i].param);
    }
    EXPECT_FALSE(moved.contains("fc1.weight")) << optimizer->name();
    EXPECT_EQ(moved.size(), after.entries.empty() ? 0u : 3u) << optimizer->name();
    EXPECT_EQ(after.param_steps, (std::vector<std::int64_t>{2, 5, 5, 5}));
    EXPECT_EQ(after.steps, 5);
  }
}

// A gradient that does not depend on the parameter makes the steps of the two histories comparable. Random numbers are
// those of the trainer's step, so that Kron, which needs them, is not.
TEST_P(Frozen, ParameterResumesAsIfTheFrozenStepsHadNotBeenOffered) {
  const std::string a = "first.weight", b = "second.bias";
  Graph graph("independent");
  const Tensor g = graph.input("g", {3, 2});
  graph.set_outputs({reduce_sum(graph.param(a, {3, 2}) * g) + reduce_sum(graph.param(b, {3, 2}) * g)});
  const NamedArrays start = initial_values(graph, 7);
  const std::vector<std::vector<float>> gradients{{1, -2, 3, 2, 0.5, 1},
                                                  {0.5, 1, 2, -1, 1, 0.25},
                                                  {-1, 1, 1, 3, -0.5, 2},
                                                  {2, 0.25, -3, 1, 1, -1},
                                                  {1, 1, -1, 0.5, 2, -3}};
  for (const Optimizer& optimizer : optimizers()) {
    if (optimizer->name() == "kron") continue;
    ResidentTrainer frozen(graph, {a, b}, start, optimizer, GetParam());
    ResidentTrainer without(graph, {a, b}, start, optimizer, GetParam());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const bool offered = i != 0 && i != 2;
      frozen.set_frozen(a, !offered);
      frozen.step({{"g", gradients[i]}});
      if (offered) without.step({{"g", gradients[i]}});
    }
    EXPECT_TRUE(frozen.param(a).same_bits(without.param(a))) << optimizer->name();
    EXPECT_FALSE(frozen.param(b).same_bits(without.param(b))) << optimizer->name();
    EXPECT_EQ(frozen.optimizer_state().param_steps, (std::vector<std::int64_t>{3, 5}));
  }
}

TEST_P(Frozen, IsRefusedForANameThatIsNotTrainable) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam(), 16, {"fc1.weight"});
  for (const char* name : {"fc1.bias", "x", "nothing", ""}) {
    const std::vector<std::string> parts{'"' + std::string(name) + '"', "trainable: \"fc1.weight\""};
    expect_error(ErrorCode::unknown_name, parts, [&] { trainer.set_frozen(name, true); });
    expect_error(ErrorCode::unknown_name, parts, [&] { trainer.is_frozen(name); });
  }
}

TEST_P(Frozen, ParameterSurvivesAGradientThatIsNotFinite) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam());
  for (const std::string& name : trainer.trainable()) trainer.set_frozen(name, true);
  Batch batch = random_batch(16, 1);
  batch.x[0] = INFINITY;
  trainer.step(batch.inputs());
  EXPECT_TRUE(same_bits(trainer.params(), small_values()));
  for (const auto& entry : trainer.optimizer_state().entries)
    EXPECT_TRUE(entry.value.same_bits(Array(entry.value.type())));
}

}  // namespace
}  // namespace wholestep
