#include <gtest/gtest.h>

#include <algorithm>

#include "graph/op.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "train/step_graph.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"
#include "wholestep/optim.h"

namespace wholestep::plan {
namespace {

const schedule::Target kTarget{"test", 64, 32, true};

Plan plan_of(const Graph& graph, bool fuse = true) {
  PlanOptions options;
  options.fuse = fuse;
  options.target = kTarget;
  return make_plan(passes::run_pipeline(graph), options);
}

std::int64_t scratch_elements(const Plan& plan) {
  std::int64_t largest = 0;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.role == BufferRole::scratch) largest = std::max(largest, num_elements(buffer.type.shape));
  return largest;
}

TEST(Plan, AnElementwiseChainIsOneKernelWithoutScratch) {
  Graph g;
  Tensor x = g.input("x", {32, 7}), y = g.input("y", {7});
  g.set_outputs({tanh(exp(x * y) + 1.0) * x});
  const Plan plan = plan_of(g);
  EXPECT_EQ(plan.nests.size(), 1u);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Plan, WithoutFusionEveryOpIsAKernel) {
  Graph g;
  Tensor x = g.input("x", {32, 7});
  g.set_outputs({tanh(exp(x)) * x});
  EXPECT_EQ(plan_of(g, false).nests.size(), 3u);
}

TEST(Plan, AKernelHoldsSoManyFunctionsThatItIsCompiledSoon) {
  for (const bool kept : {false, true}) {
    Graph g;
    const Tensor x = g.input("x", {1000});
    Tensor y = x, total = x;
    for (int i = 0; i < 100; ++i) {
      y = sin(y);
      if (kept) total = total * y;
    }
    g.set_outputs({kept ? total : y});
    const Plan plan = plan_of(g);
    std::int64_t functions = 0;
    for (const schedule::Nest& nest : plan.nests) {
      const auto here = std::ranges::count_if(nest.exprs, [](const loops::Expr& e) {
        return e.kind == loops::ExprKind::unary && e.unary == loops::UnaryOp::sin;
      });
      EXPECT_LE(here, 2 * 13) << "in a whole vector and in the rest of one";
      functions += here;
    }
    EXPECT_GE(functions, 100);
    EXPECT_LE(plan.nests.size(), 20U);
  }
}

TEST(Plan, SoftmaxOverRowsIsOneKernel) {
  Graph g;
  Tensor x = g.input("x", {64, 10});
  g.set_outputs({softmax(x, -1)});
  const Plan plan = plan_of(g);
  EXPECT_EQ(plan.nests.size(), 1u) << to_text(plan);
}

TEST(Plan, BiasAndActivationAreTheEpilogueOfTheProduct) {
  Graph g;
  Tensor x = g.input("x", {64, 32}), w = g.param("w", {32, 16}), b = g.param("b", {16});
  g.set_outputs({relu(matmul(x, w) + b)});
  const Plan plan = plan_of(g);
  EXPECT_EQ(plan.nests.size(), 1u) << to_text(plan);
}

TEST(Plan, TheUpdateIsTheEpilogueOfTheWeightGradientSoGradientsTakeNoMemory) {
  const Graph forward = models::mlp(64);
  const Optimizer adamw = AdamW{};
  const Graph step =
      train::make_step_graph(forward, trainable(forward), train::rules_of(*adamw, forward, trainable(forward)));
  const Plan plan = plan_of(step);
  for (const Buffer& buffer : plan.buffers) {
    const bool gradient = buffer.role == BufferRole::scratch && buffer.type.shape == Shape{784, 128};
    EXPECT_FALSE(gradient) << to_text(plan);
  }
  // Neither do the images as floats: each product makes them from bytes as it goes.
  EXPECT_LT(scratch_elements(plan), 64 * 784) << to_text(plan);
  EXPECT_LE(plan.phases.size(), 6u) << to_text(plan);
}

TEST(Plan, AnUpdateIsInPlaceWhereEveryReaderComesFirst) {
  Graph g;
  Tensor x = g.input("x", {8}), s = g.state("s", {8});
  g.set_outputs({sum(s * x)});
  g.set_update(s, s * 0.5 + x);
  const Plan plan = plan_of(g);
  EXPECT_EQ(plan.arena_bytes, 0) << to_text(plan);
}

TEST(Plan, TwoStatesThatSwapAreCopied) {
  Graph g;
  Tensor a = g.state("a", {4}), b = g.state("b", {4});
  g.set_outputs({sum(a)});
  g.set_update(a, b);
  g.set_update(b, a);
  const Plan plan = plan_of(g);
  const auto copies = std::count_if(plan.notes.begin(), plan.notes.end(),
                                    [](const std::string& note) { return note.find("copy") != std::string::npos; });
  EXPECT_GE(copies, 1) << to_text(plan);
}

TEST(Plan, AStateThatIsReversedThroughATransposeIsCopied) {
  Graph g;
  Tensor s = g.state("s", {4, 4});
  g.set_outputs({sum(s)});
  g.set_update(s, transpose(s) + 1.0);
  EXPECT_GT(plan_of(g).arena_bytes, 0);
}

TEST(Plan, TenThousandUpdatesStayLinear) {
  Graph g;
  Tensor x = g.input("x", {4});
  for (int i = 0; i < 10000; ++i) {
    Tensor s = g.state("s" + std::to_string(i), {4});
    g.set_update(s, s * 0.5 + x);
  }
  g.set_outputs({sum(x)});
  const Plan plan = plan_of(g);
  EXPECT_EQ(plan.arena_bytes, 0);
}

}  // namespace
}  // namespace wholestep::plan
