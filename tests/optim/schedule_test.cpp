#include "wholestep/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "expect_error.h"

namespace wholestep {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Schedule, HasTheFactorsOfOptaxAndPyTorch) {
  std::ifstream stream(WHOLESTEP_TEST_DATA "/schedules.json");
  const nlohmann::json cases = nlohmann::json::parse(stream);
  ASSERT_GE(cases.size(), 10u);
  for (const nlohmann::json& one : cases) {
    const Schedule schedule = Schedule::parse(one.at("schedule").get<std::string>());
    for (std::size_t i = 0; i < one.at("steps").size(); ++i) {
      const double factor = one.at("factors")[i].get<double>();
      // Optax computes staircases in single precision.
      EXPECT_NEAR(schedule.at(one.at("steps")[i].get<std::int64_t>()), factor, 1e-7)
          << one.at("schedule") << " at " << one.at("steps")[i];
    }
  }
}

TEST(Schedule, CosineIsHalfAWaveToTheLastBit) {
  const Schedule cosine = CosineSchedule{.steps = 937};
  for (const std::int64_t step : {0, 1, 100, 468, 469, 936}) {
    EXPECT_EQ(cosine.at(step), 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) / 937)));
  }
  EXPECT_EQ(cosine.at(0), 1);
  EXPECT_EQ(cosine.at(937), 0);
  EXPECT_EQ(cosine.at(std::int64_t{1} << 53), 0) << "the last value holds";
}

TEST(Schedule, WarmsUpInALineToTheFirstValueOfWhatFollows) {
  const Schedule warm = Schedule(StepSchedule{.every = 10, .factor = 0.5}).after_warmup(4);
  EXPECT_EQ(warm.at(0), 0);
  EXPECT_EQ(warm.at(3), 0.75);
  EXPECT_EQ(warm.at(4), 1);
  EXPECT_EQ(warm.at(13), 1);
  EXPECT_EQ(warm.at(14), 0.5);
  const Schedule from_half = Schedule(ConstantSchedule{.value = 0.5}).after_warmup(2, 0.25);
  EXPECT_EQ(from_half.at(1), 0.375);
}

TEST(Schedule, IsTheConstantOneByDefault) {
  EXPECT_EQ(Schedule().at(0), 1);
  EXPECT_EQ(Schedule(), Schedule(ConstantSchedule{}));
  EXPECT_EQ(Schedule().to_text(), "constant");
}

TEST(Schedule, TextReadsBackToAnEqualSchedule) {
  const Schedule nested = sequence({LinearSchedule{.steps = 7, .from = 0.1},
                                    sequence({CosineSchedule{.steps = 90, .final = 1.0 / 3}, Schedule()}, {90})},
                                   {7});
  for (const Schedule& schedule :
       {Schedule(ConstantSchedule{.value = 0.3}), Schedule(LinearSchedule{.steps = 5}),
        Schedule(CosineSchedule{.steps = 1}), Schedule(CosineSchedule{.steps = 100, .warmup = 10, .final = 0.1}),
        Schedule(OneCycleSchedule{.steps = 50}), Schedule(StepSchedule{.every = 3}),
        Schedule(WarmupStableDecay{.steps = 10, .decay = 3}), nested}) {
    EXPECT_EQ(Schedule::parse(schedule.to_text()), schedule) << schedule.to_text();
  }
  EXPECT_EQ(Schedule(CosineSchedule{.steps = 1000, .warmup = 100, .final = 0.1}).to_text(),
            "cosine(steps=1000, warmup=100, final=0.1)");
  EXPECT_EQ(
      nested.to_text(),
      "sequence(linear(steps=7, from=0.1), 7, sequence(cosine(steps=90, final=0.3333333333333333), 90, constant))");
  EXPECT_FALSE(Schedule::parse("cosine(steps=3)") == Schedule::parse("cosine(steps=4)"));
}

