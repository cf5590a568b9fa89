// What gradients_with_loss and append_gradients promise of the graph that they make.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/values.h"

namespace wholestep {
namespace {

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

/// loss = mean((x w + b)^2), with the number of rows and the prediction as auxiliary outputs.
Graph regression() {
  Graph g("regression");
  const Tensor x = g.input("x", {4, 3});
  const Tensor w = g.param("w", {3, 2});
  const Tensor b = g.param("b", {2});
  const Tensor y = matmul(x, w) + b;
  g.set_outputs({reduce_mean(square(y)), y, reduce_sum(cast(greater(y, 0), i32))});
  return g;
}

std::size_t count_nodes(const Graph& graph, std::string_view op) { return graph.nodes_of(op).size(); }

TEST(Gradients, OutputsAreLossThenAuxiliaryThenGradientsInTheOrderAskedFor) {
  const Graph forward = regression();
  const Graph g = gradients_with_loss(forward, {"b", "x", "w"});
  ASSERT_EQ(g.outputs().size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(g.outputs()[i], forward.outputs()[i]);
  EXPECT_EQ(g.node(g.outputs()[3]).type, (TensorType{f32, {2}}));
  EXPECT_EQ(g.node(g.outputs()[4]).type, (TensorType{f32, {4, 3}}));
  EXPECT_EQ(g.node(g.outputs()[5]).type, (TensorType{f32, {3, 2}}));
  verify(g);
}

TEST(Gradients, TheForwardNodesKeepTheirIdsAndTheCotangentIsAnInput) {
  const Graph forward = regression();
  const Graph g = gradients_with_loss(forward, {"w"});
  for (std::size_t i = 0; i < forward.nodes().size(); ++i) EXPECT_EQ(g.nodes()[i].op, forward.nodes()[i].op);
  const NodeId d = g.find_id("d_output");
  ASSERT_GE(d, 0);
  EXPECT_EQ(g.node(d).op->name, "input");
  EXPECT_EQ(g.node(d).type, (TensorType{f32, {}}));
}

TEST(Gradients, AreProportionalToTheCotangent) {
  Graph forward("f");
  const Tensor x = forward.input("x", {}, f64);
  forward.set_outputs({square(x)});
  const Graph g = gradients_with_loss(forward, {"x"});
  const auto at = [&](double d) {
    return testing::evaluate(
               g, {{"x", testing::value_of({f64, {}}, {3})}, {"d_output", testing::value_of({f64, {}}, {d})}})
        .at(1)
        .real[0];
  };
  EXPECT_EQ(at(1), 6);
  EXPECT_EQ(at(1024), 6144);
}

TEST(Gradients, UpdatesOfTheGraphAreKept) {
  Graph forward("f");
  const Tensor x = forward.input("x", {});
  const Tensor count = forward.state("count", {});
  forward.set_update(count, count + 1);
  forward.set_outputs({square(x) * count});
  const Graph g = gradients_with_loss(forward, {"x", "count"});
  ASSERT_EQ(g.updates().size(), 1U);
  EXPECT_EQ(g.updates()[0].target, count.id());
}

TEST(Gradients, OfWhatTheLossDoesNotDependOnAreZeros) {
  Graph forward("f");
  const Tensor x = forward.input("x", {}, f64);
  forward.param("unused", {2, 2}, f64);
  forward.set_outputs({floor(x)});
  const Graph g = gradients_with_loss(forward, {"unused", "x"});
  const std::vector<HostValue> values = testing::evaluate(g, {{"x", testing::value_of({f64, {}}, {1.5})},
                                                              {"unused", HostValue(TensorType{f64, {2, 2}})},
                                                              {"d_output", testing::value_of({f64, {}}, {1})}});
  EXPECT_EQ(values[1].type, (TensorType{f64, {2, 2}}));
  EXPECT_EQ(values[1].real, std::vector<double>(4, 0.0));
  EXPECT_EQ(values[2].real, std::vector<double>(1, 0.0));
}

TEST(Gradients, NothingIsComputedForOperandsOffThePath) {
  Graph forward("f");
  const Tensor w = forward.param("w", {8, 8});
  const Tensor x = forward.input("x", {8, 8});
  forward.set_outputs({reduce_sum(matmul(x, w))});
  const Graph g = gradients_with_loss(forward, {"w"});
  // The product for w; none for x.
  EXPECT_EQ(count_nodes(g, "matmul"), 2U);
}

TEST(Gradients, ThroughIntegersDoNotFlow) {
  Graph forward("f");
  const Tensor x = forward.input("x", {3}, f64);
  forward.set_outputs({reduce_sum(cast(cast(x, i32), f64) * x)});
  const Graph g = gradients_with_loss(forward, {"x"});
  const std::vector<HostValue> values = testing::evaluate(
      g, {{"x", testing::value_of({f64, {3}}, {1.5, 2.25, -3.5})}, {"d_output", testing::value_of({f64, {}}, {1})}});
  EXPECT_EQ(values[1].real, (std::vector<double>{1, 2, -3}));
}

TEST(Gradients, OfAValueUsedTwiceAreAdded) {
  Graph g("f");
  const Tensor x = g.input("x", {}, f64);
  const Tensor y = x * x + sin(x) * x;
  g.set_outputs({append_gradients(g, y, g.constant(1, f64), {x})[0]});
  const double at = 0.7;
  EXPECT_NEAR(testing::evaluate(g, {{"x", testing::value_of({f64, {}}, {at})}})[0].real[0],
              2 * at + std::sin(at) + at * std::cos(at), 1e-15);
}

TEST(Gradients, WithRespectToInnerTensorsAreTotal) {
  Graph g("f");
  const Tensor x = g.input("x", {}, f64);
  const Tensor y = square(x);
  const Tensor z = y * x;
  g.set_outputs(append_gradients(g, z, g.constant(1, f64), {x, y, z}));
  const std::vector<HostValue> values = testing::evaluate(g, {{"x", testing::value_of({f64, {}}, {2})}});
  EXPECT_EQ(values[0].real[0], 12);
  EXPECT_EQ(values[1].real[0], 2);
  EXPECT_EQ(values[2].real[0], 1);
}

TEST(Gradients, OfACompositeWithoutARuleGoThroughItsDecomposition) {
  // The op is made here so that the test does not depend on which ops of the table have rules: q(a, b) = a * b +
  // sin(a).
  OpDef op;
  op.name = "q";
  op.kind = OpKind::composite;
  op.min_operands = op.max_operands = 2;
  op.decompose = [](Graph&, const Node&, const std::vector<Tensor>& x) { return x[0] * x[1] + sin(x[0]); };
  op.evaluate = [](const EvalArgs& args) {
    const double a = args.operands[0]->real[0], b = args.operands[1]->real[0];
    args.result.real[0] = a * b + std::sin(a);
  };
  // A node of the graph becomes one of this op: same operands and type as an addition.
  Graph g("f");
  const Tensor x = g.input("x", {}, f64);
  const Tensor doubled = x + x;
  const Tensor twice = add(doubled, doubled);
  const Tensor mixed = add(doubled, x);
  for (const Tensor& t : {twice, mixed}) const_cast<Node&>(g.node(t.id())).op = &op;
  g.set_outputs(
      {append_gradients(g, twice, g.constant(1, f64), {x})[0], append_gradients(g, mixed, g.constant(1, f64), {x})[0]});
  const double at = 0.3;
  const std::vector<HostValue> values = testing::evaluate(g, {{"x", testing::value_of({f64, {}}, {at})}});
  EXPECT_NEAR(values[0].real[0], 8 * at + 2 * std::cos(2 * at), 1e-15);
  EXPECT_NEAR(values[1].real[0], 4 * at + 2 * std::cos(2 * at), 1e-15);
}

TEST(Gradients, AGraphOfTenThousandNodesGrowsLinearly) {
  Graph g("chain");
  const Tensor x = g.input("x", {}, f64);
  Tensor y = x;
  for (int i = 0; i < 10000; ++i) y = i % 2 ? sin(y) : y + x;
  g.set_outputs({y});
  const Graph gradient = gradients_with_loss(g, {"x"});
  EXPECT_LT(gradient.nodes().size(), 4 * g.nodes().size());
}

TEST(Gradients, ASecondGradientGraphNumbersItsCotangent) {
  Graph forward("f");
  const Tensor x = forward.input("x", {}, f64);
  forward.set_outputs({x * x * x});
  Graph first = gradients_with_loss(forward, {"x"});
  first.set_outputs({first.tensor(first.outputs()[1])});
  const Graph second = gradients_with_loss(first, {"x"});
  ASSERT_GE(second.find_id("d_output_2"), 0);
  const HostValue one = testing::value_of({f64, {}}, {1});
  const std::vector<HostValue> values =
      testing::evaluate(second, {{"x", testing::value_of({f64, {}}, {5})}, {"d_output", one}, {"d_output_2", one}});
  EXPECT_EQ(values[0].real[0], 75);
  EXPECT_EQ(values[1].real[0], 30);
}

TEST(Gradients, AReluCostsAComparisonAndASelect) {
  Graph g("f");
  const Tensor x = g.input("x", {3});
  const Tensor y = relu(x);
  const Tensor cotangent = g.input("c", {3});
  append_gradients(g, y, cotangent, {x});
  EXPECT_EQ(count_nodes(g, "greater"), 1U);
  EXPECT_EQ(count_nodes(g, "select"), 1U);
  EXPECT_EQ(count_nodes(g, "mul"), 0U);
}

TEST(GradientErrors, AGraphWithoutOutputs) {
  Graph g("f");
  g.param("w", {2});
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"w"}); }), ErrorCode::no_outputs);
}

