// Micro-batches on the device, then one step by their mean.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/devices.h"
#include "support/folder.h"
#include "train/models.h"

namespace wholestep {
namespace {

using namespace testing;

class Accumulation : public OnEachDevice {
 protected:
  ResidentTrainer trainer(const Optimizer& optimizer, int batch, const UpdateOptions& update = {},
                          Precision precision = Precision::f32) const {
    return small_trainer(optimizer, GetParam(), batch, {}, update, precision);
  }
  const Folder folder_;
};
INSTANTIATE_TEST_SUITE_P(On, Accumulation, ::testing::ValuesIn(built_devices()), device_name);

/// `batch` cut into `count` equal ones.
std::vector<Batch> cut(const Batch& batch, std::size_t count) {
  const std::size_t size = batch.y.size() / count;
  std::vector<Batch> parts(count);
  for (std::size_t i = 0; i < batch.y.size(); ++i) {
    Batch& part = parts[i / size];
    part.y.push_back(batch.y[i]);
    part.x.insert(part.x.end(), batch.x.begin() + static_cast<std::ptrdiff_t>(i * kIn),
                  batch.x.begin() + static_cast<std::ptrdiff_t>((i + 1) * kIn));
  }
  return parts;
}

double accumulate(ResidentTrainer& trainer, const std::vector<Batch>& parts) {
  double loss = 0;
  for (const Batch& part : parts) loss += trainer.accumulate(part.inputs()) / static_cast<double>(parts.size());
  return loss;
}

/// The largest difference of two lists of values, relative to the largest value of each array.
double relative_difference(const NamedArrays& a, const NamedArrays& b) {
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const std::vector<double> x = a[k].second.to_doubles(), y = b[k].second.to_doubles();
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(x[i]));
      difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

TEST_P(Accumulation, EightMicroBatchesOf8EqualOneBatchOf64) {
  const Batch batch = random_batch(64, 3);
  ResidentTrainer whole = trainer(SGD{.lr = 0.1, .momentum = 0.9}, 64),
                  parts = trainer(SGD{.lr = 0.1, .momentum = 0.9}, 8);
  for (int i = 0; i < 3; ++i) {
    const double loss = accumulate(parts, cut(batch, 8));
    EXPECT_EQ(parts.pending_accumulation(), 8);
    EXPECT_EQ(parts.step_accumulated(), 8);
    const double expected = whole.step(batch.inputs()).loss();
    EXPECT_NEAR(loss, expected, 1e-6 * expected);
    EXPECT_LT(relative_difference(whole.params(), parts.params()), 1e-6);
  }
  EXPECT_EQ(parts.steps(), 3);
}

TEST_P(Accumulation, OfOneMicroBatchIsAStepBitForBit) {
  for (const UpdateOptions& update : {UpdateOptions{}, UpdateOptions{.clip_norm = 0.1, .ema_decay = 0.9}}) {
    ResidentTrainer plain = trainer(AdamW{.lr = 0.05}, 16, update),
                    accumulated = trainer(AdamW{.lr = 0.05}, 16, update);
    for (int i = 0; i < 3; ++i) {
      const Batch batch = random_batch(16, i);
      EXPECT_EQ(accumulated.accumulate(batch.inputs()), plain.step(batch.inputs()).loss());
      EXPECT_EQ(accumulated.step_accumulated(), 1);
    }
    EXPECT_TRUE(same_bits(plain, accumulated));
  }
}

TEST_P(Accumulation, MovesNeitherWeightsNorStateNorCounters) {
  ResidentTrainer trainer = this->trainer(AdamW{.lr = 0.05}, 16, {.ema_decay = 0.9});
  trainer.step(random_batch(16, 0).inputs());
  const NamedArrays params = trainer.params(), averages = trainer.averages();
  const OptimizerState state = trainer.optimizer_state();
  for (int i = 1; i < 4; ++i) trainer.accumulate(random_batch(16, i).inputs());
  EXPECT_TRUE(same_bits(trainer.params(), params));
  EXPECT_TRUE(same_bits(trainer.averages(), averages));
  EXPECT_TRUE(same_bits(trainer.optimizer_state(), state));
}

TEST_P(Accumulation, OfNothingIsNoStep) {
  ResidentTrainer trainer = this->trainer(AdamW{}, 16);
  const NamedArrays params = trainer.params();
  EXPECT_EQ(trainer.pending_accumulation(), 0);
  EXPECT_EQ(trainer.step_accumulated(), 0);
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_TRUE(same_bits(trainer.params(), params));
}

TEST_P(Accumulation, ForgetsTheGradientsOfTheStepBefore) {
  ResidentTrainer one = trainer(SGD{.lr = 0.1}, 8), other = trainer(SGD{.lr = 0.1}, 8);
  accumulate(one, cut(random_batch(16, 1), 2));
  EXPECT_EQ(one.drop_accumulation(), 2);
  EXPECT_EQ(one.pending_accumulation(), 0);
  for (ResidentTrainer* each : {&one, &other}) {
    accumulate(*each, cut(random_batch(16, 2), 2));
    each->step_accumulated();
  }
  EXPECT_TRUE(same_bits(one, other));
}

TEST_P(Accumulation, WithFrozenParametersClippingAveragesAndLossScaleEqualsTheWholeBatch) {
  const UpdateOptions update{.loss_scaling = LossScaling{.initial = 256, .interval = 2},
                             .clip_value = 0.2,
                             .clip_norm = 0.05,
                             .ema_decay = 0.5};
  const Batch batch = random_batch(64, 3);
  for (const auto& [precision, tolerance] : {std::pair(Precision::f32, 1e-6), {Precision::mixed_f16, 2e-4}}) {
    ResidentTrainer whole = trainer(SGD{.lr = 0.5}, 64, update, precision),
                    parts = trainer(SGD{.lr = 0.5}, 16, update, precision);
    for (ResidentTrainer* each : {&whole, &parts}) each->set_frozen("fc1.bias", true);
    for (int i = 0; i < 3; ++i) {
      whole.step(batch.inputs());
      accumulate(parts, cut(batch, 4));
      parts.step_accumulated();
    }
    EXPECT_LT(relative_difference(whole.params(), parts.params()), tolerance) << to_string(precision);
    EXPECT_LT(relative_difference(whole.averages(), parts.averages()), tolerance) << to_string(precision);
    EXPECT_TRUE(find(small_values(), "fc1.bias")->same_bits(parts.param("fc1.bias")));
    EXPECT_EQ(parts.loss_scale(), 512);
    EXPECT_EQ(whole.loss_scale(), 512);
  }
}

TEST_P(Accumulation, ANaNInOneMicroBatchSkipsTheWholeStep) {
  ResidentTrainer trainer = this->trainer(AdamW{}, 8, {.loss_scaling = LossScaling{.initial = 256}});
  std::vector<Batch> parts = cut(random_batch(32, 1), 4);
  parts[1].x[3] = std::numeric_limits<float>::quiet_NaN();
  const NamedArrays before = trainer.params();
  accumulate(trainer, parts);
  EXPECT_EQ(trainer.step_accumulated(), 4);
  EXPECT_TRUE(same_bits(trainer.params(), before));
  EXPECT_EQ(trainer.skipped_steps(), 1);
  EXPECT_EQ(trainer.optimizer_state().param_steps[0], 0);
  EXPECT_EQ(trainer.loss_scale(), 128);
  accumulate(trainer, cut(random_batch(32, 1), 4));
  trainer.step_accumulated();
  EXPECT_EQ(trainer.optimizer_state().param_steps[0], 1);
  EXPECT_EQ(trainer.steps(), 2);
}

TEST_P(Accumulation, RefusesMicroBatchesOfAnotherShapeAndNamesTheOneExpected) {
  ResidentTrainer trainer = this->trainer(SGD{}, 8);
  trainer.set_graph_builder(small_classifier);
  trainer.accumulate(random_batch(8, 0).inputs());
  expect_error(ErrorCode::shape_mismatch, {"1 micro-batches are pending", "\"x\" f32[8, 6]", "f32[24]"},
               [&] { trainer.accumulate(random_batch(4, 0).inputs()); });
  // What is wrong for any batch is said as such.
  const Batch batch = random_batch(8, 0);
  expect_error(ErrorCode::unknown_name, {"X"}, [&] { trainer.accumulate({{"X", batch.x}, {"y", batch.y}}); });
  expect_error(ErrorCode::missing_input, {"x"}, [&] { trainer.accumulate({}); });
  EXPECT_EQ(trainer.pending_accumulation(), 1);
  EXPECT_EQ(trainer.step_accumulated(), 1);
  trainer.accumulate(random_batch(4, 0).inputs());  // the next step may be of another shape
  trainer.accumulate(random_batch(4, 1).inputs());
  EXPECT_EQ(trainer.step_accumulated(), 2);
}

TEST_P(Accumulation, StepsOfTwoShapesShareOneSum) {
  ResidentTrainer one = trainer(AdamW{.lr = 0.05}, 8), plain = trainer(AdamW{.lr = 0.05}, 8);
  for (ResidentTrainer* each : {&one, &plain}) each->set_graph_builder(small_classifier);
  for (int i = 0; i < 4; ++i) {
    const Batch batch = random_batch(i % 2 ? 4 : 8, i);
    one.accumulate(batch.inputs());
    one.step_accumulated();
    plain.step(batch.inputs());
  }
  EXPECT_TRUE(same_bits(one, plain));
}

TEST_P(Accumulation, WrongInputsAddNothing) {
  ResidentTrainer trainer = this->trainer(SGD{}, 8);
  const Batch batch = random_batch(8, 0);
  expect_error(ErrorCode::missing_input, {"\"y\""}, [&] { trainer.accumulate({{"x", batch.x}}); });
  EXPECT_EQ(trainer.pending_accumulation(), 0);
  trainer.accumulate(batch.inputs());
  EXPECT_THROW(trainer.accumulate({{"x", batch.x}}), Error);
  EXPECT_EQ(trainer.pending_accumulation(), 1);
}

TEST_P(Accumulation, PendingGradientsAreNeitherSteppedOverNorSavedSilently) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer trainer = this->trainer(SGD{}, 8);
  trainer.save(path);
  trainer.accumulate(random_batch(8, 0).inputs());
  expect_error(ErrorCode::invalid_argument, {"1 micro-batches are pending", "step_accumulated"},
               [&] { trainer.step(random_batch(8, 0).inputs()); });
  expect_error(ErrorCode::invalid_argument, {path, "pending"}, [&] { trainer.save(path); });
  EXPECT_EQ(trainer.pending_accumulation(), 1);
  trainer.load(path);
  EXPECT_EQ(trainer.pending_accumulation(), 0);
}

TEST_P(Accumulation, ResumesBetweenStepsBitIdentically) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer whole = trainer(AdamW{.lr = 0.05}, 8), second = trainer(AdamW{.lr = 0.05}, 8);
  const auto step = [](ResidentTrainer& trainer, int i) {
    accumulate(trainer, cut(random_batch(24, i), 3));
    trainer.step_accumulated();
  };
  for (int i = 0; i < 2; ++i) step(whole, i);
  whole.save(path);
  second.load(path);
  for (int i = 2; i < 5; ++i) {
    step(whole, i);
    step(second, i);
  }
  EXPECT_TRUE(same_bits(whole, second));
}

