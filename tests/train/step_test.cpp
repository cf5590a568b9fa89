// The proofs of a training step: against the unfused gradient graph, and against plain C++.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "support/devices.h"
#include "train/models.h"

namespace wholestep {
namespace {

using namespace testing;

class Step : public OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, Step, ::testing::ValuesIn(built_devices()), device_name);

TEST_P(Step, HasTheLossOfTheUnfusedGradientGraphBitForBit) {
  const Graph graph = small_classifier(16);
  const Batch batch = random_batch(16, 3);
  CompiledGraph unfused = Session(GetParam()).compile(gradients_with_loss(graph, trainable(graph)), {.fusion = false});
  for (const auto& [name, value] : small_values()) unfused.set_param(name, value);
  Inputs inputs = batch.inputs();
  const std::vector<float> one{1};
  inputs.emplace_back("d_output", one);
  const std::vector<Array> expected = unfused.run_read_outputs(inputs, {0, 1});

  for (const Optimizer& optimizer : std::vector<Optimizer>{SGD{}, AdamW{}}) {
    ResidentTrainer trainer = small_trainer(optimizer, GetParam());
    const StepResult first = trainer.step(batch.inputs());
    ASSERT_EQ(first.values.size(), 2u);
    EXPECT_TRUE(first.values[0].same_bits(expected[0])) << optimizer->name();
    EXPECT_TRUE(first.values[1].same_bits(expected[1])) << optimizer->name();
  }
}

/// One update of a parameter element: value, gradient, two numbers of state, step number from 1.
using PlainUpdate = std::function<void(double& p, double g, double& a, double& b, int t)>;

void expect_agreement(const Device& device, const Optimizer& optimizer, const PlainUpdate& update) {
  constexpr int kSteps = 12;
  ResidentTrainer trainer = small_trainer(optimizer, device);
  PlainClassifier plain(small_values());
  std::vector<std::vector<double>> grads, a(4), b(4);
  double first = 0, last = 0;
  const Batch batch = random_batch(16, 3);
  for (int t = 1; t <= kSteps; ++t) {
    const double expected = plain.loss_and_gradients(batch, grads);
    for (std::size_t k = 0; k < 4; ++k) {
      std::vector<double>& values = *plain.params()[k];
      a[k].resize(values.size());
      b[k].resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) update(values[i], grads[k][i], a[k][i], b[k][i], t);
    }
    last = trainer.step(batch.inputs()).loss();
    if (t == 1) first = last;
    EXPECT_NEAR(last, expected, 1e-5 * expected) << optimizer->name() << " step " << t;
  }
  const NamedArrays reached = trainer.params();
  for (std::size_t k = 0; k < 4; ++k) {
    const std::vector<double> ours = reached[k].second.to_doubles();
    double scale = 0;
    for (double x : *plain.params()[k]) scale = std::max(scale, std::abs(x));
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], (*plain.params()[k])[i], 1e-5 * scale) << optimizer->name() << " " << reached[k].first;
    }
  }
  EXPECT_LT(last, first / 2) << optimizer->name() << ": the comparison means something only if it learns";
}

TEST_P(Step, TwelveTimesAgreesWithPlainSgd) {
  expect_agreement(GetParam(), SGD{.lr = 0.2, .momentum = 0.9},
                   [](double& p, double g, double& momentum, double&, int) {
                     momentum = 0.9 * momentum + g;
                     p -= 0.2 * momentum;
                   });
}

TEST_P(Step, TwelveTimesAgreesWithPlainAdamW) {
  const double lr = 0.1, decay = 0.01;
  expect_agreement(GetParam(), AdamW{.lr = lr, .weight_decay = decay},
                   [=](double& p, double g, double& m, double& v, int t) {
                     m = 0.9 * m + 0.1 * g;
                     v = 0.999 * v + 0.001 * g * g;
                     p -= lr * decay * p;
                     p -= lr * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
                   });
}

TEST_P(Step, ReturnsTheAuxiliaryOutputsFromBeforeTheUpdate) {
  ResidentTrainer trainer = small_trainer(SGD{.lr = 100}, GetParam());
  const Batch batch = random_batch(16, 4);
  const StepResult before = trainer.forward_only(batch.inputs());
  const StepResult step = trainer.step(batch.inputs());
  EXPECT_EQ(step.values[1].dtype(), DType::i32);
  EXPECT_EQ(step.values[1].item(), before.values[1].item());
  EXPECT_FALSE(same_bits(trainer.forward_only(batch.inputs()), before));
}

