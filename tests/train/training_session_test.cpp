#include "wholestep/training_session.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/devices.h"
#include "train/models.h"

namespace wholestep {
namespace {

using namespace testing;

class TwoPaths : public OnEachDevice {
 protected:
  TrainingSession session(const Optimizer& optimizer, const UpdateOptions& update = {}, int batch = 16) const {
    const Graph graph = small_classifier(batch);
    return TrainingSession(graph, trainable(graph), small_values(), {.optimizer = optimizer, .update = update},
                           GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(On, TwoPaths, ::testing::ValuesIn(built_devices()), device_name);

std::vector<Optimizer> optimizers() {
  std::vector<Optimizer> all{SGD{.lr = 0.05, .momentum = 0.9, .dampening = 0.1}};
  for (const std::string& name : optimizer_names()) all.push_back(optimizer_by_name(name));
  all.push_back(groups({{"*.weight", Muon{}, 0.5}}, AdamW{}));
  return all;
}

TEST_P(TwoPaths, TheFirstFusedStepEqualsTheGradientPathBitForBitForEveryOptimizer) {
  const UpdateOptions every{.loss_scaling = LossScaling{.initial = 1024}, .clip_norm = 0.1, .ema_decay = 0.9};
  for (const Optimizer& optimizer : optimizers()) {
    TrainingSession split = session(optimizer, every), fused = session(optimizer, every);
    fused.with_fused_optimizer();
    const Batch batch = random_batch(16, 3);
    const StepReport a = split.step(batch.inputs()), b = fused.step(batch.inputs());
    EXPECT_EQ(a.loss, b.loss) << optimizer->name();
    EXPECT_FALSE(a.fused);
    EXPECT_TRUE(b.fused);
    for (const StepReport& report : {a, b}) EXPECT_EQ(report.path, UpdatePath::gradient);
    EXPECT_TRUE(same_bits(split.params(), fused.params())) << optimizer->name();
    EXPECT_TRUE(same_bits(split.optimizer_state(), fused.optimizer_state())) << optimizer->name();
    EXPECT_TRUE(same_bits(split.averages(), fused.averages())) << optimizer->name();
  }
}

TEST_P(TwoPaths, BothPathsStayTogetherUnderEveryPolicy) {
  for (const Precision precision : {Precision::f32, Precision::mixed_bf16, Precision::mixed_f16, Precision::f16}) {
    TrainingSession split = session(AdamW{.lr = 0.05}), fused = session(AdamW{.lr = 0.05});
    split.with_precision_policy(precision);
    fused.with_precision_policy(precision).with_fused_optimizer();
    for (int i = 0; i < 4; ++i) {
      const StepReport a = split.step(random_batch(16, i).inputs()), b = fused.step(random_batch(16, i).inputs());
      EXPECT_EQ(a.loss, b.loss) << to_string(precision);
      EXPECT_EQ(a.skipped, b.skipped) << to_string(precision);
    }
    EXPECT_TRUE(same_bits(split.params(), fused.params())) << to_string(precision);
    EXPECT_EQ(split.config().compile.precision, precision);
  }
}

TEST_P(TwoPaths, MicroBatchesEqualTheWholeBatchOnBothPaths) {
  for (const bool fuse : {false, true}) {
    TrainingSession whole = session(SGD{.lr = 0.1}, {}, 32), parts = session(SGD{.lr = 0.1}, {}, 16);
    if (fuse) whole.with_fused_optimizer(), parts.with_fused_optimizer();
    const Batch first = random_batch(16, 1), second = random_batch(16, 2);
    Batch both = first;
    both.x.insert(both.x.end(), second.x.begin(), second.x.end());
    both.y.insert(both.y.end(), second.y.begin(), second.y.end());
    const NamedArrays before = parts.params();
    const float loss = (parts.accumulate(first.inputs()) + parts.accumulate(second.inputs())) / 2;
    EXPECT_EQ(parts.pending_accumulation(), 2);
    EXPECT_TRUE(same_bits(parts.params(), before));
    expect_error(ErrorCode::invalid_argument, {"2 micro-batches are pending"}, [&] { parts.step(first.inputs()); });
    TrainingSession forgets = session(SGD{.lr = 0.1}, {}, 16);
    if (fuse) forgets.with_fused_optimizer();
    forgets.accumulate(first.inputs());
    EXPECT_EQ(forgets.drop_accumulation(), 1);
    EXPECT_EQ(forgets.pending_accumulation(), 0);
    EXPECT_EQ(forgets.drop_accumulation(), 0);
    forgets.step(first.inputs());
    EXPECT_EQ(parts.step_accumulated(), 2);
    EXPECT_EQ(parts.pending_accumulation(), 0);
    EXPECT_EQ(parts.step_accumulated(), 0);
    EXPECT_NEAR(loss, whole.step(both.inputs()).loss, 1e-6);
    for (const auto& [name, value] : whole.params()) {
      const std::vector<double> expected = value.to_doubles(), actual = parts.param(name).to_doubles();
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6) << name;
    }
    EXPECT_EQ(parts.steps(), 1);
  }
}

TEST_P(TwoPaths, RefusesMicroBatchesOfAnotherShape) {
  for (const bool fuse : {false, true}) {
    TrainingSession session = this->session(SGD{});
    if (fuse) session.with_fused_optimizer();
    session.accumulate(random_batch(16, 0).inputs());
    EXPECT_THROW(session.accumulate(random_batch(8, 0).inputs()), Error);
    EXPECT_EQ(session.pending_accumulation(), 1);
  }
}

TEST_P(TwoPaths, SkipsAStepWithoutTouchingWeightsOnBothPaths) {
  Batch bad = random_batch(16, 0);
  bad.x[3] = std::numeric_limits<float>::infinity();
  for (const bool fuse : {false, true}) {
    TrainingSession session = this->session(AdamW{}, {.skip_non_finite = true, .most_skips = 3});
    if (fuse) session.with_fused_optimizer();
    const NamedArrays before = session.params();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(session.step(bad.inputs()).skipped);
    expect_error(ErrorCode::non_finite, {"3 steps in a row"}, [&] { session.step(bad.inputs()); });
    EXPECT_TRUE(same_bits(session.params(), before));
    EXPECT_EQ(session.optimizer_state().param_steps[0], 0);
    EXPECT_FALSE(session.step(random_batch(16, 1).inputs()).skipped);
    EXPECT_EQ(session.optimizer_state().param_steps[0], 1);
    EXPECT_EQ(session.steps(), 4);
    EXPECT_EQ(session.skipped_steps(), 3);
    EXPECT_EQ(session.loss_scale(), 1);
  }
}

TEST_P(TwoPaths, ReportsASkippedAccumulatedStepAndHalvesTheScaleOnBothPaths) {
  Batch bad = random_batch(16, 0);
  bad.x[3] = std::numeric_limits<float>::infinity();
  for (const bool fuse : {false, true}) {
    TrainingSession session = this->session(AdamW{}, {.loss_scaling = LossScaling{.initial = 1024}});
    if (fuse) session.with_fused_optimizer();
    EXPECT_EQ(session.loss_scale(), 1024);
    const NamedArrays before = session.params();
    session.accumulate(random_batch(16, 1).inputs());
    session.accumulate(bad.inputs());
    EXPECT_EQ(session.step_accumulated(), 2);
    EXPECT_EQ(session.skipped_steps(), 1);
    EXPECT_EQ(session.loss_scale(), 512);
    EXPECT_EQ(session.steps(), 1);
    EXPECT_TRUE(same_bits(session.params(), before));
    session.accumulate(random_batch(16, 1).inputs());
    EXPECT_EQ(session.step_accumulated(), 1);
    EXPECT_EQ(session.skipped_steps(), 1);
    EXPECT_FALSE(same_bits(session.params(), before));
  }
}

TEST_P(TwoPaths, LearningRateIsTheOptimizersUnlessGivenAndAnInputOnBothPaths) {
  EXPECT_EQ(session(SGD{}).lr(), 1e-2);
  EXPECT_EQ(session(AdamW{}).config().lr, 1e-3);
  const Graph graph = small_classifier(16);
  for (const bool fuse : {false, true}) {
    TrainingSession session(graph, trainable(graph), small_values(), {.lr = 0.25}, GetParam());
    if (fuse) session.with_fused_optimizer();
    EXPECT_EQ(session.lr(), 0.25);
    EXPECT_EQ(session.config().lr, 0.25);
    session.set_lr(0);
    session.step(random_batch(16, 0).inputs());
    EXPECT_TRUE(same_bits(session.params(), small_values()));
    expect_error(ErrorCode::invalid_argument, {"learning rate"}, [&] { session.set_lr(-1); });
  }
}

TEST_P(TwoPaths, ParametersThatAreNotTrainedAreReadAndNeverMove) {
  const Graph graph = small_classifier(16);
  for (const bool fuse : {false, true}) {
    TrainingSession session(graph, {"fc2.weight"}, small_values(), {.optimizer = SGD{.lr = 1}}, GetParam());
    if (fuse) session.with_fused_optimizer();
    session.step(random_batch(16, 0).inputs());
    EXPECT_EQ(session.params().size(), 4u);
    EXPECT_TRUE(session.param("fc1.weight").same_bits(*find(small_values(), "fc1.weight")));
    EXPECT_FALSE(session.param("fc2.weight").same_bits(*find(small_values(), "fc2.weight")));
    expect_error(ErrorCode::unknown_name, {"\"fc9\""}, [&] { session.param("fc9"); });
    expect_error(ErrorCode::unknown_name, {"\"x\""}, [&] { session.param("x"); });
  }
}

TEST_P(TwoPaths, HowItComputesIsChosenBeforeTheFirstStep) {
  TrainingSession session = this->session(SGD{});
  session.step(random_batch(16, 0).inputs());
  expect_error(ErrorCode::invalid_argument, {"before its first step"}, [&] { session.with_fused_optimizer(); });
  expect_error(ErrorCode::invalid_argument, {"before its first step"},
               [&] { session.with_precision_policy(Precision::f16); });
  EXPECT_FALSE(session.fused_active());
  EXPECT_EQ(session.config().compile.precision, Precision::f32);
}

TEST_P(TwoPaths, SaysWhatRunsWhere) {
  TrainingSession session = this->session(AdamW{});
  EXPECT_NE(session.explain().find("update with adamw on the host"), std::string::npos);
  EXPECT_EQ(session.explain().find("accumulate"), std::string::npos);
  TrainingSession accumulating = this->session(SGD{});
  accumulating.accumulate(random_batch(16, 0).inputs());
  EXPECT_NE(accumulating.explain().find("  accumulate: "), std::string::npos);
  session.with_fused_optimizer();
  EXPECT_EQ(session.explain().find("on the host"), std::string::npos);
  EXPECT_EQ(session.update_path(), UpdatePath::gradient);
}

TEST_P(TwoPaths, RefusesWhatATrainerRefuses) {
  const Graph graph = small_classifier(16);
  const auto with = [&](std::vector<std::string> train, const NamedArrays& values, TrainConfig config) {
    TrainingSession(graph, std::move(train), values, std::move(config), GetParam());
  };
  expect_error(ErrorCode::nothing_to_train, {}, [&] { with({}, small_values(), {}); });
  expect_error(ErrorCode::not_a_parameter, {"\"x\""}, [&] { with({"x"}, small_values(), {}); });
  expect_error(ErrorCode::missing_initial_value, {"fc1.weight"}, [&] { with({"fc1.weight"}, {}, {}); });
  expect_error(ErrorCode::invalid_argument, {"optimizer"},
               [&] { with({"fc1.weight"}, small_values(), {.optimizer = nullptr}); });
  expect_error(ErrorCode::invalid_argument, {"clip_norm"},
               [&] { with({"fc1.weight"}, small_values(), {.update = {.clip_norm = -1}}); });
  expect_error(ErrorCode::invalid_argument, {"learning rate"},
               [&] { with({"fc1.weight"}, small_values(), {.lr = -1}); });
}

// Core ML's update task, by rules on the graph.

std::string reason_for(const Graph& graph, const std::vector<std::string>& train, const TrainConfig& config = {}) {
  const TrainingSession session(graph, train, initial_values(graph, 1), config, Device::reference());
  const UpdateTaskEligibility answer = session.update_task_eligibility();
  const auto* unsupported = std::get_if<Unsupported>(&answer);
  return unsupported ? unsupported->reason : "";
}

void expect_reason(const std::string& reason, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(reason.find(part), std::string::npos) << part << " in: " << reason;
}

/// A perceptron with `activation` between its layers.
template <class Activation>
Graph perceptron(Activation activation) {
  Graph graph("perceptron");
  const Tensor x = graph.input("x", {4, 6}), y = graph.input("y", {4}, i32);
  graph.set_outputs({cross_entropy(nn::linear(graph, "b", activation(nn::linear(graph, "a", x, 5)), 3), y)});
  return graph;
}

constexpr const char* kNoRuntime = "no Core ML runtime on this system";

TEST(UpdateTask, OfAnEligibleModelLacksTheRuntimeAlone) {
  const std::vector<std::string> all{"a.weight", "a.bias", "b.weight", "b.bias"};
  const auto with_relu = perceptron([](Tensor h) { return relu(h); });
  EXPECT_EQ(reason_for(with_relu, all), kNoRuntime);
  EXPECT_EQ(reason_for(with_relu, {"b.weight", "b.bias"}), kNoRuntime);
  EXPECT_EQ(reason_for(with_relu, all, {.optimizer = SGD{.momentum = 0.9}}), kNoRuntime);
  EXPECT_EQ(reason_for(with_relu, all, {.optimizer = Adam{}}), kNoRuntime);
  EXPECT_EQ(reason_for(perceptron([](Tensor h) { return sigmoid(h); }), all), kNoRuntime);
  EXPECT_EQ(reason_for(perceptron([](Tensor h) { return tanh(h); }), all), kNoRuntime);
  EXPECT_EQ(reason_for(models::mlp(4), trainable(models::mlp(4))), kNoRuntime);
}

TEST(UpdateTask, TakesSquaredErrorAndFlattening) {
  Graph graph;
  const Tensor x = graph.input("x", {4, 2, 3}), y = graph.input("y", {4, 2});
  graph.set_outputs({squared_error(nn::linear(graph, "a", reshape(relu(x), {4, 6}), 2), y)});
  EXPECT_EQ(reason_for(graph, {"a.weight", "a.bias"}), kNoRuntime);
}

TEST(UpdateTask, NamesTheOptimizerThatItDoesNotHave) {
  const Graph graph = perceptron([](Tensor h) { return relu(h); });
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}, {.optimizer = AdamW{}}), {"optimizer adamw"});
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}, {.optimizer = SGD{.weight_decay = 0.1}}),
                {"sgd", "weight_decay"});
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}, {.optimizer = SGD{.momentum = 0.9, .nesterov = true}}),
                {"sgd", "nesterov"});
}

