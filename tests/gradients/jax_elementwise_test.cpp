// Values and derivatives of element-wise ops against JAX in float64, at zeros, kinks, ties, infinities and NaN.
#include <gtest/gtest.h>

#include "support/json_values.h"
#include "support/values.h"

namespace wholestep {
namespace {

using testing::numbers;

// Where our formula keeps digits that JAX's loses, both are right to this.
constexpr double kTolerance = 1e-12;

void expect_same(double jax, double ours, const std::string& where) {
  if (std::isnan(jax)) {
    EXPECT_TRUE(std::isnan(ours)) << where << ": JAX gives NaN, got " << ours;
  } else if (std::isinf(jax)) {
    EXPECT_EQ(ours, jax) << where;
  } else {
    EXPECT_NEAR(ours, jax, kTolerance * (1 + std::abs(jax))) << where;
  }
}

/// Derivatives where ours is meant to differ: the limit at infinity where JAX's formula gives NaN, and NaN below the
/// domain of acosh where JAX's formula gives a number.
bool differs_by_design(const std::string& op, double x) {
  return ((op == "softsign" || op == "gelu_tanh") && std::isinf(x)) || (op == "acosh" && x <= -1);
}

TEST(JaxElementwise, UnaryValuesAndDerivativesAreJaxs) {
  const nlohmann::json data = testing::read_json("jax_elementwise.json");
  const std::vector<double> points = numbers(data["points"]);
  const TensorType type{f64, {static_cast<std::int64_t>(points.size())}};
  int ops = 0;
  for (const auto& [op, expected] : data["unary"].items()) {
    Graph g;
    const Tensor x = g.input("x", type.shape, f64);
    const Tensor y = g.apply(op, {x});
    const Tensor dx = append_gradients(g, y, g.full(type.shape, 1, f64), {x})[0];
    g.set_outputs({y, dx});
    const std::vector<HostValue> values = testing::evaluate(g, {{"x", testing::value_of(type, points)}});
    const std::vector<double> jax_y = numbers(expected["y"]), jax_dx = numbers(expected["dx"]);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const std::string at = "(" + std::to_string(points[i]) + ")";
      expect_same(jax_y[i], values[0].real[i], op + at);
      if (!differs_by_design(op, points[i])) expect_same(jax_dx[i], values[1].real[i], op + "'" + at);
    }
    ++ops;
  }
  EXPECT_GT(ops, 30);
}

TEST(JaxElementwise, BinaryValuesAndDerivativesAreJaxs) {
  const nlohmann::json data = testing::read_json("jax_elementwise.json");
  std::vector<double> as, bs;
  for (double a : numbers(data["pair_points"])) {
    for (double b : numbers(data["pair_points"])) as.push_back(a), bs.push_back(b);
  }
  const TensorType type{f64, {static_cast<std::int64_t>(as.size())}};
  int ops = 0;
  for (const auto& [op, expected] : data["binary"].items()) {
    Graph g;
    const Tensor a = g.input("a", type.shape, f64);
    const Tensor b = g.input("b", type.shape, f64);
    const Tensor y = g.apply(op, {a, b});
    std::vector<Tensor> outputs = append_gradients(g, y, g.full(type.shape, 1, f64), {a, b});
    outputs.insert(outputs.begin(), y);
    g.set_outputs(outputs);
    const std::vector<HostValue> values =
        testing::evaluate(g, {{"a", testing::value_of(type, as)}, {"b", testing::value_of(type, bs)}});
    const std::vector<double> jax[] = {numbers(expected["y"]), numbers(expected["da"]), numbers(expected["db"])};
    const char* cells[] = {"", " d/da", " d/db"};
    for (std::size_t cell = 0; cell < 3; ++cell) {
      for (std::size_t i = 0; i < as.size(); ++i) {
        expect_same(jax[cell][i], values[cell].real[i],
                    op + "(" + std::to_string(as[i]) + ", " + std::to_string(bs[i]) + ")" + cells[cell]);
      }
    }
    ++ops;
  }
  EXPECT_GE(ops, 9);
}

}  // namespace
}  // namespace wholestep
