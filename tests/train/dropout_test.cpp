#include <gtest/gtest.h>

#include <filesystem>

#include "core/random.h"
#include "models.h"
#include "passes/passes.h"
#include "support/devices.h"
#include "train/step_inputs.h"

namespace wholestep {
namespace {

using testing::same_bits;

class Dropout : public testing::OnEachDevice {};

/// The small classifier with dropout before each layer.
Graph with_dropout(std::int64_t batch) {
  Graph graph("dropout");
  const Tensor x = graph.input("x", {batch, testing::kIn}), y = graph.input("y", {batch}, i32);
  const Tensor h = relu(nn::linear(graph, "fc1", nn::dropout(graph, x, 0.2), testing::kHidden));
  const Tensor logits = nn::linear(graph, "fc2", nn::dropout(graph, h, 0.5), testing::kClasses);
  graph.set_outputs({cross_entropy(logits, y), count_correct(logits, y)});
  return graph;
}

ResidentTrainer trainer_of(const Graph& graph, const Device& device, std::uint64_t seed) {
  ResidentTrainer trainer(graph, trainable(graph), testing::small_values(), AdamW{.lr = 0.02}, device);
  trainer.set_seed(seed);
  return trainer;
}

std::vector<float> losses(ResidentTrainer& trainer, int from, int to) {
  std::vector<float> all;
  for (int i = from; i < to; ++i) {
    all.push_back(trainer.step(testing::random_batch(16, static_cast<std::uint32_t>(i)).inputs()).loss());
  }
  return all;
}

TEST_P(Dropout, IsDeterminedByTheSeedAndTheStep) {
  const Graph graph = with_dropout(16);
  ResidentTrainer one = trainer_of(graph, GetParam(), 7), again = trainer_of(graph, GetParam(), 7),
                  other = trainer_of(graph, GetParam(), 8);
  const std::vector<float> expected = losses(one, 0, 4);
  EXPECT_EQ(losses(again, 0, 4), expected);
  EXPECT_NE(losses(other, 0, 4), expected);
  EXPECT_TRUE(same_bits(one, again));
}

TEST_P(Dropout, DrawsAnewInEveryStepOfOneBatch) {
  const Graph graph = with_dropout(16);
  ResidentTrainer trainer(graph, trainable(graph), testing::small_values(), SGD{.lr = 0}, GetParam());
  const testing::Batch batch = testing::random_batch(16, 1);
  EXPECT_NE(trainer.step(batch.inputs()).loss(), trainer.step(batch.inputs()).loss());
}

TEST_P(Dropout, IsOffInEvaluationWhichMovesNothing) {
  const Graph graph = with_dropout(16);
  ResidentTrainer trainer = trainer_of(graph, GetParam(), 7), undisturbed = trainer_of(graph, GetParam(), 7);
  ResidentTrainer plain = testing::small_trainer(AdamW{}, GetParam());
  const testing::Batch batch = testing::random_batch(16, 1);
  EXPECT_TRUE(same_bits(trainer.forward_only(batch.inputs()), plain.forward_only(batch.inputs())));
  EXPECT_EQ(losses(trainer, 0, 3), losses(undisturbed, 0, 3));
}

TEST_P(Dropout, ResumesBitForBitFromACheckpointWithItsSeed) {
  const std::string path = ::testing::TempDir() + "dropout_" + GetParam().name + ".safetensors";
  const Graph graph = with_dropout(16);
  ResidentTrainer whole = trainer_of(graph, GetParam(), 0xfedcba9876543210), half = trainer_of(graph, GetParam(), 0);
  losses(whole, 0, 3);
  whole.save(path);
  half.load(path);
  EXPECT_EQ(half.seed(), 0xfedcba9876543210U);
  EXPECT_EQ(losses(half, 3, 6), losses(whole, 3, 6));
  EXPECT_TRUE(same_bits(whole, half));
  std::filesystem::remove(path);
}

TEST_P(Dropout, TakesTheHighWordOfALongStepCount) {
  const Graph graph = with_dropout(16);
  ResidentTrainer near(graph, trainable(graph), testing::small_values(), SGD{.lr = 0}, GetParam());
  ResidentTrainer far(graph, trainable(graph), testing::small_values(), SGD{.lr = 0}, GetParam());
  OptimizerState state = far.optimizer_state();
  state.steps = std::int64_t{1} << 32;
  far.restore_optimizer_state(state);
  EXPECT_NE(losses(near, 0, 1), losses(far, 0, 1));
}

INSTANTIATE_TEST_SUITE_P(Train, Dropout, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST(DropoutInEvaluation, ComputesNoMasks) {
  const Graph graph = with_dropout(8);
  const auto masks = [](const Graph& in) { return passes::run_pipeline(in).nodes_of("random_bits").size(); };
  EXPECT_EQ(masks(train::in_mode(graph, true)), 2U);
  EXPECT_EQ(masks(train::in_mode(graph, false)), 0U);
}

TEST(DropoutInTraining, RefusesAGraphWhoseStepInputsAreSomethingElse) {
  Graph graph = testing::small_classifier(4);
  graph.input(std::string(nn::kStepTraining), {3});
  testing::expect_error(ErrorCode::duplicate_name, {"step/training", "f32[3]"}, [&] {
    ResidentTrainer(graph, trainable(graph), testing::small_values(), SGD{}, Device::reference());
  });
}

}  // namespace
}  // namespace wholestep
