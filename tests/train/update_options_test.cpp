// What stands around the optimizer: clipping, averages, skipped steps, and their company with each other.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/devices.h"
#include "support/folder.h"
#include "train/models.h"
#include "wholestep/io.h"

namespace wholestep {
namespace {

using namespace testing;

constexpr const char* kNames[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};

class Update : public OnEachDevice {
 protected:
  ResidentTrainer trainer(const Optimizer& optimizer, const UpdateOptions& update,
                          Precision precision = Precision::f32) const {
    return small_trainer(optimizer, GetParam(), 16, {}, update, precision);
  }
  const Folder folder_;
};
INSTANTIATE_TEST_SUITE_P(On, Update, ::testing::ValuesIn(built_devices()), device_name);

Batch bad_batch(float value = std::numeric_limits<float>::quiet_NaN()) {
  Batch batch = random_batch(16, 9);
  batch.x[7] = value;
  return batch;
}

/// The gradients of the first step, by hand.
std::vector<std::vector<double>> gradients(const Batch& batch) {
  std::vector<std::vector<double>> grads;
  PlainClassifier(small_values()).loss_and_gradients(batch, grads);
  return grads;
}

double norm(const std::vector<std::vector<double>>& grads) {
  double sum = 0;
  for (const auto& grad : grads) {
    for (double g : grad) sum += g * g;
  }
  return std::sqrt(sum);
}

/// `trainer` moved by -lr * change(g) from where it started.
void expect_moved_by(const ResidentTrainer& trainer, const std::vector<std::vector<double>>& grads, double lr,
                     const std::function<double(double)>& change) {
  for (std::size_t k = 0; k < grads.size(); ++k) {
    const std::vector<double> before = find(small_values(), kNames[k])->to_doubles();
    const std::vector<double> after = trainer.param(kNames[k]).to_doubles();
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_NEAR(after[i], before[i] - lr * change(grads[k][i]), 1e-6) << kNames[k] << ' ' << i;
    }
  }
}

TEST_P(Update, ClipsTheGlobalNormOfAllGradients) {
  const Batch batch = random_batch(16, 3);
  const auto grads = gradients(batch);
  for (const double share : {0.25, 4.0}) {
    ResidentTrainer clipped = trainer(SGD{.lr = 1}, {.clip_norm = share * norm(grads)});
    clipped.step(batch.inputs());
    expect_moved_by(clipped, grads, 1, [&](double g) { return g * std::min(share, 1.0); });
  }
}

TEST_P(Update, ClipsEachElement) {
  const Batch batch = random_batch(16, 3);
  ResidentTrainer clipped = trainer(SGD{.lr = 1}, {.clip_value = 0.02});
  clipped.step(batch.inputs());
  expect_moved_by(clipped, gradients(batch), 1, [](double g) { return std::clamp(g, -0.02, 0.02); });
}

TEST_P(Update, FrozenParametersCountForNothingInTheNorm) {
  const Batch batch = random_batch(16, 3);
  auto grads = gradients(batch);
  for (double& g : grads[0]) g = 0;
  ResidentTrainer clipped = trainer(SGD{.lr = 1}, {.clip_norm = norm(grads) * 1.0001});
  clipped.set_frozen("fc1.weight", true);
  clipped.step(batch.inputs());
  expect_moved_by(clipped, grads, 1, [](double g) { return g; });
}

TEST_P(Update, AveragesStartAsTheWeightsAndFollowThem) {
  ResidentTrainer trainer = this->trainer(SGD{.lr = 0.5}, {.ema_decay = 0.75});
  std::vector<double> expected = find(small_values(), "fc1.weight")->to_doubles();
  EXPECT_EQ(find(trainer.averages(), "fc1.weight")->to_doubles(), expected);
  for (int i = 0; i < 4; ++i) {
    trainer.step(random_batch(16, i).inputs());
    const std::vector<double> weights = trainer.param("fc1.weight").to_doubles();
    for (std::size_t k = 0; k < weights.size(); ++k) expected[k] = 0.75 * expected[k] + 0.25 * weights[k];
  }
  const std::vector<double> averages = find(trainer.averages(), "fc1.weight")->to_doubles();
  for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(averages[k], expected[k], 1e-6);
}

// Neither the decay nor one minus it is a float: where the two do not add up to 1, an average drifts off.
TEST_P(Update, AveragesOfWeightsThatStandStillDoNotDrift) {
  ResidentTrainer trainer = this->trainer(SGD{.lr = 0}, {.ema_decay = 0.9999});
  const NamedArrays before = trainer.averages();
  for (int i = 0; i < 300; ++i) trainer.step(random_batch(16, 0).inputs());
  EXPECT_TRUE(same_bits(trainer.averages(), before));
}

TEST_P(Update, EvaluatesWithAveragesAsATrainerThatHasThemAsWeights) {
  ResidentTrainer trainer = this->trainer(AdamW{.lr = 0.05}, {.ema_decay = 0.5});
  for (int i = 0; i < 4; ++i) trainer.step(random_batch(16, i).inputs());
  const NamedArrays averages = trainer.averages();
  const Graph graph = small_classifier(16);
  ResidentTrainer other(graph, trainable(graph), averages, SGD{}, GetParam());
  const Batch batch = random_batch(16, 50);
  const StepResult by_average = trainer.forward_only(batch.inputs(), Weights::average);
  EXPECT_TRUE(same_bits(by_average, other.forward_only(batch.inputs())));
  EXPECT_FALSE(same_bits(by_average, trainer.forward_only(batch.inputs())));
}

TEST_P(Update, AveragesOfFrozenParametersStandStill) {
  ResidentTrainer trainer = this->trainer(AdamW{.lr = 0.05}, {.ema_decay = 0.5});
  trainer.step(random_batch(16, 0).inputs());
  trainer.set_frozen("fc1.weight", true);
  const NamedArrays before = trainer.averages();
  trainer.step(random_batch(16, 1).inputs());
  const NamedArrays after = trainer.averages();
  EXPECT_TRUE(find(before, "fc1.weight")->same_bits(*find(after, "fc1.weight")));
  EXPECT_FALSE(find(before, "fc2.weight")->same_bits(*find(after, "fc2.weight")));
}

TEST_P(Update, WeightsThatAreSetBeginTheirAveragesAnew) {
  ResidentTrainer trainer = this->trainer(AdamW{.lr = 0.05}, {.ema_decay = 0.5});
  trainer.step(random_batch(16, 0).inputs());
  const NamedArrays before = trainer.averages();
  const std::vector<float> bias{1, 2, 3};
  trainer.set_params({{"fc2.bias", bias}});
  EXPECT_EQ(find(trainer.averages(), "fc2.bias")->to_doubles(), (std::vector<double>{1, 2, 3}));
  EXPECT_TRUE(find(before, "fc1.bias")->same_bits(*find(trainer.averages(), "fc1.bias")));
}

TEST_P(Update, AveragesThatAreNotKeptCannotBeAskedFor) {
  ResidentTrainer trainer = this->trainer(SGD{}, {});
  expect_error(ErrorCode::invalid_argument, {"ema_decay"}, [&] { trainer.averages(); });
  expect_error(ErrorCode::invalid_argument, {"ema_decay"},
               [&] { trainer.forward_only(random_batch(16, 0).inputs(), Weights::average); });
}

TEST_P(Update, AveragesCostNoKernelAndNoGradientInMemory) {
  if (GetParam().name == "reference") GTEST_SKIP() << "runs the graph as written";
  const ResidentTrainer plain = trainer(AdamW{}, {}), averaged = trainer(AdamW{}, {.ema_decay = 0.9});
  EXPECT_EQ(averaged.stats().kernels, plain.stats().kernels);
  EXPECT_EQ(averaged.stats().scratch_bytes, plain.stats().scratch_bytes);
}

TEST_P(Update, AStepWithANaNGradientChangesNothing) {
  const UpdateOptions update{.skip_non_finite = true, .ema_decay = 0.5};
  ResidentTrainer seen = trainer(AdamW{.lr = 0.05}, update), spared = trainer(AdamW{.lr = 0.05}, update);
  for (int i = 0; i < 6; ++i) {
    if (i == 2 || i == 4) {
      const StepResult bad = seen.step(bad_batch(i == 2 ? NAN : INFINITY).inputs());
      EXPECT_TRUE(bad.skipped);
      EXPECT_TRUE(std::isnan(bad.loss()));
    }
    const StepResult a = seen.step(random_batch(16, i).inputs()), b = spared.step(random_batch(16, i).inputs());
    EXPECT_FALSE(a.skipped);
    EXPECT_EQ(a.values.size(), 2u);
    EXPECT_TRUE(same_bits(a, b)) << i;
  }
  EXPECT_TRUE(same_bits(seen.params(), spared.params()));
  EXPECT_TRUE(same_bits(seen.averages(), spared.averages()));
  OptimizerState state = seen.optimizer_state();
  EXPECT_EQ(state.param_steps, (std::vector<std::int64_t>{6, 6, 6, 6}));
  EXPECT_EQ(state.steps, 8);
  state.steps = 6;
  EXPECT_TRUE(same_bits(state, spared.optimizer_state()));
  EXPECT_EQ(seen.skipped_steps(), 2);
}

TEST_P(Update, ANaNGradientOfAFrozenParameterSkipsNothing) {
  ResidentTrainer trainer = this->trainer(SGD{}, {.skip_non_finite = true});
  for (const char* name : kNames) trainer.set_frozen(name, true);
  EXPECT_FALSE(trainer.step(bad_batch().inputs()).skipped);
}

TEST_P(Update, ASkippedStepLeavesStatesThatTheGraphMovesItself) {
  Graph graph("running mean");
  const Tensor x = graph.input("x", {4}), w = graph.param("w", {4}), mean = graph.state("mean", {4});
  graph.set_outputs({sum(square(x * w - 1.0))});
  graph.set_update(mean, mean * 0.5 + x * 0.5);
  ResidentTrainer trainer(graph, {"w"}, {{"w", Array::from<float>({1, 1, 1, 1})}}, SGD{.lr = 0.1}, GetParam(), {},
                          {.skip_non_finite = true});
  const std::vector<float> good{1, 2, 3, 4}, bad{1, NAN, 3, 4};
  const std::string before = folder_.file("before"), after = folder_.file("after");
  trainer.step({{"x", good}});
  trainer.save(before);
  EXPECT_TRUE(trainer.step({{"x", bad}}).skipped);
  trainer.save(after);
  const io::SafeTensors a = io::read_safetensors(before), b = io::read_safetensors(after);
  EXPECT_EQ(find(a.tensors, "state/mean")->to_doubles(), (std::vector<double>{0.5, 1, 1.5, 2}));
  EXPECT_TRUE(same_bits(a.tensors, b.tensors));
}

TEST_P(Update, AStormOfSkippedStepsIsAnErrorWithTheWeightsAsBefore) {
  ResidentTrainer trainer = this->trainer(AdamW{}, {.skip_non_finite = true});
  trainer.step(random_batch(16, 0).inputs());
  const NamedArrays before = trainer.params();
  const Batch batch = bad_batch();
  for (int i = 0; i < 999; ++i) ASSERT_TRUE(trainer.step(batch.inputs()).skipped);
  expect_error(ErrorCode::non_finite, {"1000 steps in a row", "step 1001"}, [&] { trainer.step(batch.inputs()); });
  EXPECT_TRUE(same_bits(trainer.params(), before));
  EXPECT_FALSE(trainer.step(random_batch(16, 1).inputs()).skipped);
}

TEST_P(Update, OneGoodStepEndsARowOfSkippedOnes) {
  ResidentTrainer trainer = this->trainer(SGD{}, {.skip_non_finite = true, .most_skips = 3});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2; ++i) trainer.step(bad_batch().inputs());
    trainer.step(random_batch(16, 0).inputs());
  }
  EXPECT_EQ(trainer.skipped_steps(), 6);
}

