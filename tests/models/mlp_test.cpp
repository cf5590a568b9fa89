#include <gtest/gtest.h>

#include "passes/passes.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

template <class Action>
ErrorCode code_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Linear, DeclaresWeightAndBiasAndMultipliesTheLastAxis) {
  Graph g;
  Tensor y = nn::linear(g, "fc", g.input("x", {2, 3, 4}), 5);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(g.find("fc.weight").shape(), (Shape{4, 5}));
  EXPECT_EQ(g.find("fc.bias").shape(), (Shape{5}));
  EXPECT_EQ(nn::linear(g, "row", g.input("r", {4}), 2).shape(), (Shape{2}));
}

TEST(Linear, WithoutBiasHasNone) {
  Graph g;
  nn::linear(g, "fc", g.input("x", {2, 3}), 5, false);
  EXPECT_EQ(trainable(g), std::vector<std::string>{"fc.weight"});
}

TEST(Linear, StartsWithinOneOverTheRootOfItsWidth) {
  Graph g;
  nn::linear(g, "fc", g.input("x", {2, 16}), 3);
  for (const auto& [name, array] : initial_values(g, 0)) {
    for (const double value : array.to_doubles()) EXPECT_LE(std::abs(value), 0.25) << name;
  }
}

TEST(Linear, RefusesScalarsIntegersAndNamesThatAreTaken) {
  Graph g;
  EXPECT_EQ(code_of([&] { nn::linear(g, "a", g.input("s", {}), 2); }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { nn::linear(g, "a", Tensor(), 2); }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { nn::linear(g, "a", g.input("i", {2, 2}, i32), 2); }), ErrorCode::dtype_mismatch);
  Tensor x = g.input("x", {2, 2});
  g.param("b.bias", {2});
  const std::size_t nodes = g.nodes().size();
  EXPECT_EQ(code_of([&] { nn::linear(g, "b", x, 2); }), ErrorCode::duplicate_name);
  EXPECT_EQ(g.nodes().size(), nodes);
}

TEST(Mlp, HasTheParametersAndOutputsOfTheClassifier) {
  const Graph g = models::mlp(64);
  EXPECT_EQ(trainable(g), (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  ASSERT_EQ(g.outputs().size(), 2U);
  EXPECT_EQ(g.node(g.outputs()[0]).type, (TensorType{f32, {}}));
  EXPECT_EQ(g.node(g.outputs()[1]).type, (TensorType{i32, {}}));
  std::int64_t parameters = 0;
  for (const NodeId id : g.nodes_of("param")) parameters += num_elements(g.node(id).type.shape);
  EXPECT_EQ(parameters, 101770);
}

TEST(Mlp, SharesTheSoftmaxBetweenLossCountAndGradients) {
  const Graph g = models::mlp(4);
  const Graph step = passes::run_pipeline(gradients_with_loss(g, trainable(g)), "eliminate_unused");
  EXPECT_EQ(step.nodes_of("exp").size(), 1U);
  EXPECT_EQ(step.nodes_of("log").size(), 1U);
  EXPECT_EQ(step.nodes_of("reduce_max").size(), 2U);  // of the logits, and the one that picks the label's
  EXPECT_EQ(step.nodes_of("matmul").size(), 5U);
  EXPECT_TRUE(step.nodes_of("transpose").empty());
}

TEST(Models, AreFoundByName) {
  EXPECT_TRUE(models::by_name("mlp")(8) == models::mlp(8));
  try {
    models::by_name("nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unknown_name);
    EXPECT_NE(std::string(error.what()).find("mlp"), std::string::npos);
  }
}

}  // namespace
}  // namespace wholestep
