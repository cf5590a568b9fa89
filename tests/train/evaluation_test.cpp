#include <gtest/gtest.h>

#include <cmath>

#include "support/devices.h"
#include "train/models.h"
#include "train/step_graph.h"

namespace wholestep {
namespace {

using namespace testing;

class Evaluation : public OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, Evaluation, ::testing::ValuesIn(built_devices()), device_name);

TEST_P(Evaluation, LeavesTheTrajectoryBitIdentical) {
  ResidentTrainer plain = small_trainer(AdamW{.lr = 0.05}, GetParam());
  ResidentTrainer evaluated = small_trainer(AdamW{.lr = 0.05}, GetParam());
  for (int i = 0; i < 6; ++i) {
    const Batch batch = random_batch(16, i);
    evaluated.forward_only(random_batch(16, 100 + i).inputs());
    const StepResult a = plain.step(batch.inputs()), b = evaluated.step(batch.inputs());
    EXPECT_TRUE(same_bits(a, b)) << i;
  }
  EXPECT_TRUE(same_bits(plain, evaluated));
  EXPECT_EQ(evaluated.steps(), 6);
}

TEST_P(Evaluation, GivesTheLossOfTheNextStep) {
  ResidentTrainer trainer = small_trainer(AdamW{.lr = 0.05}, GetParam());
  for (int i = 0; i < 3; ++i) {
    const Batch batch = random_batch(16, i);
    const StepResult seen = trainer.forward_only(batch.inputs());
    EXPECT_TRUE(same_bits(seen, trainer.step(batch.inputs())));
  }
}

TEST(EvaluationGraph, HasTheForwardProductsAloneAndNoUpdate) {
  const Graph forward = small_classifier(16);
  const std::vector<std::string> names = trainable(forward);
  const Optimizer optimizer = AdamW{};
  const auto rules = train::rules_of(*optimizer, forward, names);
  const Graph step = train::make_step_graph(forward, names, rules);
  EXPECT_EQ(step.nodes_of("matmul").size(), 5u) << "two forward, two for weights, one for the hidden layer";
  EXPECT_EQ(step.updates().size(), 4u * 3);
  for (const Weights weights : {Weights::trained, Weights::average}) {
    const Graph evaluation = train::make_evaluation_graph(forward, names, rules, weights);
    EXPECT_EQ(evaluation.nodes_of("matmul").size(), 2u);
    EXPECT_TRUE(evaluation.updates().empty());
    EXPECT_EQ(evaluation.outputs().size(), 2u);
  }
}

TEST(EvaluationGraph, DropsTheUpdatesOfTheGraphsOwnStates) {
  Graph forward = small_classifier(16);
  const Tensor count = forward.state("count", {});
  forward.set_update(count, count + 1.0);
  const std::vector<std::string> names = trainable(forward);
  const Optimizer optimizer = AdamW{};
  const auto rules = train::rules_of(*optimizer, forward, names);
  EXPECT_TRUE(train::make_evaluation_graph(forward, names, rules, Weights::trained).updates().empty());
}

Inputs as_inputs(const NamedArrays& values) { return {values.begin(), values.end()}; }

// Schedule-free AdamW trains y and evaluates x = y + (1 - 1 / beta1) (z - y).
TEST_P(Evaluation, UsesWhatTheOptimizerSaysInPlaceOfTheParameters) {
  ResidentTrainer trainer = small_trainer(ScheduleFree{.lr = 0.05, .beta1 = 0.8}, GetParam());
  const Batch batch = random_batch(16, 50);
  EXPECT_TRUE(same_bits(trainer.forward_only(batch.inputs()), trainer.forward_only(batch.inputs())));
  for (int i = 0; i < 5; ++i) trainer.step(random_batch(16, i).inputs());

  const NamedArrays held = trainer.params();
  NamedArrays expected = held;
  const OptimizerState state = trainer.optimizer_state();
  for (auto& [name, value] : expected) {
    for (const OptimizerState::Entry& entry : state.entries) {
      if (entry.param != name || entry.slot != "z_minus_y") continue;
      const std::span<float> x = value.as<float>();
      const std::span<const float> d = entry.value.as<float>();
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += (1 - 1 / 0.8F) * d[i];
    }
  }
  ResidentTrainer plain = small_trainer(SGD{}, GetParam());
  plain.set_params(as_inputs(held));
  const float trained = plain.forward_only(batch.inputs()).loss();
  plain.set_params(as_inputs(expected));
  const float evaluated = trainer.forward_only(batch.inputs()).loss();
  EXPECT_NEAR(evaluated, plain.forward_only(batch.inputs()).loss(), 1e-6);
  EXPECT_GT(std::abs(evaluated - trained), 1e-4);
}

class Specialised : public OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, Specialised, ::testing::ValuesIn(built_devices()), device_name);