TEST(UpdateTask, NamesTheOpThatItDoesNotPropagateThrough) {
  const Graph graph = perceptron([](Tensor h) { return gelu(h); });
  expect_reason(reason_for(graph, {"a.weight", "a.bias"}), {"op 'gelu'", "\"a."});
  EXPECT_EQ(reason_for(graph, {"b.weight", "b.bias"}), kNoRuntime);  // gelu stands before the first trained layer
}

TEST(UpdateTask, NamesAResidualConnection) {
  const Graph graph = perceptron([](Tensor h) { return relu(h) + h; });
  expect_reason(reason_for(graph, {"a.weight", "a.bias"}), {"op 'add'"});
}

TEST(UpdateTask, NamesTheLossThatItDoesNotHave) {
  Graph graph;
  graph.set_outputs({sum(nn::linear(graph, "a", graph.input("x", {4, 6}), 2))});
  expect_reason(reason_for(graph, {"a.weight", "a.bias"}), {"loss 'reduce_sum'"});
}

TEST(UpdateTask, NamesATargetThatIsComputed) {
  Graph graph;
  const Tensor x = graph.input("x", {4, 6});
  graph.set_outputs({squared_error(nn::linear(graph, "a", x, 2), abs(graph.input("y", {4, 2})))});
  expect_reason(reason_for(graph, {"a.weight", "a.bias"}), {"op 'abs'", "target"});
}

