#include "passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "evaluate.h"
#include "expect_error.h"
#include "wholestep/ops.h"

namespace wholestep::passes {
namespace {

/// Small whole numbers, whose sums are exact in any order.
Tensor remainder_of(Tensor x) {
  const Tensor whole = round(maximum(minimum(x, 8), -8));
  return select(is_nan(x), 1.0, whole);
}

TEST(EliminateDead, RemovesWhatNothingNeedsButNeverTheSignature) {
  Graph graph("g");
  const Tensor x = graph.input("x", {2});
  graph.input("unused", {5});
  const Tensor w = graph.param("w", {2}, f32, Init::uniform(-1, 1));
  graph.state("m", {}, i64);
  const Tensor wasted = x * w;
  exp(wasted);
  graph.set_update(w, x - w);
  graph.set_outputs({sum(x)});
  const Graph lean = eliminate_dead(graph);
  EXPECT_EQ(lean.nodes().size(), 6u) << lean.to_text();
  EXPECT_EQ(init_of(lean.node(lean.find_id("w"))).kind, Init::Kind::uniform);
  EXPECT_EQ(lean.name(), "g");
  for (const char* name : {"x", "unused", "w", "m"}) EXPECT_GE(lean.find_id(name), 0);
  expect_same(evaluate(graph, 1), evaluate(lean, 1));
}

TEST(TurnProducts, SwapsOperandsWhereALargeSecondOneIsStoredTransposed) {
  const auto turned = [](std::int64_t rows, bool transpose_a, bool by_op) {
    Graph graph;
    const Tensor a = graph.input("a", transpose_a ? Shape{300, rows} : Shape{rows, 300}),
                 b = graph.input("b", {260, 300});
    graph.set_outputs({by_op ? matmul(a, transpose(b), transpose_a, false) : matmul(a, b, transpose_a, true)});
    const Graph after = turn_products(graph);
    verify(after);
    for (const Node& node : after.nodes()) {
      if (node.op->name == "matmul") return after.node(node.operands[0]).name == "b";
    }
    return false;
  };
  for (const bool transpose_a : {false, true}) {
    for (const bool by_op : {false, true}) {
      EXPECT_TRUE(turned(3, transpose_a, by_op));
      EXPECT_FALSE(turned(64, transpose_a, by_op)) << "as much would be copied as before, about";
    }
  }
}

TEST(ShareCommon, GivesEqualNodesOneId) {
  Graph graph;
  const Tensor x = graph.input("x", {2, 2});
  const Tensor a = exp(x * 2.0) + sum(x, {0});
  const Tensor b = exp(x * 2.0) + sum(x, {0});
  graph.set_outputs({a, b});
  const Graph shared = share_common(graph);
  EXPECT_EQ(shared.outputs()[0], shared.outputs()[1]);
  EXPECT_EQ(shared.nodes().size(), (graph.nodes().size() - 1) / 2 + 1);
  expect_same(evaluate(graph, 1), evaluate(shared, 1));
}

TEST(ShareCommon, KeepsApartWhatDiffersInAnyBit) {
  Graph graph;
  const Tensor x = graph.input("x", {2, 2});
  graph.set_outputs({graph.constant(0.0, f32), graph.constant(-0.0, f32), graph.constant(0.0, f64), sum(x, {0}),
                     sum(x, {1}), sub(x, exp(x)), sub(exp(x), x)});
  const Graph shared = share_common(graph);
  std::vector<NodeId> outputs = shared.outputs();
  std::sort(outputs.begin(), outputs.end());
  EXPECT_EQ(std::unique(outputs.begin(), outputs.end()) - outputs.begin(), 7);
}

TEST(ShareCommon, NeverMergesParametersOfOneType) {
  Graph graph;
  graph.set_outputs({graph.param("a", {2}) + graph.param("b", {2})});
  EXPECT_EQ(share_common(graph).nodes().size(), 3u);
}

Graph graph_of(const OpDef& op, const OpExample& example) {
  Graph graph(op.name);
  std::vector<Tensor> operands;
  for (const TensorType& type : example.operands)
    operands.push_back(graph.input("x" + std::to_string(operands.size()), type.shape, type.dtype));
  graph.set_outputs({graph.apply(op.name, operands, example.attrs)});
  return graph;
}

TEST(Decompose, LeavesOnlyPrimitivesOfEveryOp) {
  for (const OpDef* op : op_table().all()) {
    for (const OpExample& example : op->examples) {
      const Graph graph = graph_of(*op, example);
      const Graph lowered = run_pipeline(graph, {}, /*verify_each=*/true);
      for (const Node& node : lowered.nodes())
        EXPECT_FALSE(node.op->decompose) << op->name << " left " << node.op->name;
      ASSERT_EQ(lowered.outputs().size(), 1u);
      EXPECT_EQ(lowered.node(lowered.outputs()[0]).type, graph.node(graph.outputs()[0]).type);
    }
  }
}

TEST(Decompose, KeepsTheOpsThatItIsToldTo) {
  Graph graph;
  const Tensor logits = graph.input("logits", {4, 3});
  graph.set_outputs({cross_entropy(logits, graph.input("labels", {4}, i32)), mean(softmax(logits))});
  const Graph kept = decompose(graph, [](const OpDef& op) { return op.name == "softmax"; });
  EXPECT_EQ(kept.nodes_of("softmax").size(), 1u);
  EXPECT_TRUE(kept.nodes_of("cross_entropy").empty());
  EXPECT_TRUE(kept.nodes_of("reduce_mean").empty());
}

TEST(WidenProducts, GivesTheSameNumbers) {
  for (const DType dtype : {bf16, f16}) {
    Graph graph;
    const Tensor a = remainder_of(graph.input("a", {3, 20}, dtype)), b = graph.input("b", {5, 20}, dtype);
    const Tensor product = matmul(a, remainder_of(b), false, true);
    graph.set_outputs({product, product + 1.0});
    const Graph wide = widen_products(graph);
    EXPECT_TRUE(std::ranges::none_of(
        wide.nodes(), [&](const Node& node) { return node.op->name == "matmul" && node.type.dtype == dtype; }));
    expect_same(evaluate(graph, 1), evaluate(wide, 1));
  }
}

TEST(SplitDepth, SumsPiecesOfALongProductInEveryLayout) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      Graph graph;
      const Tensor a = graph.input("a", transpose_a ? Shape{2, 768, 3} : Shape{2, 3, 768}, f64);
      const Tensor b = graph.input("b", transpose_b ? Shape{2, 5, 768} : Shape{2, 768, 5}, f64);
      graph.set_outputs({matmul(remainder_of(a), remainder_of(b), transpose_a, transpose_b)});
      const Graph split = split_depth(graph);
      EXPECT_TRUE(std::ranges::any_of(split.nodes(), [](const Node& node) { return node.op->name == "reduce_sum"; }));
      expect_same(evaluate(graph, 1), evaluate(split, 1));
    }
  }
}

