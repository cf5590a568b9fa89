#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "expect_error.h"
#include "passes/passes.h"
#include "support/values.h"
#include "wholestep/nn.h"

namespace wholestep::passes {
namespace {

constexpr Precision kReduced[] = {Precision::mixed_bf16, Precision::mixed_f16, Precision::f16};

// The dtype in which the only node of op `op` is computed.
DType computed_in(const Graph& graph, std::string_view op) {
  const std::vector<NodeId> found = graph.nodes_of(op);
  EXPECT_EQ(found.size(), 1u) << op << " in " << graph.to_text();
  return graph.node(graph.node(found.at(0)).operands.at(0)).type.dtype;
}

Graph classifier() {
  Graph graph("classifier");
  const Tensor x = graph.input("x", {4, 6}, u8), y = graph.input("y", {4}, i32);
  const Tensor logits = nn::linear(graph, "fc", cast(x, f32) / 255.0, 3);
  graph.set_outputs({cross_entropy(relu(logits), y), logits, count_correct(logits, y)});
  return graph;
}

TEST(Precision, MixedComputesProductsAndWhatFollowsThemInFewBitsAndLossesInF32) {
  for (const auto& [precision, low] : {std::pair(Precision::mixed_bf16, bf16), std::pair(Precision::mixed_f16, f16)}) {
    const Graph mixed = apply_precision(classifier(), precision);
    verify(mixed);
    EXPECT_EQ(computed_in(mixed, "matmul"), low);
    EXPECT_EQ(computed_in(mixed, "add"), low);
    EXPECT_EQ(computed_in(mixed, "relu"), low);
    EXPECT_EQ(computed_in(mixed, "div"), f32);
    EXPECT_EQ(computed_in(mixed, "cross_entropy"), f32);
    EXPECT_EQ(computed_in(mixed, "count_correct"), f32);
  }
}

TEST(Precision, AlwaysF16ComputesEverythingInF16) {
  const Graph half = apply_precision(classifier(), Precision::f16);
  verify(half);
  for (const char* op : {"div", "matmul", "add", "relu", "cross_entropy", "count_correct"}) {
    EXPECT_EQ(computed_in(half, op), f16) << op;
  }
}

TEST(Precision, KeepsSignatureOutputsAndUpdatesInTheirTypes) {
  Graph graph = classifier();
  const Tensor average = graph.state("average", {4, 3});
  graph.set_update(average, average * 0.9 + graph.tensor(graph.outputs()[1]) * 0.1);
  for (const Precision precision : kReduced) {
    const Graph reduced = apply_precision(graph, precision);
    for (const Node& node : graph.nodes()) {
      if (node.name.empty()) continue;
      const NodeId id = reduced.find_id(node.name);
      ASSERT_GE(id, 0) << node.name;
      EXPECT_EQ(reduced.node(id).type, node.type) << node.name;
    }
    ASSERT_EQ(reduced.outputs().size(), graph.outputs().size());
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
      EXPECT_EQ(reduced.node(reduced.outputs()[i]).type, graph.node(graph.outputs()[i]).type);
    }
    EXPECT_EQ(reduced.updates().size(), 1u);
  }
}

TEST(Precision, F32ChangesNothing) { EXPECT_TRUE(apply_precision(classifier(), Precision::f32) == classifier()); }

TEST(Precision, WhatMeetsAValueThatMustBeF32IsF32) {
  Graph graph;
  const Tensor x = graph.input("x", {4, 4}), w = graph.param("w", {4, 4});
  graph.set_outputs({matmul(x, w) * softmax(x)});
  EXPECT_EQ(computed_in(apply_precision(graph, Precision::mixed_bf16), "mul"), f32);
}

TEST(Precision, OpsOnParametersAloneStayInF32) {
  Graph graph;
  const Tensor w = graph.param("w", {4, 4});
  graph.set_outputs({matmul(graph.input("x", {4, 4}), w * 0.5)});
  EXPECT_EQ(computed_in(apply_precision(graph, Precision::mixed_bf16), "mul"), f32);
}

TEST(Precision, TypesThatAGraphAsksForByNameAreKept) {
  Graph graph;
  const Tensor wide = graph.input("wide", {4, 4}, f64), narrow = cast(graph.input("x", {4, 4}), bf16);
  graph.set_outputs({matmul(wide, wide), exp(narrow), cast(narrow, f32) * 2.0});
  EXPECT_TRUE(apply_precision(graph, Precision::mixed_f16).to_text() == graph.to_text());
}

TEST(Precision, AValueIsCastOnceForAllItsUsers) {
  Graph graph;
  const Tensor x = graph.input("x", {4, 4}), w = graph.param("w", {4, 4});
  graph.set_outputs({matmul(x, w) + matmul(w, x)});
  const Graph mixed = apply_precision(graph, Precision::mixed_bf16);
  EXPECT_EQ(mixed.nodes_of("cast").size(), 3u) << mixed.to_text();  // x, w and the output
}

// Every op of the table, whatever its attributes say of types, gives a graph whose values are those of f32 to rounding.
TEST(Precision, EveryOpUnderEveryPolicyIsItsF32SelfToRounding) {
  int compared = 0;
  for (const OpDef* op : op_table().all()) {
    for (const OpExample& example : op->examples) {
      testing::Example made;
      testing::make_example(*op, example, false, made);
      const HostValue expected = testing::evaluate(made.graph, made.values, false).at(0);
      for (const Precision precision : kReduced) {
        SCOPED_TRACE(testing::describe(*op, example));
        const Graph reduced = apply_precision(made.graph, precision);
        verify(reduced);
        const HostValue actual = testing::evaluate(reduced, made.values, false).at(0);
        ASSERT_EQ(actual.type, expected.type);
        // A discontinuous op may fall on the other side.
        if (const auto* flat = std::get_if<NotDifferentiable>(&op->gradient); flat || op->name == "rem") continue;
        double largest = 1;
        for (double x : expected.real) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
        for (std::size_t i = 0; i < expected.real.size(); ++i) {
          if (!std::isfinite(expected.real[i])) continue;
          EXPECT_NEAR(actual.real[i], expected.real[i], 0.02 * largest) << to_string(precision) << " element " << i;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(Precision, GradientsThroughAPolicyAreThoseOfF32ToRounding) {
  Graph graph = classifier();
  const std::vector<std::string> names = trainable(graph);
  testing::Values values;
  random::Stream stream(5, 0);
  for (const Node& node : graph.nodes()) {
    if (node.name.empty()) continue;
    const double high = node.type.dtype == u8 ? 255 : node.type.dtype == i32 ? 3 : 0.5;
    values.emplace(node.name, testing::random_value(node.type, is_float(node.type.dtype) ? -0.5 : 0, high, stream));
  }
  values.emplace("d_output", testing::value_of({f32, {}}, {1}));
  const std::vector<HostValue> expected = testing::evaluate(gradients_with_loss(graph, names), values, false);
  for (const Precision precision : kReduced) {
    const Graph with_gradients = gradients_with_loss(apply_precision(graph, precision), names);
    const std::vector<HostValue> actual = testing::evaluate(with_gradients, values, false);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t k = 0; k < actual.size(); ++k) {
      ASSERT_EQ(actual[k].type, expected[k].type);
      for (std::size_t i = 0; i < actual[k].real.size(); ++i) {
        EXPECT_NEAR(actual[k].real[i], expected[k].real[i], 0.01) << to_string(precision) << " output " << k;
      }
    }
  }
}

TEST(Precision, NamesAreReadBackAndUnknownOnesRefused) {
  for (const Precision precision : {Precision::f32, Precision::mixed_bf16, Precision::mixed_f16, Precision::f16}) {
    EXPECT_EQ(precision_by_name(to_string(precision)), precision);
  }
  EXPECT_EQ(precision_by_name("mixed"), Precision::mixed_bf16);
  expect_error(ErrorCode::unknown_name, {"\"fp8\"", "mixed_bf16", "mixed_f16"}, [] { precision_by_name("fp8"); });
}

}  // namespace
}  // namespace wholestep::passes