TEST_P(Step, RefusesABadBatchAndChangesNothing) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam());
  trainer.step(random_batch(16, 1).inputs());
  const NamedArrays params = trainer.params();
  const OptimizerState state = trainer.optimizer_state();
  Batch batch = random_batch(16, 2);
  const Batch small = random_batch(15, 2);
  expect_error(ErrorCode::missing_input, {"\"y\""}, [&] { trainer.step({{"x", batch.x}}); });
  expect_error(ErrorCode::unknown_name, {"\"z\""},
               [&] { trainer.step({{"x", batch.x}, {"y", batch.y}, {"z", batch.y}}); });
  expect_error(ErrorCode::wrong_length, {"\"x\"", "f32[16, 6]", "90", "set_graph_builder"},
               [&] { trainer.step(small.inputs()); });
  expect_error(ErrorCode::dtype_mismatch, {"\"y\""}, [&] { trainer.step({{"x", batch.x}, {"y", batch.x}}); });
  expect_error(ErrorCode::invalid_argument, {"\"step/lr\""},
               [&] { trainer.step({{"x", batch.x}, {"y", batch.y}, {"step/lr", batch.x}}); });
  batch.y[7] = kClasses;
  expect_error(ErrorCode::index_out_of_range, {"\"y\"", "element 7 is 3"}, [&] { trainer.step(batch.inputs()); });
  expect_error(ErrorCode::index_out_of_range, {"\"y\""}, [&] { trainer.forward_only(batch.inputs()); });
  EXPECT_TRUE(same_bits(trainer.params(), params));
  EXPECT_TRUE(same_bits(trainer.optimizer_state(), state));
  EXPECT_EQ(trainer.steps(), 1);
}

TEST_P(Step, ManyInOneCallAreTheSameAsOneByOne) {
  ResidentTrainer one = small_trainer(AdamW{}, GetParam()), many = small_trainer(AdamW{}, GetParam());
  std::vector<Batch> batches;
  std::vector<Inputs> inputs;
  for (int i = 0; i < 4; ++i) batches.push_back(random_batch(16, i));
  for (const Batch& batch : batches) inputs.push_back(batch.inputs());
  std::vector<float> losses;
  for (const Inputs& batch : inputs) losses.push_back(one.step(batch).loss());
  EXPECT_EQ(many.run(inputs), losses);
  EXPECT_TRUE(same_bits(one, many));
}

TEST_P(Step, ManyInOneCallAreRefusedBeforeTheFirstWhereOneIsBad) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam());
  const Batch good = random_batch(16, 1), bad = random_batch(3, 1);
  const std::vector<Inputs> inputs{good.inputs(), bad.inputs()};
  expect_error(ErrorCode::wrong_length, {"\"x\""}, [&] { trainer.run(inputs); });
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_TRUE(same_bits(trainer.params(), small_values()));
}

TEST_P(Step, TakesTheLearningRateThatWasSetLast) {
  ResidentTrainer changed = small_trainer(SGD{.lr = 0.5}, GetParam());
  ResidentTrainer given = small_trainer(SGD{.lr = 0.125}, GetParam());
  EXPECT_EQ(changed.lr(), 0.5);
  changed.set_lr(0.125);
  EXPECT_EQ(changed.lr(), 0.125);
  const Batch batch = random_batch(16, 5);
  changed.step(batch.inputs());
  given.step(batch.inputs());
  EXPECT_TRUE(same_bits(changed.params(), given.params()));
  changed.set_lr(0);
  changed.step(batch.inputs());
  EXPECT_TRUE(same_bits(changed.params(), given.params()));
}

TEST_P(Step, RefusesALearningRateThatIsNoNumberOrNegative) {
  ResidentTrainer trainer = small_trainer(SGD{.lr = 0.5}, GetParam());
  for (const double lr : {-1.0, std::nan(""), HUGE_VAL, 1e39}) {
    expect_error(ErrorCode::invalid_argument, {"learning rate"}, [&] { trainer.set_lr(lr); });
  }
  EXPECT_EQ(trainer.lr(), 0.5);
}

TEST(StepResult, WithoutValuesHasNoLoss) {
  expect_error(ErrorCode::no_outputs, {"no loss"}, [] { StepResult{}.loss(); });
}

TEST_P(Step, ReturnsALossThatIsNotFinite) {
  ResidentTrainer trainer = small_trainer(SGD{}, GetParam());
  Batch batch = random_batch(16, 5);
  batch.x[3] = NAN;
  EXPECT_TRUE(std::isnan(trainer.step(batch.inputs()).loss()));
}

TEST_P(Step, MovesNoFixedParameterAndEqualsTrainingThemAloneWithTheOthersFrozen) {
  ResidentTrainer fixed = small_trainer(AdamW{}, GetParam(), 16, {"fc2.bias", "fc1.weight"});
  ResidentTrainer frozen = small_trainer(AdamW{}, GetParam());
  frozen.set_frozen("fc1.bias", true);
  frozen.set_frozen("fc2.weight", true);
  EXPECT_EQ(fixed.trainable(), (std::vector<std::string>{"fc2.bias", "fc1.weight"}));
  for (int i = 0; i < 3; ++i) {
    fixed.step(random_batch(16, i).inputs());
    frozen.step(random_batch(16, i).inputs());
  }
  for (const auto& [name, start] : small_values()) {
    EXPECT_EQ(fixed.param(name).same_bits(start), name == "fc1.bias" || name == "fc2.weight") << name;
    EXPECT_TRUE(fixed.param(name).same_bits(frozen.param(name))) << name;
  }
}