TEST(SplitReductions, AreTheSameInTwoSteps) {
  struct Case {
    Shape shape;
    std::vector<std::int64_t> axes;
    bool keepdims;
  };
  for (const auto& [shape, axes, keepdims] : {Case{{784, 128}, {0, 1}, false},
                                              {{20000}, {0}, true},
                                              {{4, 5000}, {0, 1}, false},
                                              {{5000, 4}, {0}, false},
                                              {{5000, 4}, {0}, true},
                                              {{2, 3, 64, 128}, {0, 2, 3}, true},
                                              {{2, 3, 64, 128}, {1, 2, 3}, false},
                                              {{1, 40, 1, 500}, {0, 1, 2, 3}, false}}) {
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"}) {
      Graph graph;
      const Tensor x = graph.input("x", shape, f64);
      const Tensor of = std::string(op) == "reduce_prod" ? sign(x) : remainder_of(x);
      const Tensor result = graph.apply(op, {of}, {{"axes", axes}, {"keepdims", keepdims}});
      graph.set_outputs({result, result + 1.0});
      const Graph split = split_reductions(graph);
      EXPECT_EQ(split.nodes_of(op).size(), 2u) << to_string(shape);
      expect_same(evaluate(graph, 1), evaluate(split, 1));
    }
  }
}

TEST(SplitReductions, LeaveWhatIsSmallOrManyOrWouldBeRoundedAlone) {
  const auto unchanged = [](const Shape& shape, const std::vector<std::int64_t>& axes, DType dtype) {
    Graph graph;
    graph.set_outputs({reduce_sum(graph.input("x", shape, dtype), axes)});
    return split_reductions(graph) == graph;
  };
  EXPECT_FALSE(unchanged({784, 128}, {0, 1}, f32));
  EXPECT_FALSE(unchanged({784, 128}, {0, 1}, i32));
  EXPECT_TRUE(unchanged({128, 100}, {0, 1}, f32));   // small
  EXPECT_TRUE(unchanged({784, 128}, {0}, f32));      // many results
  EXPECT_TRUE(unchanged({784, 128}, {0, 1}, bf16));  // partial results would be rounded
  EXPECT_TRUE(unchanged({104729}, {0}, f32));        // a prime
  EXPECT_TRUE(unchanged({0, 784, 128}, {1, 2}, f32));
  EXPECT_TRUE(unchanged({784, 128}, {}, f32));
}

