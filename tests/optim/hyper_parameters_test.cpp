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

// 1e39 is infinite in f32, 1e-39 no normal number, 1e-300 is zero.
const std::vector<double> kNegative{-0.5, kNan, kInfinity, 1e39, 1e300},
    kNotPositive{0, -1e-8, kNan, kInfinity, 1e39, 1e-39, 1e-300}, kNoRate{1, 1.5, -0.1, kNan},
    kNoShare{-0.1, 1.5, kNan};

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
      {"Adafactor", "eps1", with(&Adafactor::eps1), {0, -1e-8, kNan, kInfinity, 1e20, 1e-20}},
      {"Adafactor", "eps2", with(&Adafactor::eps2), kNotPositive},
      {"Adafactor", "d", with(&Adafactor::d), {0.5, kNan, kInfinity, 1e39}},
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
      {"MARS",
       "gamma * beta1 / (1 - beta1)",
       [](double) { return Optimizer(MARS{.beta1 = 0.9375, .gamma = 1e38}); },
       {1.5e39}},
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
  EXPECT_NO_THROW(Optimizer(Adam{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = std::numeric_limits<float>::min()}));
  EXPECT_NO_THROW(Optimizer(Adam{.lr = std::numeric_limits<float>::max(), .eps = std::numeric_limits<float>::max()}));
  EXPECT_NO_THROW(Optimizer(Adafactor{.eps1 = 0x1p-63}));
}

// All options in order, so that one that is added is added here.
TEST(HyperParameters, HaveTheDefaultsOfTheDocs) {
  const auto numbers = [](auto... values) { return std::vector<double>{static_cast<double>(values)...}; };
  const auto expect = [&](const char* name, const std::vector<double>& actual, const std::vector<double>& expected) {
    EXPECT_EQ(actual, expected) << name;
  };
  const auto [sgd_lr, momentum, dampening, sgd_decay, nesterov] = SGD{};
  expect("SGD", numbers(sgd_lr, momentum, dampening, sgd_decay, nesterov), {1e-2, 0, 0, 0, 0});
  const auto five = [&](const auto& options) {
    const auto& [lr, beta1, beta2, eps, weight_decay] = options;
    return numbers(lr, beta1, beta2, eps, weight_decay);
  };
  const auto six = [&](const auto& options) {
    const auto& [a, b, c, d, e, f] = options;
    return numbers(a, b, c, d, e, f);
  };
  const auto seven = [&](const auto& options) {
    const auto& [a, b, c, d, e, f, g] = options;
    return numbers(a, b, c, d, e, f, g);
  };
  const auto eight = [&](const auto& options) {
    const auto& [a, b, c, d, e, f, g, h] = options;
    return numbers(a, b, c, d, e, f, g, h);
  };
  expect("Adam", five(Adam{}), {1e-3, 0.9, 0.999, 1e-8, 0});
  expect("AdamW", five(AdamW{}), {1e-3, 0.9, 0.999, 1e-8, 0.01});
  expect("NAdamW", six(NAdamW{}), {2e-3, 0.9, 0.999, 1e-8, 0.01, 4e-3});
  expect("RAdam", six(RAdam{}), {1e-3, 0.9, 0.999, 1e-8, 0, 0});
  expect("QHAdamW", seven(QHAdamW{}), {1e-3, 0.995, 0.999, 0.7, 1, 1e-8, 0.01});
  expect("LAMB", five(LAMB{}), {1e-3, 0.9, 0.999, 1e-6, 0.01});
  expect("Adafactor", six(Adafactor{}), {1e-2, -0.8, 0x1p-23, 1e-3, 1, 0});
  const auto [lion_lr, lion_beta1, lion_beta2, lion_decay] = Lion{};
  expect("Lion", numbers(lion_lr, lion_beta1, lion_beta2, lion_decay), {1e-4, 0.9, 0.99, 0.01});
  const auto [muon_lr, muon_momentum, muon_nesterov, iterations, muon_decay, rest] = Muon{};
  expect("Muon", numbers(muon_lr, muon_momentum, muon_nesterov, iterations, muon_decay), {0.02, 0.95, 1, 5, 0});
  expect("rest of Muon", five(rest), {3e-4, 0.9, 0.95, 1e-10, 0});
  expect("MARS", six(MARS{}), {3e-3, 0.95, 0.99, 0.025, 1e-8, 0});
  expect("ScheduleFree", seven(ScheduleFree{}), {2.5e-3, 0.9, 0.999, 1e-8, 0, 0, 2});
  expect("SOAP", eight(SOAP{}), {3e-3, 0.95, 0.95, 0.95, 1e-8, 0.01, 10, 10000});
  expect("Kron", eight(Kron{}), {3e-4, 0.9, 0, 8192, 0.1, 0.03, 0.001, 500});
  expect("Sophia", seven(Sophia{}), {1e-4, 0.965, 0.99, 0.01, 1e-12, 0.1, 10});
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

TEST(StepScalars, AreFiniteForAnyNumberOfSteps) {
  for (const std::string& name : optimizer_names()) {
    const Optimizer optimizer = optimizer_by_name(name);
    for (const Shape& shape : {Shape{3}, Shape{3, 4}}) {
      const OptimizerRule& rule = *optimizer->rule_for("p", {DType::f32, shape}).rule;
      for (const StepScalar& scalar : rule.scalars()) {
        for (const std::int64_t t : {std::int64_t{1}, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
          EXPECT_TRUE(std::isfinite(scalar.value(t))) << name << " " << scalar.name << " " << t;
        }
      }
      EXPECT_NO_THROW(rule.refresh_due(std::int64_t{1} << 62)) << name;
    }
  }
}

TEST(StepScalars, OfNAdamWAreThoseOfTheProductOfAllMomenta) {
  for (const double beta1 : {0.0, 0.9, 0.999999}) {
    for (const double decay : {0.0, 4e-3, 0.5, 30.0}) {
      const Optimizer optimizer = NAdamW{.beta1 = beta1, .momentum_decay = decay};
      const std::vector<StepScalar> scalars = optimizer->scalars();
      const auto momentum = [&](int t) {
        return beta1 * (1 - 0.5L * std::pow(0.96L, t * static_cast<long double>(decay)));
      };
      long double product = 1;
      for (int t = 1; t <= 3000; ++t) {
        const long double now = momentum(t), next = momentum(t + 1);
        product *= now;
        const double gradient = static_cast<double>((1 - now) / (1 - product)),
                     moving = static_cast<double>(next / (1 - product * next));
        ASSERT_NEAR(scalars[0].value(t), gradient, 1e-9 * gradient) << beta1 << " " << decay << " " << t;
        ASSERT_NEAR(scalars[1].value(t), moving, 1e-9 * moving) << beta1 << " " << decay << " " << t;
      }
      EXPECT_EQ(scalars[0].value(7), Optimizer(NAdamW{.beta1 = beta1, .momentum_decay = decay})->scalars()[0].value(7));
    }
  }
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
