// What precision does to the accuracy of a real run.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint.h"
#include "process.h"

namespace wholestep::test {
namespace {

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

TEST(Train, InLowPrecisionIsWithinHalfAPointOfF32AfterAnEpochOfFashionMnist) {
  if (!std::filesystem::exists(kFashion)) GTEST_SKIP() << kFashion << " is not installed";
  const DataFolder folder;
  const auto accuracy = [&](const std::string& precision) {
    return result_of(run(folder, {"train", "--data", kFashion, "--threads", "1", "--epochs", "1", "--lr", "0.002",
                                  "--schedule", "cosine", "--precision", precision, "--json"}))
        .at("test_accuracy")
        .get<double>();
  };
  const double f32 = accuracy("f32");
  EXPECT_GT(f32, 0.8);
  for (const char* precision : {"mixed_bf16", "mixed_f16", "f16"}) {
    EXPECT_NEAR(accuracy(precision), f32, 0.005) << precision;
  }
}

}  // namespace
}  // namespace wholestep::test