// The same sequence of batches in trainers that are handed the state from one to the next.
TEST_P(Specialised, ProgramsMoveOneState) {
  ResidentTrainer both = small_trainer(AdamW{.lr = 0.05}, GetParam(), 16);
  both.specialise(small_classifier(5));
  ResidentTrainer large = small_trainer(AdamW{.lr = 0.05}, GetParam(), 16);
  ResidentTrainer small = small_trainer(AdamW{.lr = 0.05}, GetParam(), 5);
  ResidentTrainer* current = &large;
  int seed = 0;
  for (const int size : {16, 5, 5, 16, 5}) {
    ResidentTrainer* next = size == 16 ? &large : &small;
    if (next != current) {
      const NamedArrays params = current->params();
      next->set_params(Inputs(params.begin(), params.end()));
      next->restore_optimizer_state(current->optimizer_state());
      current = next;
    }
    const Batch batch = random_batch(size, seed++);
    EXPECT_TRUE(same_bits(both.step(batch.inputs()), current->step(batch.inputs()))) << seed;
    EXPECT_TRUE(same_bits(both.forward_only(batch.inputs()), current->forward_only(batch.inputs()))) << seed;
  }
  EXPECT_TRUE(same_bits(both, *current));
}

TEST_P(Specialised, ProgramsAreBuiltForNewBatchSizesByTheBuilder) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam(), 16);
  std::vector<std::int64_t> built;
  trainer.set_graph_builder([&](std::int64_t batch) {
    built.push_back(batch);
    return small_classifier(batch);
  });
  for (const int size : {16, 4, 16, 4, 1, 4}) trainer.step(random_batch(size, size).inputs());
  trainer.forward_only(random_batch(4, 1).inputs());
  trainer.forward_only(random_batch(7, 1).inputs());
  EXPECT_EQ(built, (std::vector<std::int64_t>{4, 1, 7}));
  expect_error(ErrorCode::shape_mismatch, {"no examples", "f32[0]"},
               [&] { trainer.step(random_batch(0, 1).inputs()); });
  EXPECT_EQ(trainer.steps(), 6);
}

TEST_P(Specialised, BuilderIsNotAskedWhereMoreThanTheBatchDiffers) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam(), 16);
  trainer.set_graph_builder([](std::int64_t) -> Graph { throw std::logic_error("asked"); });
  const Batch batch = random_batch(8, 1);
  const Array wide(DType::f32, {8, 7});
  const std::vector<float> odd(47);
  const std::vector<std::int32_t> nine(9);
  expect_error(ErrorCode::shape_mismatch, {"\"x\"", "f32[8, 7]"}, [&] { trainer.step({{"x", wide}, {"y", batch.y}}); });
  expect_error(ErrorCode::wrong_length, {"\"x\"", "47"}, [&] { trainer.step({{"x", odd}, {"y", batch.y}}); });
  expect_error(ErrorCode::wrong_length, {"\"x\""}, [&] { trainer.step({{"x", batch.x}, {"y", nine}}); });
  expect_error(ErrorCode::unknown_name, {"\"z\""}, [&] { trainer.step({{"z", batch.x}, {"y", batch.y}}); });
  const Batch full = random_batch(16, 1);
  expect_error(ErrorCode::dtype_mismatch, {"\"y\""}, [&] { trainer.step({{"x", full.x}, {"y", batch.x}}); });
}

TEST_P(Specialised, ABuilderThatMakesAnotherBatchThanItWasAskedForIsNamed) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam(), 16);
  trainer.set_graph_builder([](std::int64_t) { return small_classifier(5); });
  const Batch batch = random_batch(4, 1);
  expect_error(ErrorCode::shape_mismatch, {"graph builder", "extent of 4", "f32[5, 6]", "\"x\"", "f32[24]"},
               [&] { trainer.step(batch.inputs()); });
  EXPECT_EQ(trainer.steps(), 0);
}

TEST_P(Specialised, RefusesAnotherModel) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam(), 16);
  Graph more = small_classifier(4);
  more.param("extra", {1});
  expect_error(ErrorCode::checkpoint_mismatch, {"\"extra\""}, [&] { trainer.specialise(more); });
  Graph fewer = small_classifier(4);
  fewer.set_outputs({fewer.tensor(fewer.outputs()[0])});
  expect_error(ErrorCode::checkpoint_mismatch, {"1 outputs, expected 2"}, [&] { trainer.specialise(fewer); });
  expect_error(ErrorCode::checkpoint_mismatch, {"fc1.weight"}, [&] { trainer.specialise(models::mlp(4)); });
  Graph stateful = small_classifier(4);
  stateful.state("count", {});
  expect_error(ErrorCode::checkpoint_mismatch, {"\"count\""}, [&] { trainer.specialise(stateful); });
  expect_error(ErrorCode::invalid_argument, {"already"}, [&] { trainer.specialise(small_classifier(16)); });
  trainer.step(random_batch(16, 1).inputs());
}

}  // namespace
}  // namespace wholestep
