#include "schedule/division.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace wholestep::schedule {
namespace {

TEST(ExactForBytes, IsTheDivisionForEveryByteWhereItGivesAReciprocal) {
  int found = 0;
  for (int i = 1; i <= 4000; ++i) {
    for (const float divisor : {static_cast<float>(i), static_cast<float>(i) / 7, -static_cast<float>(i)}) {
      const auto reciprocal = exact_for_bytes(divisor);
      if (!reciprocal) continue;
      ++found;
      for (int byte = 0; byte < 256; ++byte) {
        const auto x = static_cast<float>(byte);
        const float quotient = std::fma(x, reciprocal->high, x * reciprocal->low);
        ASSERT_EQ(quotient, x / divisor) << byte << " / " << divisor;
        ASSERT_EQ(std::signbit(quotient), std::signbit(x / divisor)) << byte << " / " << divisor;
      }
    }
  }
  EXPECT_GT(found, 8000);
}

TEST(ExactForBytes, KnowsTheDivisorsOfPixels) {
  for (const float divisor : {255.0f, 256.0f, 127.5f, 128.0f}) EXPECT_TRUE(exact_for_bytes(divisor)) << divisor;
}

TEST(ExactForBytes, LeavesDivisorsWithoutAReciprocalToTheDivision) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float divisor : {0.0f, -0.0f, infinity, std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    EXPECT_FALSE(exact_for_bytes(divisor)) << divisor;
  }
}

}  // namespace
}  // namespace wholestep::schedule