TEST_P(Step, UpdatesTheStatesOfTheGraphItself) {
  Graph graph = small_classifier(2);
  Tensor seen = graph.state("seen", {}, DType::i32);
  graph.set_update(seen, add(seen, 2.0));
  std::vector<Tensor> outputs{graph.tensor(graph.outputs()[0]), seen};
  graph.set_outputs(outputs);
  ResidentTrainer trainer(graph, {"fc1.bias"}, small_values(), SGD{}, GetParam());
  const Batch batch = random_batch(2, 1);
  EXPECT_EQ(trainer.step(batch.inputs()).values[1].item(), 0);
  EXPECT_EQ(trainer.forward_only(batch.inputs()).values[1].item(), 2);
  EXPECT_EQ(trainer.forward_only(batch.inputs()).values[1].item(), 2);
  EXPECT_EQ(trainer.step(batch.inputs()).values[1].item(), 2);
}

TEST_P(Step, ReportsDeviceResidencyAndExplainsItself) {
  ResidentTrainer trainer = small_trainer(AdamW{}, GetParam());
  EXPECT_EQ(trainer.device(), GetParam());
  EXPECT_EQ(trainer.is_resident(), GetParam().name != "reference");
  EXPECT_EQ(trainer.state_bytes(), 3 * 4 * (6 * 5 + 5 + 5 * 3 + 3));
  EXPECT_EQ(trainer.stats().resident_bytes, trainer.state_bytes());
  const std::string report = trainer.explain();
  for (const char* part :
       {"trains 4 parameters with adamw", "fc1.weight/m", "step/lr", "step/gates", "output 1: i32[]"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  }
  EXPECT_EQ(report.find("output 2"), std::string::npos) << "gradients are no outputs";
  if (GetParam().name == "reference") return;
  for (const char* part : {"matmul, ", "sqrt", "updated in place", "decomposed: ", "cross_entropy"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  }
}

TEST_P(Step, ExplainsEveryProgramThatWasMade) {
  ResidentTrainer trainer = small_trainer(Sophia{.k = 2}, GetParam(), 16, {}, {.ema_decay = 0.5});
  EXPECT_EQ(trainer.explain().find("other programs"), std::string::npos);
  trainer.specialise(small_classifier(5));
  const Batch batch = random_batch(16, 0), fewer = random_batch(5, 0);
  for (int i = 0; i < 2; ++i) trainer.step(batch.inputs());
  trainer.step(fewer.inputs());
  trainer.forward_only(batch.inputs());
  trainer.forward_only(batch.inputs(), Weights::average);
  trainer.evaluate(std::vector<Inputs>{batch.inputs()});
  const DeviceDataset dataset = trainer.upload({{"x", Array::from(batch.x, {16, kIn})}, {"y", batch.y}});
  trainer.evaluate(dataset);
  trainer.run(dataset, 2);
  const std::string report = trainer.explain();
  for (const char* part :
       {"other programs",
        "\n  step with refresh 1: ", "\n  step with refresh 1 of \"x\" f32[5, 6], \"y\" i32[5]: ", "\n  evaluation: ",
        "\n  evaluation with averages: ", "\n  summed evaluation: ", "\n  evaluation on datasets, 16 rows a run: ",
        "\n  on datasets, 16 rows a step with refresh 1: ", " bytes resident, "}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  }
  ResidentTrainer accumulating = small_trainer(AdamW{}, GetParam());
  accumulating.accumulate(batch.inputs());
  accumulating.step_accumulated();
  for (const char* part : {"\n  accumulate: ", "\n  update by sums: "}) {
    EXPECT_NE(accumulating.explain().find(part), std::string::npos) << part;
  }
}

TEST(Steps, AreTheSameBitsForAnyNumberOfThreads) {
  if (built_devices().size() < 2) GTEST_SKIP() << "the CPU part is not in this build";
  const auto train = [](int threads) {
    Graph graph("wide");
    Tensor x = graph.input("x", {64, 96}), y = graph.input("y", {64}, DType::i32);
    Tensor logits = nn::linear(graph, "fc2", relu(nn::linear(graph, "fc1", x, 80)), 10);
    graph.set_outputs({cross_entropy(logits, y)});
    ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, 0), AdamW{.lr = 0.01}, Device::cpu(threads));
    std::mt19937 random(9);
    std::normal_distribution<float> normal;
    std::vector<float> features(64 * 96);
    std::vector<std::int32_t> labels(64);
    for (int step = 0; step < 10; ++step) {
      for (float& value : features) value = normal(random);
      for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random() % 10);
      trainer.step({{"x", features}, {"y", labels}});
    }
    return trainer;
  };
  const ResidentTrainer one = train(1);
  EXPECT_TRUE(same_bits(one, train(2)));
  EXPECT_TRUE(same_bits(one, train(4)));
}

}  // namespace
}  // namespace wholestep
