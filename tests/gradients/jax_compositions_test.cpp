// Losses and gradients of small models against JAX in float64.
#include <gtest/gtest.h>

#include <functional>

#include "support/json_values.h"
#include "support/values.h"

namespace wholestep {
namespace {

using nlohmann::json;

/// The named inputs of a case, and the loss that it computes from them.
struct Case {
  Graph graph{"case"};
  testing::Values values;
  Tensor operator[](const std::string& name) { return graph.find(name); }
};
using Loss = std::function<Tensor(Case&)>;

/// Compares loss and every gradient of case `name` of jax_compositions.json.
void expect_jax(const std::string& name, const Loss& loss) {
  SCOPED_TRACE(name);
  const json expected = testing::read_json("jax_compositions.json")["cases"][name];
  ASSERT_TRUE(expected.is_object());
  Case made;
  for (const auto& [input, value] : expected["inputs"].items()) {
    const TensorType type{value["integer"].get<bool>() ? i32 : f64, value["shape"].get<Shape>()};
    made.graph.input(input, type.shape, type.dtype);
    made.values.emplace(input, testing::value_of(type, testing::numbers(value["values"])));
  }
  made.graph.set_outputs({loss(made)});
  std::vector<std::string> wrt;
  for (const auto& item : expected["gradients"].items()) wrt.push_back(item.key());
  const Graph gradient = gradients_with_loss(made.graph, wrt);
  made.values.emplace("d_output", testing::value_of({f64, {}}, {1}));
  const std::vector<HostValue> results = testing::evaluate(gradient, made.values);
  EXPECT_NEAR(results[0].real[0], testing::number(expected["loss"]), 1e-12 * (1 + std::abs(results[0].real[0])));
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    const std::vector<double> jax = testing::numbers(expected["gradients"][wrt[i]]);
    ASSERT_EQ(results[i + 1].real.size(), jax.size());
    for (std::size_t k = 0; k < jax.size(); ++k) {
      const double ours = results[i + 1].real[k];
      if (std::isnan(jax[k])) {
        EXPECT_TRUE(std::isnan(ours)) << wrt[i] << " element " << k << ": JAX gives NaN, got " << ours;
      } else {
        EXPECT_NEAR(ours, jax[k], 1e-11 * (1 + std::abs(jax[k]))) << wrt[i] << " element " << k;
      }
    }
  }
}

TEST(JaxCompositions, ClassifiersWithEveryActivation) {
  for (const char* activation : {"relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "log_sigmoid", "softsign"}) {
    expect_jax(std::string("classifier_") + activation, [&](Case& c) {
      const Tensor hidden = c.graph.apply(activation, {matmul(c["x"], c["w1"]) + c["b1"]});
      return cross_entropy(matmul(hidden, c["w2"]) + c["b2"], c["labels"]);
    });
  }
}

TEST(JaxCompositions, LayerNorm) {
  expect_jax("layer_norm", [](Case& c) {
    const Tensor centred = c["x"] - reduce_mean(c["x"], {-1}, true);
    const Tensor variance = reduce_mean(square(centred), {-1}, true);
    const Tensor y = centred * rsqrt(variance + 1e-5) * c["scale"] + c["shift"];
    return reduce_mean(square(y) * (iota(c.graph, {5}, 0, f64) + 1));
  });
}

TEST(JaxCompositions, Attention) {
  expect_jax("attention", [](Case& c) {
    const Tensor scores = matmul(c["q"], transpose(c["k"], {0, 2, 1})) / 2;
    return reduce_mean(square(matmul(softmax(scores), c["v"])));
  });
}

TEST(JaxCompositions, EmbeddingWithARowTakenTwice) {
  expect_jax("embedding",
             [](Case& c) { return reduce_mean(square(matmul(tanh(gather_rows(c["table"], c["rows"])), c["w"]))); });
}

TEST(JaxCompositions, Broadcasting) {
  expect_jax("broadcasting", [](Case& c) {
    const Tensor a = c["a"], b = c["b"], v = c["c"];
    return reduce_sum(square(a * b + v) / (1 + exp(-b)) - maximum(a, v) * pow(square(v) + 0.5, b));
  });
}

TEST(JaxCompositions, ExtremesShareTiesAndProductsSurviveZeros) {
  for (const char* name : {"extremes_with_ties", "product_with_a_zero", "product_with_two_zeros"}) {
    expect_jax(name, [](Case& c) {
      const Tensor x = c["x"];
      return reduce_sum(reduce_max(x, {1})) * 2 + reduce_sum(reduce_min(x, {0})) +
             reduce_prod(slice(x, {0, 0}, {1, 3}));
    });
  }
}

TEST(JaxCompositions, ASelectStopsNaNOnlyWhereItsOperandIsSafe) {
  expect_jax("masked_sqrt", [](Case& c) { return reduce_sum(select(greater(c["x"], 0), sqrt(c["x"]), 0)); });
  expect_jax("safe_sqrt", [](Case& c) {
    const Tensor positive = greater(c["x"], 0);
    return reduce_sum(select(positive, sqrt(select(positive, c["x"], 1)), 0));
  });
}

TEST(JaxCompositions, TheGradientOfAGradient) {
  expect_jax("gradient_penalty", [](Case& c) {
    const Tensor h = matmul(c["x"], c["w"]);
    const Tensor inner = reduce_sum(tanh(h) * silu(h));
    const Tensor slope = append_gradients(c.graph, inner, c.graph.constant(1, f64), {c["x"]})[0];
    return reduce_sum(square(slope));
  });
}

TEST(JaxCompositions, StridedSlicesPadsAndConcats) {
  expect_jax("window", [](Case& c) {
    const Tensor x = c["x"];
    const Tensor parts = concat({slice(x, {0, 1}, {2, 6}, {1, 2}), pad(x, {0, 1}, {0, 2}, 0)}, 1);
    return reduce_sum(sin(parts) * 0.5);
  });
}

}  // namespace
}  // namespace wholestep
