// Steps in which a rule renews its slots before it uses them.
#include <gtest/gtest.h>

#include "support/devices.h"
#include "train/models.h"
#include "wholestep/ops.h"
#include "wholestep/training_session.h"

namespace wholestep {
namespace {

using testing::random_batch;
using testing::small_classifier;

/// p -= lr * s, with s renewed to 10, then to 20 at every third step.
class RenewingRule : public OptimizerRule {
 public:
  std::string name() const override { return "renewing"; }
  double lr() const override { return 1; }
  std::vector<OptimizerSlot> slots(const TensorType&) const override { return {{"s", {DType::f32, {}}}}; }
  OptimizerResult append(const OptimizerArgs& args) const override {
    return {args.param - args.lr * args.slots[0], {args.slots[0] + 1.0}};
  }
  int refresh_due(std::int64_t t) const override { return t == 1 ? 1 : t % 3 == 0 ? 2 : 0; }
  int refresh_kinds() const override { return 2; }
  std::vector<Tensor> append_refresh(const RefreshArgs& args) const override {
    return {args.step.graph.constant(10.0 * args.kind, DType::f32)};
  }
};

Graph line() {
  Graph graph("line");
  const Tensor x = graph.input("x", {2}), a = graph.param("a", {2}), b = graph.param("b", {2});
  graph.set_outputs({reduce_sum((a + b) * x)});
  return graph;
}

double slot(const ResidentTrainer& trainer, std::size_t i) {
  return trainer.optimizer_state().entries.at(i).value.item();
}

class Refresh : public testing::OnEachDevice {
 protected:
  ResidentTrainer trainer{line(), {"a", "b"}, initial_values(line(), 0), std::make_shared<RenewingRule>(), GetParam()};
  const std::vector<float> x{1, 2};
  void steps(int count) {
    for (int i = 0; i < count; ++i) trainer.step({{"x", x}});
  }
};
INSTANTIATE_TEST_SUITE_P(On, Refresh, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(Refresh, ComesBeforeTheUpdateOfItsStep) {
  steps(1);
  EXPECT_EQ(trainer.param("a").to_doubles()[0], -10);
  EXPECT_EQ(slot(trainer, 0), 11);
  steps(1);
  EXPECT_EQ(trainer.param("a").to_doubles()[0], -21);
  steps(1);
  EXPECT_EQ(trainer.param("a").to_doubles()[0], -41);
  EXPECT_EQ(slot(trainer, 0), 21);
}

TEST_P(Refresh, CountsTheStepsOfEachParameterAndLeavesAFrozenOneAlone) {
  trainer.set_frozen("b", true);
  steps(2);
  EXPECT_EQ(slot(trainer, 1), 0);
  trainer.set_frozen("b", false);
  steps(1);  // the third of a, the first of b
  EXPECT_EQ(slot(trainer, 0), 21);
  EXPECT_EQ(slot(trainer, 1), 11);
}

TEST_P(Refresh, WithInputsThatDoNotFitMovesNothing) {
  const std::vector<float> wrong{1, 2, 3};
  EXPECT_THROW(trainer.step({{"x", wrong}}), Error);
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_EQ(slot(trainer, 0), 0);
  steps(1);
  EXPECT_EQ(slot(trainer, 0), 11);
}

TEST_P(Refresh, IsDueForAccumulatedGradientsToo) {
  for (int step = 0; step < 3; ++step) {
    for (int batch = 0; batch < 2; ++batch) trainer.accumulate({{"x", x}});
    EXPECT_EQ(trainer.step_accumulated(), 2);
  }
  EXPECT_EQ(trainer.param("a").to_doubles()[0], -41);
  EXPECT_EQ(slot(trainer, 0), 21);
}

TEST_P(Refresh, IsDueForStepsOnADatasetToo) {
  trainer.run(trainer.upload({{"x", x}}), 3, {.shuffle = false});
  EXPECT_EQ(trainer.param("a").to_doubles()[0], -41);
  EXPECT_EQ(slot(trainer, 0), 21);
}

TEST_P(Refresh, IsDueForUpdatesOnTheHostToo) {
  TrainingSession session(line(), {"a", "b"}, initial_values(line(), 0),
                          {.lr = 1, .optimizer = std::make_shared<RenewingRule>()}, GetParam());
  for (int step = 0; step < 3; ++step) session.step({{"x", x}});
  EXPECT_EQ(session.param("a").to_doubles()[0], -41);
}

TEST_P(Refresh, WithCurvatureIsRefusedWhereThereIsNoLoss) {
  ResidentTrainer sophia(line(), {"a", "b"}, initial_values(line(), 0), Sophia{}, GetParam());
  testing::expect_error(ErrorCode::unsupported, {"sophia", "accumulation"}, [&] { sophia.accumulate({{"x", x}}); });
  EXPECT_EQ(sophia.pending_accumulation(), 0);
  sophia.step({{"x", x}});
}

// E[u (H u)] is the diagonal of H; with random signs the rest of H is noise of mean zero.
TEST_P(Refresh, CurvatureIsTheDiagonalOfTheHessianOnAverage) {
  Graph graph("quadratic");
  const Tensor p = graph.param("p", {1, 3}), h = graph.input("h", {3, 3});
  graph.set_outputs({reduce_sum(matmul(p, h) * p) / 2.0});
  const std::vector<float> hessian{4, 1, -1, 1, 2, 0.5f, -1, 0.5f, 3};
  const Sophia options{.lr = 0, .beta2 = 0.99, .k = 1};
  ResidentTrainer trainer(graph, {"p"}, initial_values(graph, 0), options, GetParam());
  constexpr int kSteps = 600;
  for (int i = 0; i < kSteps; ++i) trainer.step({{"h", hessian}});
  const std::vector<double> estimate = trainer.optimizer_state().entries.at(1).value.to_doubles();
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(estimate[i], hessian[4 * i], 0.6) << i;
}

}  // namespace
}  // namespace wholestep
