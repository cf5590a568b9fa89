// When Kron updates its factors, and what balancing does to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/devices.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

constexpr int kUpdate = 1, kBalance = 2;

/// The share of steps at which factors are updated around step `t`.
double share(const Kron& options, double t) {
  return std::clamp(std::exp(-options.decay * (t - options.flat_start)), options.min_probability, 1.0);
}

class KronSchedule : public ::testing::TestWithParam<Kron> {};
INSTANTIATE_TEST_SUITE_P(Of, KronSchedule,
                         ::testing::Values(Kron{}, Kron{.flat_start = 0}, Kron{.flat_start = 20.5},
                                           Kron{.min_probability = 0.3, .decay = 0.05, .flat_start = 100},
                                           Kron{.min_probability = 1}));

// Between two updates the share adds up to 1: by the midpoints of small pieces of each step.
TEST_P(KronSchedule, SpacesUpdatesByTheIntegralOfTheirShare) {
  constexpr int kPieces = 8;
  const Optimizer kron = GetParam();
  double integral = 0;
  int updates = 0;
  for (int t = 1; t <= 5000; ++t) {
    for (int i = 0; i < kPieces; ++i) integral += share(GetParam(), t - 1 + (i + 0.5) / kPieces) / kPieces;
    const int due = kron->refresh_due(t);
    updates += due != 0;
    // Which of two steps an integral that is whole falls to is a matter of rounding.
    constexpr double kRounding = 0.01;
    ASSERT_GT(updates, integral - 1 - kRounding) << t;
    ASSERT_LT(updates, integral + kRounding) << t;
    if (due != 0) {
      ASSERT_EQ(due, updates % 100 == 0 ? kBalance : kUpdate) << t;
    }
    if (t <= GetParam().flat_start) {
      ASSERT_NE(due, 0) << t;
    }
  }
}

TEST(KronSchedule, UpdatesAtEachOfTheFirstStepsThenAtThreeInAHundred) {
  const Optimizer kron = Kron{};
  int late = 0;
  for (int t = 10'001; t <= 20'000; ++t) late += kron->refresh_due(t) != 0;
  EXPECT_EQ(late, 300);
}

Array array(Shape shape, const std::vector<double>& values) {
  return Array::from_doubles({DType::f32, std::move(shape)}, values);
}

// The factors after a refresh whose own step is too small to move them.
std::vector<Array> refreshed(const Device& device, int kind, std::int64_t max_size_triangular,
                             const std::vector<Array>& factors) {
  const Optimizer kron = Kron{.max_size_triangular = max_size_triangular, .precond_lr = 1e-30};
  const Shape shape{2, 3};
  Graph g("refresh");
  const Tensor p = g.input("p", shape), grad = g.input("g", shape), noise = g.input("noise", shape);
  const Array value = array(shape, {1, -2, 3, 0.5, 0.25, -1}), one = Array::scalar(1.0f);
  Inputs inputs{{"p", value}, {"g", value}, {"noise", value}, {"lr", one}, {"correction", one}};
  OptimizerArgs step{g, p, grad, {}, g.input("lr", {}), {g.input("correction", {})}};
  const std::vector<OptimizerSlot> slots = kron->slots({DType::f32, shape});
  const Array m(slots[0].type);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    step.slots.push_back(g.input(slots[i].name, slots[i].type.shape));
    inputs.emplace_back(slots[i].name, i == 0 ? m : factors.at(i - 1));
  }
  std::vector<Tensor> after = kron->append_refresh({step, kind, {}, [&](Shape) { return noise; }});
  after.erase(after.begin());
  g.set_outputs(after);
  return Session(device).compile(g).run(inputs);
}

double largest(const Array& x) {
  double most = 0;
  for (const double each : x.to_doubles()) most = std::max(most, std::abs(each));
  return most;
}

class KronBalance : public testing::OnEachDevice {};
INSTANTIATE_TEST_SUITE_P(On, KronBalance, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(KronBalance, KeepsTheProductOfTheFactorsAndEqualsTheirLargestElements) {
  const Array first = array({2, 2}, {0.25, 0.125, 0, -0.5});
  const Array triangle = array({3, 3}, {8, -2, 1, 0, 3, 5, 0, 0, 4});
  const Array diagonal = array({3}, {6, -8, 1});
  for (const auto& [most, second] : {std::pair{100, triangle}, std::pair{2, diagonal}}) {
    const std::vector<Array> before{first, second};
    const std::vector<Array> after = refreshed(GetParam(), kBalance, most, before);
    EXPECT_NEAR(largest(after[0]), 2, 1e-6);
    EXPECT_NEAR(largest(after[1]), 2, 1e-6);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < second.to_doubles().size(); ++j) {
        EXPECT_NEAR(after[0].to_doubles()[i] * after[1].to_doubles()[j], first.to_doubles()[i] * second.to_doubles()[j],
                    1e-6);
      }
    }
    const std::vector<Array> updated = refreshed(GetParam(), kUpdate, most, before);
    EXPECT_TRUE(updated[0].same_bits(first));
    EXPECT_TRUE(updated[1].same_bits(second));
  }
}

}  // namespace
}  // namespace wholestep
