#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

TEST(Graph, ErrorsNameTheOpAndTheTypesOfItsOperands) {
  Graph g;
  const Tensor a = g.input("a", {2, 3});
  const Tensor b = g.input("b", {4});
  const Tensor c = g.input("c", {2, 3}, i32);
  expect_error(ErrorCode::shape_mismatch, {"add", "f32[2, 3]", "f32[4]"}, [&] { g.apply("add", {a, b}); });
  expect_error(ErrorCode::dtype_mismatch, {"add", "f32[2, 3]", "i32[2, 3]"}, [&] { g.apply("add", {a, c}); });
  expect_error(ErrorCode::invalid_argument, {"add(f32[2, 3])", "expected 2 operands, got 1"},
               [&] { g.apply("add", {a}); });
  expect_error(ErrorCode::invalid_argument, {"neg(f32[2, 3])", "unknown attribute 'axis'"},
               [&] { g.apply("neg", {a}, {{"axis", std::int64_t{1}}}); });
  expect_error(ErrorCode::invalid_graph, {"transpose(f32[2, 3])", "'perm'"}, [&] { g.apply("transpose", {a}); });
  expect_error(ErrorCode::invalid_graph, {"transpose(f32[2, 3])", "'perm'"},
               [&] { g.apply("transpose", {a}, {{"perm", 1.0}}); });
  expect_error(ErrorCode::unknown_name, {"'frobnicate'"}, [&] { g.apply("frobnicate", {a}); });
  EXPECT_EQ(g.nodes().size(), 3u) << "a refused op leaves nothing behind";
}

TEST(Graph, RefusesTensorsOfAnotherGraphAndOfNone) {
  Graph g("mine");
  Graph other("theirs");
  const Tensor a = g.input("a", {2});
  const Tensor b = other.input("b", {2});
  expect_error(ErrorCode::invalid_argument, {"add", "'theirs'", "'mine'"}, [&] { g.apply("add", {a, b}); });
  expect_error(ErrorCode::invalid_argument, {"add", "no graph", "Graph::find"}, [&] { g.apply("add", {a, Tensor()}); });
  expect_error(ErrorCode::invalid_argument, {"set_outputs"}, [&] { g.set_outputs({b}); });
  expect_error(ErrorCode::invalid_argument, {"has no node 7"}, [&] { g.set_outputs({Tensor(&g, 7)}); });
  expect_error(ErrorCode::invalid_argument, {}, [&] { Tensor().type(); });
}

TEST(Graph, RefusesASecondUseOfAName) {
  Graph g;
  g.input("x", {2});
  expect_error(ErrorCode::duplicate_name, {"param 'x'", "f32[3]", "input"}, [&] { g.param("x", {3}); });
  expect_error(ErrorCode::invalid_argument, {"empty"}, [&] { g.input("", {3}); });
  expect_error(ErrorCode::invalid_argument, {"'y'", "negative"}, [&] { g.input("y", {-3}); });
  EXPECT_FALSE(g.find("y").valid()) << "a refused declaration does not take the name";
  EXPECT_EQ(g.nodes().size(), 1u);
}

TEST(Graph, FindsWhatItWasGivenByName) {
  Graph g;
  g.input("x", {2});
  const Tensor w = g.param("w", {3});
  g.state("m", {3});
  EXPECT_EQ(g.find("w").id(), w.id());
  EXPECT_FALSE(g.find("v").valid());
  EXPECT_EQ(g.find_id("nothing"), -1);
  EXPECT_EQ(g.nodes_of("state"), std::vector<NodeId>{2});
}

TEST(Graph, UpdatesOnlyParamsAndStatesWithTheirOwnType) {
  Graph g;
  const Tensor x = g.input("x", {2});
  const Tensor w = g.param("w", {2});
  const Tensor m = g.state("m", {3});
  expect_error(ErrorCode::not_a_parameter, {"input", "f32[2]"}, [&] { g.set_update(x, w); });
  expect_error(ErrorCode::shape_mismatch, {"'m'", "f32[3]", "f32[2]"}, [&] { g.set_update(m, x); });
  expect_error(ErrorCode::dtype_mismatch, {"'w'", "i32[2]"}, [&] { g.set_update(w, cast(x, i32)); });
  g.set_update(w, x);
  g.set_update(w, neg(x));
  ASSERT_EQ(g.updates().size(), 1u) << "a second update of a target replaces the first";
  EXPECT_EQ(g.node(g.updates()[0].value).op->name, "neg");
}

