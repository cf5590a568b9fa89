// A running f32 sum of a million equal numbers is off by one in a thousand; programs cut long sums into blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "support/devices.h"
#include "wholestep/ops.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

constexpr std::int64_t kLong = 400'000;
constexpr float kTerm = 0.1f;

class LongSum : public testing::OnEachDevice {
 protected:
  /// Every element of the only output is the sum of `terms` equal numbers.
  void expect_sum(const Graph& graph, const Shape& input, double terms, double term = kTerm) const {
    const std::vector<float> x(static_cast<std::size_t>(num_elements(input)), kTerm);
    const Array result = Session(GetParam()).compile(graph).run({{"x", x}})[0];
    for (const double value : result.to_doubles()) ASSERT_NEAR(value / (terms * term), 1, 2e-5);
  }
};
INSTANTIATE_TEST_SUITE_P(On, LongSum, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(LongSum, OfARowIsAccurate) {
  Graph g;
  g.set_outputs({sum(g.input("x", {2, kLong}), {1})});
  expect_sum(g, {2, kLong}, kLong);
}

TEST_P(LongSum, OfAColumnIsAccurate) {
  Graph g;
  g.set_outputs({sum(g.input("x", {kLong + 3, 5}), {0})});
  expect_sum(g, {kLong + 3, 5}, kLong + 3);
}

TEST_P(LongSum, OverAxesApartIsAccurate) {
  Graph g;
  g.set_outputs({sum(g.input("x", {kLong / 8, 3, 8}), {0, 2})});
  expect_sum(g, {kLong / 8, 3, 8}, kLong);
}

TEST_P(LongSum, OfProductsIsAccurate) {
  // A prime depth cannot be split among tasks.
  for (const std::int64_t depth : {kLong, std::int64_t{399'989}}) {
    Graph g;
    const Tensor x = g.input("x", {2, depth});
    g.set_outputs({matmul(x, x, false, true)});
    expect_sum(g, {2, depth}, static_cast<double>(depth), static_cast<double>(kTerm) * kTerm);
    Graph outer;
    const Tensor y = outer.input("x", {depth, 2});
    outer.set_outputs({relu(matmul(y, y, true, false)) + 0.0});
    expect_sum(outer, {depth, 2}, static_cast<double>(depth), static_cast<double>(kTerm) * kTerm);
  }
}

}  // namespace
}  // namespace wholestep