TEST(SplitDepth, LeavesProductsWhoseResultIsLargeShortOrNarrowAlone) {
  const auto unchanged = [](const Shape& a, const Shape& b, DType dtype) {
    Graph graph;
    graph.set_outputs({matmul(graph.input("a", a, dtype), graph.input("b", b, dtype))});
    return split_depth(graph) == graph;
  };
  EXPECT_FALSE(unchanged({64, 784}, {784, 128}, f32));
  EXPECT_TRUE(unchanged({784, 64}, {64, 128}, f32));        // short
  EXPECT_TRUE(unchanged({1024, 1024}, {1024, 1024}, f32));  // the result is as large as the operands
  EXPECT_TRUE(unchanged({3, 787}, {787, 5}, f32));          // a prime depth
  EXPECT_TRUE(unchanged({64, 784}, {784, 128}, bf16));      // pieces would be rounded to bf16
  EXPECT_TRUE(unchanged({64, 784}, {784, 128}, i32));
  EXPECT_TRUE(unchanged({0, 784}, {784, 128}, f32));
}

TEST(Pipeline, StopsAfterThePassAskedFor) {
  Graph graph;
  const Tensor x = graph.input("x", {4, 3});
  graph.set_outputs({mean(softmax(x * 1.0))});
  EXPECT_EQ(run_pipeline(graph, "simplify").nodes_of("mul").size(), 0u);
  EXPECT_EQ(run_pipeline(graph, "share_common").nodes_of("softmax").size(), 1u);
  EXPECT_EQ(run_pipeline(graph, "decompose").nodes_of("softmax").size(), 0u);
  expect_error(ErrorCode::unknown_name, {"'fold'", "simplify, share_common"}, [&] { run_pipeline(graph, "fold"); });
}

TEST(Pipeline, PassesHaveDifferentNames) {
  std::vector<std::string> names;
  for (const Pass& pass : pipeline()) names.push_back(pass.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST(Pipeline, ChangesNoBitOfRandomGraphsOfPrimitives) {
  const Shape shape = {3, 4};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    random::Stream stream(seed, 9);
    const DType dtype = std::vector<DType>{f32, f64, bf16, f16}[stream.below(4)];
    Graph graph;
    std::vector<Tensor> values = {graph.input("x", shape, dtype), graph.param("w", shape, dtype)};
    const double constants[] = {0.0, -0.0, 1.0, -1.0};
    const auto pick = [&] {
      return values[values.size() - 1 - stream.below(std::min<std::uint64_t>(values.size(), 6))];
    };
    for (int i = 0; i < 25; ++i) {
      const Tensor a = pick();
      const Tensor b = stream.below(2) ? pick() : graph.full(shape, constants[stream.below(4)], dtype);
      const std::function<Tensor()> choices[] = {[&] { return a + b; },
                                                 [&] { return a - b; },
                                                 [&] { return a * b; },
                                                 [&] { return b * a; },
                                                 [&] { return a / b; },
                                                 [&] { return neg(a); },
                                                 [&] { return abs(a); },
                                                 [&] { return maximum(a, b); },
                                                 [&] { return minimum(a, a); },
                                                 [&] { return select(less(a, b), a, b); },
                                                 [&] { return select(logical_not(is_nan(a)), a, b); },
                                                 [&] { return reshape(reshape(a, {12}), shape); },
                                                 [&] { return transpose(transpose(a, {1, 0}), {1, 0}); },
                                                 [&] { return cast(cast(a, f64), dtype); },
                                                 [&] { return cast(cast(a, bf16), dtype); },
                                                 [&] { return floor(a); },
                                                 [&] { return sign(a); }};
      values.push_back(choices[stream.below(std::size(choices))]());
    }
    graph.set_outputs({values.back(), values[values.size() - 2]});
    graph.set_update(graph.find("w"), values[values.size() - 3]);
    const Graph lowered = run_pipeline(graph, {}, /*verify_each=*/true);
    EXPECT_LE(lowered.nodes().size(), graph.nodes().size());
    expect_same(evaluate(graph, seed), evaluate(lowered, seed));
    if (HasFailure()) FAIL() << graph.to_text() << lowered.to_text();
  }
}

}  // namespace
}  // namespace wholestep::passes