TEST(UpdateTask, NamesATargetThatTheModelReadsToo) {
  Graph autoencoder;
  const Tensor x = autoencoder.input("x", {4, 6});
  autoencoder.set_outputs(
      {squared_error(nn::linear(autoencoder, "b", relu(nn::linear(autoencoder, "a", x, 3)), 6), x)});
  expect_reason(reason_for(autoencoder, {"a.weight", "a.bias"}), {"\"x\"", "target", "input of the model"});
}

TEST(UpdateTask, NamesABiasThatHasNoValuePerChannel) {
  const auto reason = [](const std::vector<std::string>& train) {
    Graph graph;
    const Tensor h = relu(nn::linear(graph, "a", graph.input("x", {4, 6}), 5));
    const Tensor weight = graph.param("w", {5, 2}), bias = graph.param("b", {1});
    const Tensor y = graph.input("y", {4, 2});
    graph.set_outputs({squared_error(nn::linear(graph, "c", matmul(h, weight) + bias, 2), y)});
    return reason_for(graph, train);
  };
  expect_reason(reason({"w", "b"}), {"\"b\"", "f32[1]", "2 values"});
  expect_reason(reason({"a.weight", "a.bias"}), {"op 'add'", "\"a."});
  EXPECT_EQ(reason({"c.weight", "c.bias"}), kNoRuntime);  // nothing is trained before it
}