TEST_P(Update, LossScalingByPowersOfTwoChangesNoBitInF32) {
  ResidentTrainer plain = trainer(AdamW{.lr = 0.05}, {.skip_non_finite = true});
  ResidentTrainer scaled = trainer(AdamW{.lr = 0.05}, {.loss_scaling = LossScaling{.initial = 1024, .interval = 2}});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(same_bits(plain.step(random_batch(16, i).inputs()), scaled.step(random_batch(16, i).inputs())));
  }
  EXPECT_TRUE(same_bits(plain.params(), scaled.params()));
  OptimizerState state = scaled.optimizer_state();
  state.loss_scale.reset();
  EXPECT_TRUE(same_bits(plain.optimizer_state(), state));
  EXPECT_EQ(scaled.loss_scale(), 4096);
  EXPECT_EQ(plain.loss_scale(), 1);
}

TEST_P(Update, AnOverflowInF16SkipsExactlyOneStepHalvesTheScaleAndLeavesTheWeights) {
  for (const Precision precision : {Precision::mixed_f16, Precision::f16}) {
    ResidentTrainer trainer =
        this->trainer(AdamW{.lr = 0.05}, {.loss_scaling = LossScaling{.initial = 4096}}, precision);
    for (int i = 0; i < 3; ++i) ASSERT_FALSE(trainer.step(random_batch(16, i).inputs()).skipped);
    const NamedArrays before = trainer.params();
    OptimizerState state = trainer.optimizer_state();
    EXPECT_TRUE(trainer.step(bad_batch(1e30F).inputs()).skipped);
    EXPECT_TRUE(same_bits(trainer.params(), before));
    ++state.steps;
    state.loss_scale = {2048, 0};
    EXPECT_TRUE(same_bits(trainer.optimizer_state(), state));
    EXPECT_EQ(trainer.loss_scale(), 2048);
    for (int i = 3; i < 6; ++i) EXPECT_FALSE(trainer.step(random_batch(16, i).inputs()).skipped);
    EXPECT_EQ(trainer.skipped_steps(), 1);
    EXPECT_EQ(trainer.loss_scale(), 2048);
    EXPECT_EQ(trainer.steps(), 7);
    EXPECT_EQ(trainer.optimizer_state().param_steps[0], 6);
  }
}

