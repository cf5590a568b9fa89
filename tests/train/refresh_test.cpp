// Steps in which a rule renews its slots before it uses them.
#include <gtest/gtest.h>

#include "core/random.h"
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

/// A loss whose Hessian is diagonal, so that every estimate of it is exact: the mean of (x p)^2 / 2.
Graph parabola(std::int64_t batch) {
  Graph graph("parabola");
  const Tensor x = graph.input("x", {batch, 3}), p = graph.param("p", {1, 3}, f32, Init::ones());
  graph.set_outputs({reduce_sum(square(x * p)) / (2.0 * static_cast<double>(batch))});
  return graph;
}
constexpr Sophia kUnclipped{.lr = 0.1, .gamma = 1, .k = 2};

TEST_P(Refresh, WithCurvatureOverMicroBatchesIsThatOfTheWholeBatch) {
  const UpdateOptions scaled{.loss_scaling = LossScaling{.initial = 8}};
  const auto make = [&](std::int64_t batch) {
    return ResidentTrainer(parabola(batch), {"p"}, initial_values(parabola(batch), 0), kUnclipped, GetParam(), {},
                           scaled);
  };
  ResidentTrainer whole = make(4), parts = make(1);
  const std::vector<std::vector<float>> rows{{1, 2, -3}, {0, 1, 2}, {2, -1, 1}, {0.5f, 3, 0}};
  std::vector<float> all;
  for (const std::vector<float>& row : rows) all.insert(all.end(), row.begin(), row.end());
  for (int step = 0; step < 4; ++step) {
    whole.step({{"x", all}});
    parts.set_frozen("p", true);  // for a while that is no step
    for (const std::vector<float>& row : rows) parts.accumulate({{"x", row}});
    parts.set_frozen("p", false);
    parts.step_accumulated();
  }
  for (std::size_t slot = 0; slot < 2; ++slot) {
    const std::vector<double> expected = whole.optimizer_state().entries.at(slot).value.to_doubles(),
                              found = parts.optimizer_state().entries.at(slot).value.to_doubles();
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i])) << slot << ' ' << i;
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(parts.param("p").to_doubles()[i], whole.param("p").to_doubles()[i], 1e-6) << i;
}

TEST_P(Refresh, WithCurvatureOverMicroBatchesIsTheSameWithUpdatesOnTheHost) {
  TrainingSession split(parabola(2), {"p"}, initial_values(parabola(2), 0), {.optimizer = kUnclipped}, GetParam());
  TrainingSession fused(parabola(2), {"p"}, initial_values(parabola(2), 0), {.optimizer = kUnclipped}, GetParam());
  fused.with_fused_optimizer();
  for (int step = 0; step < 3; ++step) {
    for (TrainingSession* session : {&split, &fused}) {
      for (int batch = 0; batch < 3; ++batch) {
        const std::vector<float> rows{1, 2, 3, static_cast<float>(batch), 0.5f, -1};
        session->accumulate({{"x", rows}});
      }
      EXPECT_EQ(session->step_accumulated(), 3);
    }
    EXPECT_TRUE(testing::same_bits(split.params(), fused.params()));
    EXPECT_TRUE(testing::same_bits(split.optimizer_state(), fused.optimizer_state()));
  }
}

TEST_P(Refresh, ThatIsAccumulatedForIsNotMovedByAnotherStateInBetween) {
  const OptimizerState state = trainer.optimizer_state();
  trainer.accumulate({{"x", x}});
  testing::expect_error(ErrorCode::invalid_argument, {"1 micro-batches are pending"},
                        [&] { trainer.restore_optimizer_state(state); });
}

/// The signs u of `count` elements of parameter `name` at step `t` (from 0) of seed 0.
std::vector<double> hutchinson_signs(const std::string& name, std::uint32_t t, std::size_t count) {
  constexpr std::uint32_t kHalf = 1u << 31;
  const auto stream = static_cast<std::uint32_t>(random::hash_name(name.data(), name.size()) % kHalf) + kHalf;
  std::vector<double> signs;
  for (std::uint32_t block = 0; signs.size() < count; ++block) {
    for (const std::uint32_t word : random::philox({block, stream, t, 0}, {0, 0})) {
      signs.push_back(word < kHalf ? -1 : 1);
    }
  }
  signs.resize(count);
  return signs;
}

// Hutchinson's estimate, whose mean is the diagonal of H since the signs of a step are independent: u (H u) with H over
// both parameters.
TEST_P(Refresh, CurvatureIsTheProductOfRandomSignsAndTheHessianTimesThem) {
  const std::vector<std::vector<double>> hessian{
      {4, 1, -1, 0.5}, {1, 2, 0.25, -2}, {-1, 0.25, 3, 1.5}, {0.5, -2, 1.5, 5}};
  Graph graph("quadratic");
  const Tensor a = graph.param("a", {1, 3}), b = graph.param("b", {1, 1});
  const Tensor haa = graph.input("haa", {3, 3}), hab = graph.input("hab", {3, 1}), hbb = graph.input("hbb", {1, 1});
  graph.set_outputs(
      {reduce_sum(matmul(a, haa) * a) / 2.0 + reduce_sum(matmul(a, hab) * b) + reduce_sum(matmul(b, hbb) * b) / 2.0});
  std::vector<float> aa, ab, bb{static_cast<float>(hessian[3][3])};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) aa.push_back(static_cast<float>(hessian[i][j]));
    ab.push_back(static_cast<float>(hessian[i][3]));
  }
  ResidentTrainer sophia(graph, {"a", "b"}, initial_values(graph, 0), Sophia{.beta2 = 0, .k = 1}, GetParam());
  for (std::uint32_t t = 0; t < 4; ++t) {
    sophia.step({{"haa", aa}, {"hab", ab}, {"hbb", bb}});
    std::vector<double> u = hutchinson_signs("a", t, 3);
    u.push_back(hutchinson_signs("b", t, 1)[0]);
    const OptimizerState state = sophia.optimizer_state();
    for (int i = 0; i < 4; ++i) {
      double product = 0;
      for (int j = 0; j < 4; ++j) product += hessian[i][j] * u[j];
      const OptimizerState::Entry& h = state.entries.at(i < 3 ? 1 : 3);
      ASSERT_EQ(h.slot, "h");
      EXPECT_NEAR(h.value.to_doubles()[i < 3 ? i : 0], u[i] * product, 1e-6) << "step " << t << " element " << i;
    }
  }
}

}  // namespace
}  // namespace wholestep