TEST(UpdateTask, NamesParametersThatItCannotTrain) {
  const Graph graph = perceptron([](Tensor h) { return relu(h); });
  expect_reason(reason_for(graph, {"b.weight"}), {"\"b.weight\"", "\"b.bias\"", "both or none"});
  Graph scaled;
  const Tensor x = scaled.input("x", {4, 6}), scale = scaled.param("scale", {6});
  scaled.set_outputs({squared_error(nn::linear(scaled, "a", x * scale, 2), scaled.input("y", {4, 2}))});
  expect_reason(reason_for(scaled, {"scale"}), {"op 'mul'", "\"scale\""});
  Graph tied;
  const Tensor w = tied.param("w", {6, 6}), input = tied.input("x", {4, 6});
  tied.set_outputs({squared_error(matmul(relu(matmul(input, w)), w), tied.input("y", {4, 6}))});
  expect_reason(reason_for(tied, {"w"}), {"\"w\"", "two layers"});
}

TEST(UpdateTask, NamesStatesPoliciesAndOptionsThatItDoesNotKnow) {
  Graph graph = perceptron([](Tensor h) { return relu(h); });
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}, {.compile = {.precision = Precision::mixed_bf16}}),
                {"mixed_bf16"});
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}, {.update = {.clip_norm = 1}}), {"clipping"});
  const Tensor count = graph.state("count", {});
  graph.set_update(count, count + 1.0);
  expect_reason(reason_for(graph, {"b.weight", "b.bias"}), {"\"count\""});
}

}  // namespace
}  // namespace wholestep