TEST_P(Update, ManyBadBatchesDoNotUseUpTheScaleOfF16) {
  ResidentTrainer trainer = this->trainer(SGD{.lr = 0.05}, {}, Precision::f16);
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(trainer.step(bad_batch().inputs()).skipped);
  EXPECT_EQ(trainer.loss_scale(), 1);
  const NamedArrays before = trainer.params();
  EXPECT_FALSE(trainer.step(random_batch(16, 0).inputs()).skipped);
  for (const std::string& name : trainer.trainable()) EXPECT_FALSE(find(before, name)->same_bits(trainer.param(name)));
}

TEST_P(Update, F16ScalesItsLossWithoutBeingAsked) {
  EXPECT_EQ(trainer(SGD{}, {}, Precision::mixed_f16).loss_scale(), 65536);
  EXPECT_EQ(trainer(SGD{}, {}, Precision::f16).loss_scale(), 65536);
  EXPECT_EQ(trainer(SGD{}, {}, Precision::mixed_bf16).loss_scale(), 1);
}

TEST_P(Update, EveryOptionTogetherResumesBitIdenticallyWithFrozenParameters) {
  const std::string path = folder_.file("a.safetensors");
  const UpdateOptions every{.loss_scaling = LossScaling{.initial = 1024, .interval = 3},
                            .clip_value = 0.05,
                            .clip_norm = 0.1,
                            .ema_decay = 0.9};
  for (const Precision precision : {Precision::f32, Precision::mixed_bf16, Precision::mixed_f16}) {
    ResidentTrainer whole = trainer(AdamW{.lr = 0.05}, every, precision),
                    first = trainer(AdamW{.lr = 0.05}, every, precision),
                    second = trainer(AdamW{.lr = 0.05}, every, precision);
    const auto step = [](ResidentTrainer& trainer, int i) {
      trainer.set_frozen("fc2.bias", i % 3 == 1);
      return trainer.step((i == 2 ? bad_batch() : random_batch(16, i)).inputs());
    };
    for (int i = 0; i < 5; ++i) {
      step(whole, i);
      step(first, i);
    }
    first.save(path);
    second.load(path);
    for (int i = 5; i < 10; ++i) {
      const NamedArrays before = whole.params();
      EXPECT_TRUE(same_bits(step(whole, i), step(second, i))) << to_string(precision) << i;
      EXPECT_EQ(find(before, "fc2.bias")->same_bits(whole.param("fc2.bias")), i % 3 == 1);
    }
    EXPECT_TRUE(same_bits(whole, second)) << to_string(precision);
    EXPECT_TRUE(same_bits(whole.averages(), second.averages())) << to_string(precision);
    EXPECT_EQ(whole.loss_scale(), second.loss_scale());
    EXPECT_GT(whole.loss_scale(), 512);
  }
}

