#include <gtest/gtest.h>

#include "support/devices.h"
#include "train/models.h"
#include "wholestep/trainer.h"

namespace wholestep {
namespace {

using testing::expect_error;
using testing::random_batch;
using testing::small_classifier;
using testing::small_values;

ResidentTrainer trainer_of(const Optimizer& optimizer, std::vector<std::string> train) {
  return ResidentTrainer(small_classifier(16), std::move(train), small_values(), optimizer, Device::reference());
}

/// The values that `name` has after three steps of training it alone, the others held.
Array alone(const std::string& name, const Optimizer& optimizer) {
  ResidentTrainer trainer = trainer_of(optimizer, {name});
  for (int t = 0; t < 3; ++t) trainer.step(random_batch(16, 7).inputs());
  return trainer.param(name);
}

TEST(Groups, GiveEachParameterTheFirstRuleWhosePatternFits) {
  const Optimizer grouped =
      groups({{"*.bias", SGD{}}, {"fc?.*t", Lion{}}, {"fc1.*", AdamW{}}, {"x*", Adam{}}}, RAdam{});
  const TensorType type{DType::f32, {2, 2}};
  const auto rule = [&](std::string_view name) { return grouped->rule_for(name, type).rule->name(); };
  EXPECT_EQ(rule("fc1.bias"), "sgd");
  EXPECT_EQ(rule(".bias"), "sgd");
  EXPECT_EQ(rule("fc2.weight"), "lion");
  EXPECT_EQ(rule("fc1.scale"), "adamw");
  EXPECT_EQ(rule("x"), "adam");
  EXPECT_EQ(rule("fc2.scale"), "radam");
  EXPECT_EQ(rule("bias"), "radam");
  EXPECT_EQ(rule(""), "radam");
}

TEST(Groups, FitAPatternOfManyStarsInTimeThatDoesNotGrowWithTheirNumber) {
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  const Optimizer grouped = groups({{stars + "b*", SGD{}}, {stars + "*", Lion{}}}, RAdam{});
  const auto rule = [&](const std::string& name) { return grouped->rule_for(name, {DType::f32, {2, 2}}).rule->name(); };
  EXPECT_EQ(rule(std::string(200, 'a')), "lion");
  EXPECT_EQ(rule(std::string(200, 'a') + "cab"), "sgd");
  EXPECT_EQ(rule(std::string(39, 'a')), "radam");
}

TEST(Groups, TrainAParameterAsItsOwnOptimizerWould) {
  const Optimizer adam = AdamW{.lr = 0.01, .weight_decay = 0}, lion = Lion{.lr = 0.005};
  const Optimizer grouped = groups({{"fc1.bias", adam}}, lion);
  EXPECT_TRUE(alone("fc1.bias", grouped).same_bits(alone("fc1.bias", adam)));
  const Optimizer others = groups({{"*.bias", adam}}, lion);
  ResidentTrainer all = trainer_of(others, trainable(small_classifier(1)));
  ASSERT_EQ(all.lr(), 0.005);
  all.step(random_batch(16, 7).inputs());
  for (const char* name : {"fc1.weight", "fc2.bias"}) {
    ResidentTrainer one = trainer_of(std::string(name) == "fc2.bias" ? adam : lion, {name});
    one.step(random_batch(16, 7).inputs());
    EXPECT_TRUE(all.param(name).same_bits(one.param(name))) << name;
  }
}

TEST(Groups, ScaleTheLearningRateAndKeepRatiosWhenItChanges) {
  const Optimizer grouped = groups({{"fc1.*", SGD{.lr = 0.5}, 0.25}}, SGD{.lr = 1});
  ResidentTrainer trainer = trainer_of(grouped, {"fc1.weight", "fc2.weight"});
  trainer.set_lr(0.5);
  trainer.step(random_batch(16, 7).inputs());
  ResidentTrainer fc1 = trainer_of(SGD{.lr = 0.0625}, {"fc1.weight"}), fc2 = trainer_of(SGD{.lr = 0.5}, {"fc2.weight"});
  fc1.step(random_batch(16, 7).inputs());
  fc2.step(random_batch(16, 7).inputs());
  EXPECT_TRUE(trainer.param("fc1.weight").same_bits(fc1.param("fc1.weight")));
  EXPECT_TRUE(trainer.param("fc2.weight").same_bits(fc2.param("fc2.weight")));
}

TEST(Groups, WithScalarsOfOneNameKeepThemApart) {
  const Optimizer fast = AdamW{.lr = 0.01, .beta1 = 0.5}, slow = AdamW{.lr = 0.01, .beta1 = 0.95};
  ResidentTrainer both = trainer_of(groups({{"fc1.*", fast}}, slow), {"fc1.bias", "fc2.bias"});
  ResidentTrainer one = trainer_of(fast, {"fc1.bias", "fc2.bias"}), other = trainer_of(slow, {"fc1.bias", "fc2.bias"});
  for (ResidentTrainer* trainer : {&both, &one, &other}) trainer->step(random_batch(16, 7).inputs());
  EXPECT_TRUE(both.param("fc1.bias").same_bits(one.param("fc1.bias")));
  EXPECT_TRUE(both.param("fc2.bias").same_bits(other.param("fc2.bias")));
}

TEST(Groups, RefuseAPatternThatMatchesNothingNamingItAndTheParameters) {
  expect_error(ErrorCode::invalid_argument, {"\"head.*\"", "fc1.weight", "fc2.bias"},
               [] { trainer_of(groups({{"head.*", AdamW{}}}, SGD{}), {"fc1.weight", "fc2.bias"}); });
  expect_error(ErrorCode::invalid_argument, {"\"fc1.weight\"", "earlier"}, [] {
    trainer_of(groups({{"fc1.*", AdamW{}}, {"fc1.weight", SGD{}}}, SGD{}), {"fc1.weight", "fc2.bias"});
  });
  expect_error(ErrorCode::invalid_argument, {"\"inner.*\"", "fc1.bias"}, [] {
    trainer_of(groups({{"fc1.*", groups({{"inner.*", SGD{}}}, SGD{})}}, SGD{}), {"fc1.bias", "fc2.bias"});
  });
}

TEST(Groups, RefuseRatesWithoutARatio) {
  expect_error(ErrorCode::invalid_argument, {"groups", "lr", "0"}, [] { groups({}, SGD{.lr = 0}); });
  expect_error(ErrorCode::invalid_argument, {"ratio", "\"a\"", "1e+60"},
               [] { groups({{"a", SGD{.lr = 1e30}}}, SGD{.lr = 1e-30}); });
  expect_error(ErrorCode::invalid_argument, {"Muon", "rest.lr"},
               [] { Optimizer(Muon{.lr = 1e-30, .rest = {.lr = 1e30}}); });
  expect_error(ErrorCode::invalid_argument, {"lr_scale", "\"a\"", "-1"}, [] { groups({{"a", SGD{}, -1}}, SGD{}); });
  expect_error(ErrorCode::invalid_argument, {"no optimizer", "\"a\""}, [] { groups({{"a", nullptr}}, SGD{}); });
  expect_error(ErrorCode::invalid_argument, {"no optimizer"}, [] { groups({}, nullptr); });
}

TEST(Groups, AreNamedByPatternsAndMembersSoThatAnothersCheckpointIsRefused) {
  EXPECT_EQ(groups({{"*.bias", AdamW{}}}, Muon{})->name(), R"(groups("*.bias": adamw, "*": muon))");
  EXPECT_EQ(groups({{"a\"", groups({}, Adam{})}}, SGD{})->name(), R"(groups("a\"": groups("*": adam), "*": sgd))");
}

TEST(Muon, TakesMatricesAndKernelsAndLeavesTheRestToAdamW) {
  const Optimizer muon = Muon{.lr = 0.02, .rest = {.lr = 0.005}};
  const auto chosen = [&](Shape shape) { return muon->rule_for("p", {DType::f32, std::move(shape)}); };
  EXPECT_EQ(chosen({3, 4}).rule->name(), "muon");
  EXPECT_EQ(chosen({3, 4, 3, 3}).rule->name(), "muon");
  EXPECT_EQ(chosen({3, 4}).lr_scale, 1);
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3, 4}, Shape{0, 4}}) {
    EXPECT_EQ(chosen(shape).rule->name(), "adamw") << shape.size();
    EXPECT_EQ(chosen(shape).lr_scale, 0.25);
  }
}

}  // namespace
}  // namespace wholestep