TEST(GradientErrors, ALossThatIsNotAFloatScalar) {
  Graph g("f");
  const Tensor w = g.param("w", {2});
  g.set_outputs({w});
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"w"}); }), ErrorCode::loss_not_scalar);
  g.set_outputs({reduce_sum(cast(w, i32))});
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"w"}); }), ErrorCode::loss_not_scalar);
}

TEST(GradientErrors, NoNamesUnknownNamesRepeatedNamesAndIntegers) {
  Graph g = regression();
  g.input("labels", {4}, i32);
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {}); }), ErrorCode::empty_wrt);
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"w", "v"}); }), ErrorCode::unknown_name);
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"w", "b", "w"}); }), ErrorCode::duplicate_name);
  EXPECT_EQ(code_of([&] { gradients_with_loss(g, {"labels"}); }), ErrorCode::not_differentiable);
}

TEST(GradientErrors, MessagesNameTheParameter) {
  try {
    gradients_with_loss(regression(), {"v"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'v'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("regression"), std::string::npos) << error.what();
  }
}

TEST(GradientErrors, ACotangentOfAnotherTypeOrGraph) {
  Graph g("f"), other("g");
  const Tensor x = g.input("x", {2});
  const Tensor y = sin(x);
  EXPECT_EQ(code_of([&] { append_gradients(g, y, g.full({3}, 1, f32), {x}); }), ErrorCode::shape_mismatch);
  EXPECT_EQ(code_of([&] { append_gradients(g, y, g.full({2}, 1, f64), {x}); }), ErrorCode::dtype_mismatch);
  EXPECT_EQ(code_of([&] { append_gradients(g, y, other.full({2}, 1, f32), {x}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { append_gradients(g, y, y, {Tensor()}); }), ErrorCode::invalid_argument);
}

TEST(GradientErrors, AnOpThatRefusesIsAnErrorOnlyOnThePath) {
  OpDef refusing = *op_table().find("sin");
  refusing.name = "refusing";
  refusing.gradient = NotDifferentiable{"it was told to refuse", true};
  Graph g("f");
  const Tensor x = g.input("x", {}, f64);
  const Tensor c = g.input("c", {}, f64);
  const Tensor refused = sin(x);
  const_cast<Node&>(g.node(refused.id())).op = &refusing;
  const Tensor y = refused * c;
  EXPECT_EQ(code_of([&] { append_gradients(g, y, g.constant(1, f64), {x}); }), ErrorCode::not_differentiable);
  EXPECT_EQ(append_gradients(g, y, g.constant(1, f64), {c}).size(), 1U);
}

}  // namespace
}  // namespace wholestep
