#include "core/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/random.h"

namespace wholestep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Convert, EveryHalfNumberSurvivesTheWayThroughDouble) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_f16_bits(half))) {
      EXPECT_EQ(to_f16_bits(from_f16_bits(half)), half);
    }
    if (!std::isnan(from_bf16_bits(half))) {
      EXPECT_EQ(to_bf16_bits(from_bf16_bits(half)), half);
    }
  }
}

/// Rounds by comparing with the two neighbours, which shares no arithmetic with the code under test.
template <class From>
std::uint16_t nearest_by_search(double value, std::uint16_t infinity, double limit, From from) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (magnitude >= limit) return sign | infinity;
  std::uint16_t low = 0;
  std::uint16_t high = infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (from(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - from(low);
  const double above = high == infinity ? kInfinity : from(high) - magnitude;
  const bool up = above < below || (above == below && (low & 1));
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

TEST(Convert, RoundsToTheNearestHalfWithTiesToEven) {
  random::Stream stream(1, 0);
  for (int i = 0; i < 200000; ++i) {
    const double f16_value = std::ldexp(stream.uniform() - 0.5, static_cast<int>(stream.below(44)) - 26);
    EXPECT_EQ(to_f16_bits(f16_value), nearest_by_search(f16_value, 0x7c00, 65520.0, from_f16_bits)) << f16_value;
    const double bf16_value = std::ldexp(stream.uniform() - 0.5, static_cast<int>(stream.below(270)) - 136);
    const double bf16_limit = std::ldexp(1.0 + 255.0 / 256, 127);
    EXPECT_EQ(to_bf16_bits(bf16_value), nearest_by_search(bf16_value, 0x7f80, bf16_limit, from_bf16_bits));
  }
  for (std::uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double tie = (from_f16_bits(bits) + from_f16_bits(bits + 1)) / 2;
    EXPECT_EQ(to_f16_bits(tie), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_f16_bits(std::nextafter(tie, 0)), bits);
    EXPECT_EQ(to_f16_bits(-std::nextafter(tie, kInfinity)), 0x8000 | (bits + 1));
  }
}

TEST(Convert, KeepsSubnormalsAndOverflowsToInfinity) {
  EXPECT_EQ(to_f16_bits(std::ldexp(1, -24)), 1);
  EXPECT_EQ(to_f16_bits(std::ldexp(1, -25)), 0);
  EXPECT_EQ(to_f16_bits(-std::ldexp(1.0001, -25)), 0x8001);
  EXPECT_EQ(to_f16_bits(65519.999), 0x7bff);
  EXPECT_EQ(to_f16_bits(65520), 0x7c00);
  EXPECT_EQ(to_bf16_bits(std::ldexp(1, -133)), 1);
  EXPECT_EQ(to_bf16_bits(1e300), 0x7f80);
  EXPECT_EQ(to_bf16_bits(-1e300), 0xff80);
  EXPECT_EQ(to_bf16_bits(5e-324), 0);
  EXPECT_EQ(to_f16_bits(-0.0), 0x8000);
}

TEST(Convert, NaNStaysNaNWithItsSign) {
  EXPECT_TRUE(std::isnan(from_f16_bits(to_f16_bits(kNaN))));
  EXPECT_TRUE(std::isnan(from_bf16_bits(to_bf16_bits(kNaN))));
  EXPECT_EQ(to_f16_bits(-kNaN) & 0x8000, 0x8000);
  const auto small_payload = std::bit_cast<double>(std::uint64_t{0x7ff0000000000001});
  EXPECT_TRUE(std::isnan(from_f16_bits(to_f16_bits(small_payload))));
}

TEST(Convert, FloatToIntegerSaturatesAndNaNIsZero) {
  EXPECT_EQ(saturate_to_integer(kNaN, i32), 0);
  EXPECT_EQ(saturate_to_integer(kInfinity, i32), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(saturate_to_integer(-kInfinity, i64), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(saturate_to_integer(9.3e18, i64), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(saturate_to_integer(-3.9, i32), -3);
  EXPECT_EQ(saturate_to_integer(-0.5, u8), 0);
  EXPECT_EQ(saturate_to_integer(-7, u8), 0);
  EXPECT_EQ(saturate_to_integer(300, u8), 255);
  EXPECT_EQ(saturate_to_integer(kNaN, boolean), 1);
  EXPECT_EQ(saturate_to_integer(-0.0, boolean), 0);
}

TEST(Convert, IntegersWrap) {
  EXPECT_EQ(wrap_to_integer(std::int64_t{1} << 31, i32), -(std::int64_t{1} << 31));
  EXPECT_EQ(wrap_to_integer(-1, u8), 255);
  EXPECT_EQ(wrap_to_integer(256, u8), 0);
  EXPECT_EQ(wrap_to_integer(256, boolean), 1);
  EXPECT_EQ(wrap_to_integer(-5, i64), -5);
}

TEST(Convert, AWiderTypeHoldsEveryValueOfTheNarrower) {
  constexpr DType kAll[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
  const std::vector<double> probes = {0, 1, 255, 254, 127, 2147483647.0, -2147483648.0, 16777217, 3.140625, 65504, 0.1};
  for (DType from : kAll) {
    for (DType to : kAll) {
      if (!widens(from, to)) continue;
      for (double probe : probes) {
        const auto as = [](double value, DType dtype) {
          return is_float(dtype) ? round_to_float(value, dtype)
                                 : static_cast<double>(saturate_to_integer(value, dtype));
        };
        const double value = as(probe, from);
        EXPECT_EQ(as(as(value, to), from), value) << to_string(from) << " " << to_string(to);
        EXPECT_EQ(as(value, to), value) << to_string(from) << " " << to_string(to);
      }
    }
  }
}

}  // namespace
}  // namespace wholestep