TEST(Graph, AScalarConstantOfAnIntegerTypeMustBeAValueOfIt) {
  Graph g;
  expect_error(ErrorCode::invalid_argument, {"0.5", "i32"}, [&] { g.constant(0.5, i32); });
  expect_error(ErrorCode::invalid_argument, {"256", "u8"}, [&] { g.constant(256, u8); });
  expect_error(ErrorCode::invalid_argument, {"2", "bool"}, [&] { g.constant(2, boolean); });
  expect_error(ErrorCode::invalid_argument, {"nan", "i64"}, [&] { g.constant(NAN, i64); });
  EXPECT_EQ(g.constant(-7, i64).dtype(), i64);
  EXPECT_EQ(g.node(g.constant(0.1, bf16).id()).attrs.get<Literal>("value")->item(), 0.10009765625);
}

TEST(Graph, RefusesAConstantWithoutData) {
  Graph g;
  expect_error(ErrorCode::invalid_argument, {"constant", "without data"}, [&] { g.constant(Array()); });
  expect_error(ErrorCode::invalid_argument, {"constant", "without data"},
               [&] { g.apply("constant", {}, {{"value", Literal()}}); });
}

TEST(Graph, InputsAreDeclaredAndNotApplied) {
  Graph g;
  expect_error(ErrorCode::invalid_argument, {"input"},
               [&] { g.apply("input", {}, {{"dtype", f32}, {"shape", Shape{2}}}); });
}

TEST(Graph, AnInitOutOfRangeIsRefused) {
  Graph g;
  expect_error(ErrorCode::invalid_argument, {"'w'", "low <= high"},
               [&] { g.param("w", {2}, f32, Init::uniform(1, 0)); });
  expect_error(ErrorCode::invalid_argument, {"'w'", "stddev"}, [&] { g.param("w", {2}, f32, Init::normal(0, -1)); });
  expect_error(ErrorCode::invalid_argument, {"'w'"}, [&] { g.param("w", {2}, f32, Init::normal(NAN, 1)); });
  const Tensor w = g.param("w", {2}, f32, Init::uniform(-0.5, 0.25));
  const Init init = init_of(g.node(w.id()));
  EXPECT_EQ(init.kind, Init::Kind::uniform);
  EXPECT_EQ(init.a, -0.5);
  EXPECT_EQ(init.b, 0.25);
}

TEST(Graph, ACopyIsEqualAndIndependent) {
  Graph g("g");
  const Tensor w = g.param("w", {2});
  g.set_outputs({w + 1.0});
  g.set_update(w, w * 2.0);
  Graph copy = g;
  EXPECT_TRUE(copy == g);
  copy.set_update(copy.find("w"), copy.find("w"));
  EXPECT_FALSE(copy == g);
  EXPECT_EQ(copy.updates().size(), 1u);
  copy = g;
  copy.input("x", {1});
  EXPECT_FALSE(copy == g);
  EXPECT_FALSE(g.find("x").valid());
}

TEST(Graph, TenThousandParametersAndNodesAreBuiltUpdatedPrintedAndParsed) {
  Graph g("large");
  std::vector<Tensor> params;
  for (int i = 0; i < 10000; ++i) params.push_back(g.param("layer" + std::to_string(i), {3}));
  Tensor total = params[0];
  for (const Tensor& param : params) total = add(total, param);
  for (const Tensor& param : params) g.set_update(param, total);
  g.set_outputs({total});
  EXPECT_EQ(g.updates().size(), 10000u);
  verify(g);
  EXPECT_TRUE(Graph::parse(g.to_text()) == g);
}

TEST(Attrs, CompareByBitsAndInAnyOrder) {
  const Attrs a{{"x", 0.0}, {"y", std::int64_t{1}}};
  EXPECT_TRUE(a == (Attrs{{"y", std::int64_t{1}}, {"x", 0.0}}));
  EXPECT_FALSE(a == (Attrs{{"x", -0.0}, {"y", std::int64_t{1}}}));
  EXPECT_FALSE(a == (Attrs{{"x", 0.0}, {"y", 1.0}}));
  EXPECT_TRUE((Attrs{{"x", NAN}}) == (Attrs{{"x", NAN}}));
  const auto literal = [](float value) { return std::make_shared<const Array>(Array::scalar(value)); };
  EXPECT_TRUE((Attrs{{"v", literal(1)}}) == (Attrs{{"v", literal(1)}}));
  EXPECT_FALSE((Attrs{{"v", literal(0.0f)}}) == (Attrs{{"v", literal(-0.0f)}}));
  expect_error(ErrorCode::invalid_graph, {"'z'"}, [&] { a.get<double>("z"); });
  expect_error(ErrorCode::invalid_graph, {"'y'"}, [&] { a.get<double>("y"); });
}

}  // namespace
}  // namespace wholestep
