// Precision policies in a trainer: what is computed in few bits, what stays in f32, and that it learns.
#include <gtest/gtest.h>

#include <cmath>

#include "support/devices.h"
#include "train/models.h"

namespace wholestep {
namespace {

using namespace testing;

class TrainerPrecision : public OnEachDevice {
 protected:
  ResidentTrainer trainer(Precision precision) const {
    return small_trainer(AdamW{.lr = 0.02}, GetParam(), 16, {}, {}, precision);
  }
};
INSTANTIATE_TEST_SUITE_P(On, TrainerPrecision, ::testing::ValuesIn(built_devices()), device_name);

TEST_P(TrainerPrecision, FewBitsLearnAsF32DoesToRounding) {
  ResidentTrainer exact = trainer(Precision::f32), bf16 = trainer(Precision::mixed_bf16),
                  f16 = trainer(Precision::mixed_f16);
  const auto steps = [](ResidentTrainer& trainer, double& first, double& last) {
    for (int i = 0; i < 60; ++i) {
      last = trainer.step(random_batch(16, i % 6).inputs()).loss();
      if (i == 0) first = last;
    }
  };
  double first = 0, expected = 0;
  steps(exact, first, expected);
  EXPECT_LT(expected, 0.5 * first);
  for (ResidentTrainer* each : {&bf16, &f16}) {
    double begun = 0, last = 0;
    steps(*each, begun, last);
    EXPECT_NEAR(begun, first, 0.01 * first);
    EXPECT_NEAR(last, expected, 0.05 * first);
    EXPECT_FALSE(same_bits(each->params(), exact.params()));
  }
}

// An update far below half a unit in the last place of bf16 must not be lost.
TEST_P(TrainerPrecision, MasterWeightsKeepUpdatesThatFewBitsWouldLose) {
  ResidentTrainer trainer = small_trainer(SGD{.lr = 1e-5}, GetParam(), 16, {}, {}, Precision::mixed_bf16);
  const NamedArrays before = trainer.params();
  trainer.step(random_batch(16, 3).inputs());
  std::size_t moved = 0;
  const std::vector<double> old = find(before, "fc2.weight")->to_doubles(),
                            now = trainer.param("fc2.weight").to_doubles();
  for (std::size_t i = 0; i < now.size(); ++i) moved += now[i] != old[i];
  EXPECT_GT(moved, now.size() / 2);
}

TEST_P(TrainerPrecision, EvaluationComputesAsTheStepDoes) {
  for (const Precision precision : {Precision::mixed_bf16, Precision::mixed_f16, Precision::f16}) {
    ResidentTrainer trainer = this->trainer(precision);
    const Batch batch = random_batch(16, 0);
    const StepResult seen = trainer.forward_only(batch.inputs());
    EXPECT_EQ(seen.values[0].dtype(), f32);
    EXPECT_TRUE(seen.values[0].same_bits(trainer.step(batch.inputs()).values[0])) << to_string(precision);
  }
}

TEST_P(TrainerPrecision, ExplainSaysWhichOpRunsInWhichType) {
  const std::string report = trainer(Precision::mixed_bf16).explain();
  const auto line = [&](const std::string& type) {
    const std::size_t at = report.find("\n  " + type + ": ");
    return at == std::string::npos ? "" : report.substr(at, report.find('\n', at + 1) - at);
  };
  EXPECT_NE(line("bf16").find("matmul x5"), std::string::npos) << report;
  EXPECT_NE(line("bf16").find("relu"), std::string::npos) << report;
  EXPECT_NE(line("f32").find("cross_entropy"), std::string::npos) << report;
  EXPECT_NE(line("f32").find("sqrt"), std::string::npos) << report;
  EXPECT_NE(report.find("f32 to bf16"), std::string::npos) << report;
  EXPECT_EQ(trainer(Precision::f32).explain().find("bf16"), std::string::npos);
}

// Learning rate and bias correction are inputs: a program that is run again has not frozen those of its first run. The
// other side is made anew for every step, and so has nothing to freeze.
TEST_P(TrainerPrecision, AReplayedProgramWithACosineScheduleEqualsTheStepByStepOne) {
  constexpr int kSteps = 12;
  const auto lr = [](std::int64_t step) {
    return 0.05 * 0.5 * (1 + std::cos(std::acos(-1.0) * static_cast<double>(step) / kSteps));
  };
  Batch all;
  for (int i = 0; i < kSteps; ++i) {
    const Batch batch = random_batch(16, i);
    all.x.insert(all.x.end(), batch.x.begin(), batch.x.end());
    all.y.insert(all.y.end(), batch.y.begin(), batch.y.end());
  }
  const Array x = Array::from(all.x, {16 * kSteps, kIn}), y = Array::from(all.y);
  for (const Precision precision : {Precision::f32, Precision::mixed_f16}) {
    ResidentTrainer replayed = trainer(precision);
    const DeviceDataset dataset = replayed.upload({{"x", x}, {"y", y}});
    const std::vector<float> losses = replayed.run(dataset, kSteps, {.shuffle = false, .lr = lr});

    NamedArrays params = small_values();
    OptimizerState state = trainer(precision).optimizer_state();
    for (int i = 0; i < kSteps; ++i) {
      ResidentTrainer fresh = trainer(precision);
      fresh.set_params({params.begin(), params.end()});
      fresh.restore_optimizer_state(state);
      fresh.set_lr(lr(i));
      EXPECT_EQ(fresh.step(random_batch(16, i).inputs()).loss(), losses[static_cast<std::size_t>(i)]) << i;
      params = fresh.params();
      state = fresh.optimizer_state();
    }
    EXPECT_TRUE(same_bits(replayed.params(), params)) << to_string(precision);
    EXPECT_TRUE(same_bits(replayed.optimizer_state(), state)) << to_string(precision);
  }
}

// The same policy on two devices: products in few bits, rounded alike, differ where sums are added up in another order.
TEST_P(TrainerPrecision, GivesWhatTheReferenceGivesToRounding) {
  for (const Precision precision : {Precision::mixed_bf16, Precision::mixed_f16, Precision::f16}) {
    const UpdateOptions scaled{.loss_scaling = LossScaling{.initial = 64}};
    ResidentTrainer here = small_trainer(SGD{.lr = 1}, GetParam(), 16, {}, scaled, precision),
                    there = small_trainer(SGD{.lr = 1}, Device::reference(), 16, {}, scaled, precision);
    const Batch batch = random_batch(16, 3);
    EXPECT_NEAR(here.step(batch.inputs()).loss(), there.step(batch.inputs()).loss(), 5e-3);
    for (const std::string& name : here.trainable()) {
      const std::vector<double> a = here.param(name).to_doubles(), b = there.param(name).to_doubles();
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-3) << to_string(precision) << name;
    }
  }
}

}  // namespace
}  // namespace wholestep