TEST_P(Accumulation, MovesTheGraphsOwnStatesWithEachMicroBatchThatIsFinite) {
  Graph graph("running mean");
  const Tensor x = graph.input("x", {2}), w = graph.param("w", {2}), mean = graph.state("mean", {2});
  graph.set_outputs({sum(square(x * w - 1.0)), mean});
  graph.set_update(mean, mean * 0.5 + x * 0.5);
  ResidentTrainer trainer(graph, {"w"}, {{"w", Array::from<float>({1, 1})}}, SGD{.lr = 0.1}, GetParam(), {},
                          {.skip_non_finite = true});
  const std::vector<float> good{2, 4}, bad{2, NAN};
  trainer.accumulate({{"x", good}});
  trainer.accumulate({{"x", bad}});
  trainer.accumulate({{"x", good}});
  const StepResult seen = trainer.forward_only({{"x", good}});
  EXPECT_EQ(seen.values[1].to_doubles(), (std::vector<double>{1.5, 3}));
}

TEST_P(Accumulation, DrawsOtherRandomNumbersForEachMicroBatch) {
  Graph graph("dropout");
  const Tensor x = graph.input("x", {64}), w = graph.param("w", {64});
  graph.set_outputs({sum(nn::dropout(graph, x * w, 0.5))});
  ResidentTrainer trainer(graph, {"w"}, {{"w", Array::from(std::vector<float>(64, 1))}}, SGD{}, GetParam());
  std::vector<float> ramp(64);
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i * i);
  const Inputs inputs{{"x", ramp}};
  const float first = trainer.accumulate(inputs), second = trainer.accumulate(inputs);
  EXPECT_NE(first, second);
  trainer.drop_accumulation();
  EXPECT_EQ(trainer.accumulate(inputs), first);
}

}  // namespace
}  // namespace wholestep
