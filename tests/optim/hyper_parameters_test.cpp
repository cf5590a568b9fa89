#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "support/devices.h"
#include "wholestep/optim.h"

namespace wholestep {
namespace {

using testing::expect_error;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The optimizer made from a double, which is the value of one hyper-parameter.
using Make = std::function<Optimizer(double)>;

template <class Options>
Make with(double Options::* field) {
  return [field](double value) {
    Options options;
    options.*field = value;
    return Optimizer(options);
  };
}

struct HyperParameter {
  std::string optimizer;  // as messages call it
  std::string name;
  Make make;
  std::vector<double> refused;
};

const std::vector<double> kNegative{-0.5, kNan, kInfinity}, kNotPositive{0, -1e-8, kNan, kInfinity},
    kNoRate{1, 1.5, -0.1, kNan}, kNoShare{-0.1, 1.5, kNan};

template <class Options>
void add_adam_like(std::vector<HyperParameter>& all, const std::string& optimizer) {
  all.push_back({optimizer, "lr", with(&Options::lr), kNegative});
  all.push_back({optimizer, "beta1", with(&Options::beta1), kNoRate});
  all.push_back({optimizer, "beta2", with(&Options::beta2), kNoRate});
  all.push_back({optimizer, "eps", with(&Options::eps), kNotPositive});
  all.push_back({optimizer, "weight_decay", with(&Options::weight_decay), kNegative});
}

std::vector<HyperParameter> hyper_parameters() {
  std::vector<HyperParameter> all{
      {"SGD", "lr", with(&SGD::lr), kNegative},
      {"SGD", "momentum", with(&SGD::momentum), kNegative},
      {"SGD", "dampening", with(&SGD::dampening), kNegative},
      {"SGD", "weight_decay", with(&SGD::weight_decay), kNegative},
      {"SGD", "momentum", [](double x) { return Optimizer(SGD{.momentum = x, .nesterov = true}); }, {0}},
      {"SGD",
       "dampening",
       [](double x) { return Optimizer(SGD{.momentum = 0.9, .dampening = x, .nesterov = true}); },
       {0.5}},
      {"NAdamW", "momentum_decay", with(&NAdamW::momentum_decay), kNegative},
      {"QHAdamW", "nu1", with(&QHAdamW::nu1), kNoShare},
      {"QHAdamW", "nu2", with(&QHAdamW::nu2), kNoShare},
      {"Adafactor", "lr", with(&Adafactor::lr), kNegative},
      {"Adafactor", "beta2_decay", with(&Adafactor::beta2_decay), {0.1, kNan, -kInfinity}},
      {"Adafactor", "eps1", with(&Adafactor::eps1), kNotPositive},
      {"Adafactor", "eps2", with(&Adafactor::eps2), kNotPositive},
      {"Adafactor", "d", with(&Adafactor::d), {0.5, kNan, kInfinity}},
      {"Adafactor", "weight_decay", with(&Adafactor::weight_decay), kNegative},
      {"Lion", "lr", with(&Lion::lr), kNegative},
      {"Lion", "beta1", with(&Lion::beta1), kNoRate},
      {"Lion", "beta2", with(&Lion::beta2), kNoRate},
      {"Lion", "weight_decay", with(&Lion::weight_decay), kNegative},
      {"Muon", "lr", with(&Muon::lr), kNotPositive},
      {"Muon", "momentum", with(&Muon::momentum), kNoRate},
      {"Muon", "weight_decay", with(&Muon::weight_decay), kNegative},
      {"Muon", "iterations", [](double x) { return Optimizer(Muon{.iterations = static_cast<int>(x)}); }, {0, -3}},
      {"AdamW", "beta1", [](double x) { return Optimizer(Muon{.rest = {.beta1 = x}}); }, kNoRate},
      {"SOAP", "shampoo_beta", with(&SOAP::shampoo_beta), kNoRate},
      {"SOAP",
       "precondition_frequency",
       [](double x) { return Optimizer(SOAP{.precondition_frequency = static_cast<int>(x)}); },
       {0, -3}},
      {"SOAP",
       "max_precond_dim",
       [](double x) { return Optimizer(SOAP{.max_precond_dim = static_cast<std::int64_t>(x)}); },
       {-1}},
      {"Kron", "lr", with(&Kron::lr), kNegative},
      {"Kron", "beta1", with(&Kron::beta1), kNoRate},
      {"Kron", "weight_decay", with(&Kron::weight_decay), kNegative},
      {"Kron",
       "max_size_triangular",
       [](double x) { return Optimizer(Kron{.max_size_triangular = static_cast<std::int64_t>(x)}); },
       {-1}},
      {"Kron", "precond_lr", with(&Kron::precond_lr), kNotPositive},
      {"Kron", "min_probability", with(&Kron::min_probability), {0, 1.5, kNan}},
      {"Kron", "decay", with(&Kron::decay), kNotPositive},
      {"Kron", "flat_start", with(&Kron::flat_start), kNegative},
      {"Sophia", "gamma", with(&Sophia::gamma), kNotPositive},
      {"Sophia", "k", [](double x) { return Optimizer(Sophia{.k = static_cast<int>(x)}); }, {0, -1}},
      {"MARS", "gamma", with(&MARS::gamma), kNegative},
      {"ScheduleFree", "beta1", with(&ScheduleFree::beta1), {0}},
      {"ScheduleFree", "r", with(&ScheduleFree::r), kNegative},
      {"ScheduleFree", "weight_lr_power", with(&ScheduleFree::weight_lr_power), kNegative},
  };
  add_adam_like<Adam>(all, "Adam");
  add_adam_like<AdamW>(all, "AdamW");
  add_adam_like<NAdamW>(all, "NAdamW");
  add_adam_like<RAdam>(all, "RAdam");
  add_adam_like<QHAdamW>(all, "QHAdamW");
  add_adam_like<LAMB>(all, "LAMB");
  add_adam_like<SOAP>(all, "SOAP");
  add_adam_like<Sophia>(all, "Sophia");
  add_adam_like<MARS>(all, "MARS");
  add_adam_like<ScheduleFree>(all, "ScheduleFree");
  return all;
}

TEST(HyperParameters, OutOfRangeAreRefusedByNameAndValue) {
  for (const HyperParameter& each : hyper_parameters()) {
    for (const double value : each.refused) {
      SCOPED_TRACE(fmt::format("{} {} = {}", each.optimizer, each.name, value));
      expect_error(ErrorCode::invalid_argument,
                   {each.optimizer + ": " + each.name + " must be ", fmt::format(", got {}", value)},
                   [&] { each.make(value); });
    }
  }
}

TEST(HyperParameters, AtTheEdgesOfTheirRangesAreAccepted) {
  EXPECT_NO_THROW(Optimizer(SGD{.lr = 0, .momentum = 2, .dampening = 1}));
  EXPECT_NO_THROW(Optimizer(Adam{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 1e-300}));
}

TEST(OptimizerByName, MakesEachWithItsDefaults) {
  EXPECT_EQ(optimizer_by_name("sgd")->lr(), 1e-2);
  EXPECT_EQ(optimizer_by_name("adam")->lr(), 1e-3);
  EXPECT_EQ(optimizer_by_name("adamw")->lr(), 1e-3);
  for (const std::string& name : optimizer_names()) EXPECT_EQ(optimizer_by_name(name)->name(), name);
}

TEST(OptimizerByName, TakesALearningRate) {
  EXPECT_EQ(optimizer_by_name("adamw", 0.25)->lr(), 0.25);
  EXPECT_EQ(optimizer_by_name("sgd", 0)->lr(), 0);
  const ParameterRule of_bias = optimizer_by_name("muon", 0.04)->rule_for("bias", {DType::f32, {3}});
  EXPECT_NEAR(of_bias.lr_scale, 3e-4 / 0.02, 1e-12);
  expect_error(ErrorCode::invalid_argument, {"lr", "nan"}, [] { optimizer_by_name("adam", kNan); });
}

TEST(OptimizerByName, ListsTheNamesForAnUnknownOne) {
  expect_error(ErrorCode::unknown_name, {"\"adagrad\"", "sgd", "adam", "adamw"}, [] { optimizer_by_name("adagrad"); });
}

TEST(BiasCorrection, IsExactForManySteps) {
  const Optimizer adam = Adam{};
  const std::vector<StepScalar> scalars = adam->scalars();
  ASSERT_EQ(scalars.size(), 2u);
  for (const std::int64_t t : {std::int64_t{1}, std::int64_t{10}, std::int64_t{5'000'000'000}}) {
    const long double correction1 = 1 - std::pow(0.9L, static_cast<long double>(t));
    const long double correction2 = 1 - std::pow(0.999L, static_cast<long double>(t));
    EXPECT_NEAR(scalars[0].value(t), static_cast<double>(1 / correction1), 1e-12 * scalars[0].value(t)) << t;
    EXPECT_NEAR(scalars[1].value(t), static_cast<double>(1 / std::sqrt(correction2)), 1e-12 * scalars[1].value(t)) << t;
  }
}

}  // namespace
}  // namespace wholestep