TEST(Schedule, TakesTheStepsOfTheRunWhereItNamesNone) {
  EXPECT_EQ(Schedule::parse("cosine", 100), Schedule(CosineSchedule{.steps = 100}));
  EXPECT_EQ(Schedule::parse(" cosine ( final = 0.5 , warmup=3 ) ", 100),
            Schedule(CosineSchedule{.steps = 100, .warmup = 3, .final = 0.5}));
  EXPECT_EQ(Schedule::parse("cosine(steps=7)", 100), Schedule(CosineSchedule{.steps = 7}));
  expect_error(ErrorCode::parse_error, {"cosine needs steps="}, [] { Schedule::parse("cosine"); });
  expect_error(ErrorCode::parse_error, {"step needs every="}, [] { Schedule::parse("step", 100); });
}

TEST(Schedule, RefusesTextThatIsNone) {
  const auto refused = [](ErrorCode code, std::string_view text, const std::vector<std::string>& parts) {
    SCOPED_TRACE(text);
    expect_error(code, parts, [&] { Schedule::parse(text, 100); });
  };
  refused(ErrorCode::parse_error, "", {"column 1"});
  refused(ErrorCode::parse_error, "cosine(", {"column 8"});
  refused(ErrorCode::parse_error, "cosine(warmup)", {"column 14", "'='"});
  refused(ErrorCode::parse_error, "cosine(warmup=1", {"')'"});
  refused(ErrorCode::parse_error, "cosine(warmup=x)", {"number"});
  refused(ErrorCode::parse_error, "cosine(warmup=1) 2", {"end"});
  refused(ErrorCode::parse_error, "cosine(warmup=1, warmup=2)", {"warmup", "twice"});
  refused(ErrorCode::parse_error, "sequence(constant, constant)", {"begins"});
  refused(ErrorCode::unknown_name, "cosin", {"\"cosin\"", "cosine", "onecycle"});
  refused(ErrorCode::unknown_name, "cosine(end=1)", {"\"end\"", "steps, warmup, final"});
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "sequence(";
  refused(ErrorCode::parse_error, deep, {"within each other"});
}

TEST(Schedule, RefusesArgumentsOutOfRangeAndNamesThem) {
  const auto refused = [](const std::vector<std::string>& parts, auto make) {
    expect_error(ErrorCode::invalid_argument, parts, make);
  };
  refused({"cosine", "steps", "got 0"}, [] { (void)Schedule(CosineSchedule{}); });
  refused({"cosine", "final", "got nan"}, [] { (void)Schedule(CosineSchedule{.steps = 1, .final = -kNaN}); });
  refused({"cosine", "final", "got -1"}, [] { (void)Schedule(CosineSchedule{.steps = 1, .final = -1}); });
  refused({"cosine", "warmup", "5"}, [] { (void)Schedule(CosineSchedule{.steps = 5, .warmup = 5}); });
  refused({"cosine", "warmup", "-1"}, [] { (void)Schedule(CosineSchedule{.steps = 5, .warmup = -1}); });
  refused({"constant", "value", "inf"}, [] { (void)Schedule(ConstantSchedule{.value = kInfinity}); });
  refused({"onecycle", "peak"}, [] { (void)Schedule(OneCycleSchedule{.steps = 10, .warmup = 1}); });
  refused({"onecycle", "peak"}, [] { (void)Schedule(OneCycleSchedule{.steps = 10, .warmup = 0}); });
  refused({"step", "every"}, [] { (void)Schedule(StepSchedule{}); });
  refused({"wsd", "warmup + decay"}, [] { (void)Schedule(WarmupStableDecay{.steps = 9, .decay = 5, .warmup = 5}); });
  refused({"steps", "whole"}, [] { Schedule::parse("cosine(steps=1.5)"); });
  refused({"steps", "2^53"}, [] { Schedule::parse("cosine(steps=1e300)"); });
  refused({"final", "inf"}, [] { Schedule::parse("cosine(steps=1, final=inf)"); });
  refused({"1 schedules", "got 1"}, [] { sequence({Schedule()}, {1}); });
  refused({"no schedules"}, [] { sequence({}, {}); });
  refused({"ascend", "5, 5"}, [] { sequence({Schedule(), Schedule(), Schedule()}, {5, 5}); });
  refused({"ascend"}, [] { sequence({Schedule(), Schedule()}, {0}); });
  refused({"step >= 0", "-1"}, [] { (void)Schedule().at(-1); });
}

}  // namespace
}  // namespace wholestep
