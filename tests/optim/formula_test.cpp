// Every optimizer against plain C++ written from its paper, on gradients that are given: the loss is the dot product of
// the parameter with an input, so that input is the gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "graph/op.h"
#include "support/devices.h"
#include "wholestep/ops.h"
#include "wholestep/trainer.h"

namespace wholestep {
namespace {

constexpr int kSize = 7;
constexpr int kSteps = 25;
using Vector = std::vector<double>;

/// One element of a parameter with its optimizer state.
struct Element {
  double p = 0, a = 0, b = 0;
};
/// The paper's step number t (from 1) with gradient g.
using PlainStep = std::function<void(Element&, double g, int t)>;

struct Variant {
  std::string name;
  Optimizer optimizer;
  PlainStep plain;
};

PlainStep plain_sgd(SGD o) {
  return [o](Element& x, double g, int t) {
    g += o.weight_decay * x.p;
    if (o.momentum > 0) {
      x.a = t == 1 ? g : o.momentum * x.a + (1 - o.dampening) * g;
      g = o.nesterov ? g + o.momentum * x.a : x.a;
    }
    x.p -= o.lr * g;
  };
}

template <class Options>
PlainStep plain_adam(Options o, bool decoupled) {
  return [o, decoupled](Element& x, double g, int t) {
    if (!decoupled) g += o.weight_decay * x.p;
    x.a = o.beta1 * x.a + (1 - o.beta1) * g;
    x.b = o.beta2 * x.b + (1 - o.beta2) * g * g;
    const double m = x.a / (1 - std::pow(o.beta1, t));
    const double v = x.b / (1 - std::pow(o.beta2, t));
    if (decoupled) x.p -= o.lr * o.weight_decay * x.p;
    x.p -= o.lr * m / (std::sqrt(v) + o.eps);
  };
}

std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto sgd = [&](std::string name, SGD o) { all.push_back({std::move(name), o, plain_sgd(o)}); };
  sgd("Sgd", {.lr = 0.1});
  sgd("SgdDecay", {.lr = 0.1, .weight_decay = 0.2});
  sgd("SgdMomentum", {.lr = 0.05, .momentum = 0.9});
  sgd("SgdMomentumDecay", {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1});
  sgd("SgdDampening", {.lr = 0.05, .momentum = 0.9, .dampening = 0.3});
  sgd("SgdFullDampening", {.lr = 0.05, .momentum = 0.9, .dampening = 1});
  sgd("SgdNesterov", {.lr = 0.05, .momentum = 0.9, .nesterov = true});
  sgd("SgdNesterovDecay", {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  const auto adam = [&](std::string name, Adam o) { all.push_back({std::move(name), o, plain_adam(o, false)}); };
  adam("Adam", {});
  adam("AdamLargeRate", {.lr = 0.05, .beta1 = 0.7, .beta2 = 0.95});
  adam("AdamDecay", {.lr = 0.05, .weight_decay = 0.1});
  adam("AdamWithoutMemory", {.lr = 0.05, .beta1 = 0, .beta2 = 0});
  adam("AdamLargeEps", {.lr = 0.05, .eps = 0.5});
  const auto adamw = [&](std::string name, AdamW o) { all.push_back({std::move(name), o, plain_adam(o, true)}); };
  adamw("AdamW", {});
  adamw("AdamWLargeDecay", {.lr = 0.05, .weight_decay = 2});
  adamw("AdamWWithoutDecay", {.lr = 0.05, .weight_decay = 0});
  return all;
}

Graph dot_product(DType dtype) {
  Graph graph("dot");
  Tensor g = graph.input("g", {kSize}, dtype);
  Tensor p = graph.param("p", {kSize}, dtype);
  graph.set_outputs({reduce_sum(p * g, {0})});
  return graph;
}

Vector random_vector(std::mt19937& random) {
  std::normal_distribution<double> normal;
  Vector values(kSize);
  for (double& x : values) x = normal(random);
  return values;
}

using Case = std::tuple<Variant, Device>;

class OptimizerFormula : public ::testing::TestWithParam<Case> {
 protected:
  /// Largest relative difference after `kSteps` steps from the same start. Values that the dtype cannot hold are
  /// rounded for both.
  double largest_difference(DType dtype) {
    const auto& [variant, device] = GetParam();
    std::mt19937 random(17);
    const TensorType type{dtype, {kSize}};
    const Array start = Array::from_doubles(type, random_vector(random));
    ResidentTrainer trainer(dot_product(dtype), {"p"}, {{"p", start}}, variant.optimizer, device);
    std::vector<Element> plain(kSize);
    for (int i = 0; i < kSize; ++i) plain[i].p = start.to_doubles()[i];
    for (int t = 1; t <= kSteps; ++t) {
      const Array gradient = Array::from_doubles(type, random_vector(random));
      trainer.step({{"g", gradient}});
      for (int i = 0; i < kSize; ++i) variant.plain(plain[i], gradient.to_doubles()[i], t);
    }
    double largest = 0;
    const Vector reached = trainer.param("p").to_doubles();
    for (int i = 0; i < kSize; ++i) {
      largest = std::max(largest, std::abs(reached[i] - plain[i].p) / std::max(1.0, std::abs(plain[i].p)));
    }
    return largest;
  }
};

TEST_P(OptimizerFormula, IsThePapersInF32) { EXPECT_LT(largest_difference(DType::f32), 2e-6); }

// Learning rate and bias corrections are f32 inputs, so the update is not closer than that.
TEST_P(OptimizerFormula, IsThePapersInF64) { EXPECT_LT(largest_difference(DType::f64), 2e-7); }

// The parameter is rounded to bf16 (f16) once per step: half an ulp each.
TEST_P(OptimizerFormula, IsThePapersInBf16) { EXPECT_LT(largest_difference(DType::bf16), kSteps * 0x1p-9); }
TEST_P(OptimizerFormula, IsThePapersInF16) { EXPECT_LT(largest_difference(DType::f16), kSteps * 0x1p-12); }

INSTANTIATE_TEST_SUITE_P(Of, OptimizerFormula,
                         ::testing::Combine(::testing::ValuesIn(variants()),
                                            ::testing::ValuesIn(testing::built_devices())),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return std::get<0>(info.param).name + "On" + std::get<1>(info.param).name;
                         });

TEST(OptimizerSlots, AreKeptInF32ForHalfPrecisionParameters) {
  const Optimizer adam = Adam{};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const OptimizerSlot& slot : adam->slots({dtype, {3, 4}})) {
      EXPECT_EQ(slot.type, (TensorType{DType::f32, {3, 4}})) << slot.name;
    }
  }
  EXPECT_EQ(adam->slots({DType::f64, {2}})[1].type, (TensorType{DType::f64, {2}}));
}

