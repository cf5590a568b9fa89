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

void expect_refused(const std::string& optimizer, const std::string& hyper_parameter, const std::string& value,
                    const std::function<Optimizer()>& make) {
  expect_error(ErrorCode::invalid_argument, {optimizer, hyper_parameter, value}, make);
}

TEST(HyperParameters, OfSgdOutOfRangeAreRefusedByNameAndValue) {
  expect_refused("SGD", "lr", "-0.5", [] { return Optimizer(SGD{.lr = -0.5}); });
  expect_refused("SGD", "lr", "nan", [] { return Optimizer(SGD{.lr = kNan}); });
  expect_refused("SGD", "lr", "inf", [] { return Optimizer(SGD{.lr = kInfinity}); });
  expect_refused("SGD", "momentum", "-1", [] { return Optimizer(SGD{.momentum = -1}); });
  expect_refused("SGD", "dampening", "-0.25", [] { return Optimizer(SGD{.dampening = -0.25}); });
  expect_refused("SGD", "weight_decay", "-2", [] { return Optimizer(SGD{.weight_decay = -2}); });
  expect_refused("SGD", "momentum", "0", [] { return Optimizer(SGD{.nesterov = true}); });
  expect_refused("SGD", "dampening", "0.5",
                 [] { return Optimizer(SGD{.momentum = 0.9, .dampening = 0.5, .nesterov = true}); });
}

template <class Kind>
void expect_adam_refusals(const std::string& title) {
  expect_refused(title, "lr", "-1", [] { return Optimizer(Kind{.lr = -1}); });
  expect_refused(title, "lr", "inf", [] { return Optimizer(Kind{.lr = kInfinity}); });
  expect_refused(title, "beta1", "1", [] { return Optimizer(Kind{.beta1 = 1}); });
  expect_refused(title, "beta1", "-0.1", [] { return Optimizer(Kind{.beta1 = -0.1}); });
  expect_refused(title, "beta2", "1.5", [] { return Optimizer(Kind{.beta2 = 1.5}); });
  expect_refused(title, "beta2", "nan", [] { return Optimizer(Kind{.beta2 = kNan}); });
  expect_refused(title, "eps", "0", [] { return Optimizer(Kind{.eps = 0}); });
  expect_refused(title, "eps", "-1e-08", [] { return Optimizer(Kind{.eps = -1e-8}); });
  expect_refused(title, "weight_decay", "-0.1", [] { return Optimizer(Kind{.weight_decay = -0.1}); });
}

TEST(HyperParameters, OfAdamOutOfRangeAreRefusedByNameAndValue) { expect_adam_refusals<Adam>("Adam:"); }
TEST(HyperParameters, OfAdamWOutOfRangeAreRefusedByNameAndValue) { expect_adam_refusals<AdamW>("AdamW:"); }

TEST(HyperParameters, AtTheEdgesOfTheirRangesAreAccepted) {
  EXPECT_NO_THROW(Optimizer(SGD{.lr = 0, .momentum = 2, .dampening = 1}));
  EXPECT_NO_THROW(Optimizer(Adam{.lr = 0, .beta1 = 0, .beta2 = 0, .eps = 1e-300}));
}

TEST(OptimizerByName, MakesEachWithItsDefaults) {
  EXPECT_EQ(optimizer_by_name("sgd")->lr(), 1e-2);
  EXPECT_EQ(optimizer_by_name("adam")->lr(), 1e-3);
  EXPECT_EQ(optimizer_by_name("adamw")->lr(), 1e-3);
  for (const char* name : {"sgd", "adam", "adamw"}) EXPECT_EQ(optimizer_by_name(name)->name(), name);
}

TEST(OptimizerByName, TakesALearningRate) {
  EXPECT_EQ(optimizer_by_name("adamw", 0.25)->lr(), 0.25);
  EXPECT_EQ(optimizer_by_name("sgd", 0)->lr(), 0);
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