TEST_P(Update, ExplainNamesWhatIsOn) {
  const std::string report = trainer(SGD{}, {.clip_norm = 2.5, .ema_decay = 0.75}, Precision::mixed_f16).explain();
  for (const char* part : {"clipped to norm 2.5", "averages of decay 0.75", "loss scaled by 65536", "skipped"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(trainer(SGD{}, {}).explain().find("clipped"), std::string::npos);
}

// Gradients of f64 parameters are clipped and averaged in f64, those of bf16 ones in f32.
TEST_P(Update, ParametersOfEveryFloatTypeTakeEveryOption) {
  const UpdateOptions every{
      .loss_scaling = LossScaling{.initial = 64}, .clip_value = 3, .clip_norm = 1, .ema_decay = 0.5};
  Graph graph;
  const Tensor x = graph.input("x", {2}), wide = graph.param("wide", {2}, f64),
               narrow = graph.param("narrow", {2}, bf16);
  graph.set_outputs({sum(square(cast(wide, f32) * x)) + sum(square(cast(narrow, f32) * x))});
  const NamedArrays values{{"wide", Array::from<double>({1, 1e-3})},
                           {"narrow", Array::from_doubles({bf16, {2}}, std::vector<double>{0.5, 1})}};
  const std::vector<float> ones{1, 1};
  for (const bool accumulated : {false, true}) {
    ResidentTrainer trainer(graph, {"wide", "narrow"}, values, SGD{.lr = 1}, GetParam(), {}, every);
    if (accumulated) {
      trainer.accumulate({{"x", ones}});
      trainer.step_accumulated();
    } else {
      EXPECT_FALSE(trainer.step({{"x", ones}}).skipped);
    }
    const std::vector<double> g{2, 2e-3, 1, 2};  // of w^2 summed up
    const double factor = 1 / std::sqrt(9 + 4e-6);
    const std::vector<double> moved = trainer.param("wide").to_doubles();
    EXPECT_NEAR(moved[0], 1 - g[0] * factor, 1e-6);
    EXPECT_NEAR(moved[1], 1e-3 - g[1] * factor, 1e-9);
    EXPECT_NEAR(trainer.param("narrow").to_doubles()[1], 1 - g[3] * factor, 2e-3);
    EXPECT_EQ(find(trainer.averages(), "wide")->dtype(), f64);
    EXPECT_EQ(find(trainer.averages(), "narrow")->dtype(), f32);
    EXPECT_NEAR(find(trainer.averages(), "wide")->to_doubles()[0], 0.5 + 0.5 * moved[0], 1e-12);
  }
}

TEST_P(Update, ParametersAndOptimizerStateAreAllThatAResumeNeeds) {
  const UpdateOptions every{
      .loss_scaling = LossScaling{.initial = 1024, .interval = 4}, .clip_norm = 0.1, .ema_decay = 0.9};
  ResidentTrainer whole = trainer(AdamW{.lr = 0.05}, every), second = trainer(AdamW{.lr = 0.05}, every);
  for (int i = 0; i < 3; ++i) whole.step(random_batch(16, i).inputs());
  const NamedArrays params = whole.params();
  const OptimizerState state = whole.optimizer_state();
  EXPECT_EQ(state.loss_scale, (OptimizerState::LossScale{1024, 3}));
  second.set_params({params.begin(), params.end()});
  second.restore_optimizer_state(state);
  for (int i = 3; i < 6; ++i) {
    EXPECT_TRUE(same_bits(whole.step(random_batch(16, i).inputs()), second.step(random_batch(16, i).inputs())));
  }
  EXPECT_TRUE(same_bits(whole, second));
  EXPECT_TRUE(same_bits(whole.averages(), second.averages()));
  EXPECT_EQ(second.loss_scale(), 2048);
}

TEST_P(Update, OptimizerStateOfOtherOptionsIsRefused) {
  ResidentTrainer scaled = trainer(SGD{}, {.loss_scaling = LossScaling{.interval = 10}}), plain = trainer(SGD{}, {}),
                  averaged = trainer(SGD{}, {.ema_decay = 0.5});
  const OptimizerState none = plain.optimizer_state();
  OptimizerState with_scale = scaled.optimizer_state();
  expect_error(ErrorCode::checkpoint_mismatch, {"with a loss scale"},
               [&] { plain.restore_optimizer_state(with_scale); });
  expect_error(ErrorCode::checkpoint_mismatch, {"without loss scale"}, [&] { scaled.restore_optimizer_state(none); });
  expect_error(ErrorCode::checkpoint_mismatch, {"\"average\"", "fc1.weight"},
               [&] { averaged.restore_optimizer_state(none); });
  for (const OptimizerState::LossScale& bad :
       {OptimizerState::LossScale{0, 0}, {NAN, 0}, {INFINITY, 0}, {2, -1}, {2, 10}}) {
    with_scale.loss_scale = bad;
    expect_error(ErrorCode::checkpoint_mismatch, {"loss scale"}, [&] { scaled.restore_optimizer_state(with_scale); });
  }
  EXPECT_EQ(scaled.loss_scale(), 65536);
}

TEST_P(Update, ALossScaleThatNoTrainerHasIsRefused) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer trainer = this->trainer(SGD{}, {.loss_scaling = LossScaling{.interval = 10}});
  trainer.save(path);
  const auto with = [&](const std::string& name, const Array& value) {
    const io::SafeTensors file = io::read_safetensors(path);
    std::vector<std::pair<std::string, ArrayView>> tensors;
    for (const auto& [key, array] : file.tensors) tensors.emplace_back(key, key == name ? value : array);
    const std::string changed = folder_.file("b.safetensors");
    io::write_safetensors(changed, tensors, file.metadata);
    expect_error(ErrorCode::checkpoint_mismatch, {"loss scale"}, [&] { trainer.load(changed); });
  };
  for (const float scale : {0.0F, -2.0F, NAN, INFINITY}) with("step/loss_scale", Array::scalar(scale));
  for (const std::int32_t good : {-1, 10}) with("step/good_steps", Array::scalar(good));
  EXPECT_EQ(trainer.loss_scale(), 65536);
}

TEST(UpdateOptions, OutsideTheirRangesAreRefusedByName) {
  const auto refuse = [](const UpdateOptions& update, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts,
                 [&] { small_trainer(SGD{}, Device::reference(), 16, {}, update); });
  };
  const double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::nan("");
  for (const double bad : {0.0, -1.0, kInfinity, kNaN}) {
    refuse({.clip_norm = bad}, {"clip_norm", "above 0"});
    refuse({.clip_value = bad}, {"clip_value", "above 0"});
    refuse({.loss_scaling = LossScaling{.initial = bad}}, {"loss_scaling.initial", "2^120"});
  }
  refuse({.loss_scaling = LossScaling{.initial = 0.5}}, {"loss_scaling.initial", "loss_scaling.least", "0.5"});
  for (const double bad : {1e-300, 0.0, kInfinity, kNaN}) {
    refuse({.loss_scaling = LossScaling{.least = bad}}, {"loss_scaling.least", "2^-120"});
  }
  for (const double bad : {0.0, 1.0, -0.5, 2.0, kNaN}) refuse({.ema_decay = bad}, {"ema_decay", "(0, 1)"});
  for (const double bad : {1.0, 0.0, kInfinity, kNaN}) {
    refuse({.loss_scaling = LossScaling{.factor = bad}}, {"loss_scaling.factor"});
  }
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 31}) {
    refuse({.loss_scaling = LossScaling{.interval = bad}}, {"loss_scaling.interval"});
  }
  refuse({.most_skips = 0}, {"most_skips", "at least 1"});
}

TEST(UpdateOptions, TheirNamesAreReserved) {
  Graph graph = small_classifier(4);
  graph.state("fc1.weight/average", {kIn, kHidden});
  expect_error(ErrorCode::duplicate_name, {"fc1.weight/average"}, [&] {
    ResidentTrainer(graph, {"fc1.weight"}, small_values(), SGD{}, Device::reference(), {}, {.ema_decay = 0.9});
  });
}

}  // namespace
}  // namespace wholestep