TEST(OptimizerSlots, AreNoneForPlainSgd) {
  EXPECT_TRUE(Optimizer(SGD{})->slots({DType::f32, {3}}).empty());
  EXPECT_EQ(Optimizer(SGD{.momentum = 0.9})->slots({DType::f32, {3}}).size(), 1u);
}

TEST(AdamGraph, SpendsOneSquareRootAndOneDivisionPerElement) {
  Graph graph("update");
  const Tensor p = graph.param("p", {8}, DType::f32), g = graph.input("g", {8}), lr = graph.input("lr", {});
  const Optimizer adamw = AdamW{};
  OptimizerArgs args{graph, p, g, {graph.state("m", {8}), graph.state("v", {8})}, lr, {}};
  for (const StepScalar& scalar : adamw->scalars()) args.scalars.push_back(graph.input(scalar.name, {}));
  adamw->append(args);
  int roots = 0, divisions = 0;
  for (const Node& node : graph.nodes()) {
    if (node.type.shape != Shape{8}) continue;
    roots += node.op->name == "sqrt";
    divisions += node.op->name == "div";
  }
  EXPECT_EQ(roots, 1);
  EXPECT_EQ(divisions, 1);
}

// (1e-3)^40 is 0 in f32 and 50^30 infinite: only their ratios count.
TEST(ScheduleFree, WeightsMayBeBeyondF32) {
  const ScheduleFree options{.lr = 1e-3, .r = 30, .weight_lr_power = 40};
  for (const Device& device : testing::built_devices()) {
    SCOPED_TRACE(device.name);
    Graph g;
    const Tensor w = g.param("w", {1});
    g.set_outputs({sum(w * g.input("x", {1}))});
    ResidentTrainer trainer(g, {"w"}, {{"w", Array::from(std::vector<float>{0})}}, options, device);
    double x = 0, z = 0, v = 0, weights = 0;
    for (int t = 1; t <= 50; ++t) {
      const std::vector<float> gradient{static_cast<float>(std::sin(t))};
      trainer.step({{"x", gradient}});
      v = options.beta2 * v + (1 - options.beta2) * gradient[0] * gradient[0];
      z -= options.lr * gradient[0] / (std::sqrt(v / (1 - std::pow(options.beta2, t))) + options.eps);
      const double weight = std::pow(t, options.r) * std::pow(options.lr, options.weight_lr_power);
      weights += weight;
      x += weight / weights * (z - x);
      EXPECT_NEAR(trainer.param("w").item(), (1 - options.beta1) * z + options.beta1 * x, 1e-8) << t;
    }
  }
}

// The square of a gradient of 1e25 is more than f32 holds: its element then stands still, and the others go on.
TEST(Optimizers, SurviveAGradientWhoseSquareIsTooLarge) {
  for (const Device& device : testing::built_devices()) {
    for (const char* name : {"sgd", "adam", "adamw", "nadamw", "radam", "qhadamw", "lamb", "lion", "mars", "sophia",
                             "muon", "soap", "schedule_free_adamw"}) {
      SCOPED_TRACE(std::string(name) + " on " + device.name);
      Graph g;
      const Tensor w = g.param("w", {2});
      g.set_outputs({sum(w * g.input("x", {2}))});
      const std::vector<float> start{0, 0}, usual{1, 1}, large{1e25F, 1};
      ResidentTrainer trainer(g, {"w"}, {{"w", Array::from(start)}}, optimizer_by_name(name), device);
      for (int step = 0; step < 12; ++step) trainer.step({{"x", step == 1 || step == 2 ? large : usual}});
      const auto before = trainer.param("w").to_doubles();
      trainer.step({{"x", usual}});
      const auto after = trainer.param("w").to_doubles();
      EXPECT_TRUE(std::isfinite(after[0])) << after[0];
      EXPECT_TRUE(std::isfinite(after[1])) << after[1];
      EXPECT_NE(before[1], after[1]);
    }
  }
}

}  // namespace
}  // namespace wholestep
