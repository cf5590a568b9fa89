#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace wholestep::random {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that Random123 publishes for philox4x32 with 10 rounds (kat_vectors).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Stream, IsPhiloxOfItsPositionItsNumberAndItsSeed) {
  Stream stream(0x0123456789abcdef, 0xfedcba9876543210);
  for (std::uint32_t block = 0; block < 3; ++block) {
    for (const std::uint32_t word : philox({block, 0, 0x76543210, 0xfedcba98}, {0x89abcdef, 0x01234567})) {
      EXPECT_EQ(stream.next(), word);
    }
  }
}

TEST(Stream, RepeatsForOneSeedAndDiffersForOthers) {
  const auto first = [](std::uint64_t seed, std::uint64_t number) {
    Stream stream(seed, number);
    return std::vector<std::uint32_t>{stream.next(), stream.next(), stream.next(), stream.next(), stream.next()};
  };
  EXPECT_EQ(first(7, 3), first(7, 3));
  const std::set<std::vector<std::uint32_t>> different{first(7, 3),
                                                       first(8, 3),
                                                       first(7, 4),
                                                       first(3, 7),
                                                       first(std::uint64_t{1} << 32, 3),
                                                       first(7, std::uint64_t{3} << 32)};
  EXPECT_EQ(different.size(), 6u);
}

TEST(Stream, UniformFillsTheUnitIntervalEvenly) {
  Stream stream(1, 2);
  constexpr int kBins = 16, kCount = 160'000;
  std::array<int, kBins> bins{};
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    ++bins[static_cast<std::size_t>(value * kBins)];
  }
  double chi_square = 0;
  for (const int count : bins) chi_square += std::pow(count - kCount / kBins, 2) / (kCount / kBins);
  EXPECT_LT(chi_square, 37.7);  // 15 degrees of freedom: exceeded once in a thousand seeds
}

TEST(Stream, BelowGivesEveryNumberOfItsRangeEquallyOften) {
  Stream stream(3, 4);
  constexpr int kBound = 6, kCount = 60'000;
  std::array<int, kBound> counts{};
  for (int i = 0; i < kCount; ++i) ++counts.at(stream.below(kBound));
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - kCount / kBound, 2) / (kCount / kBound);
  EXPECT_LT(chi_square, 20.5);  // 5 degrees of freedom: exceeded once in a thousand seeds
}

TEST(Stream, BelowHasNoBiasWhereTheBoundIsLarge) {
  // Of 2^64 numbers, remainders of 3 * 2^62 below 2^62 would come twice as often as the others.
  Stream stream(5, 6);
  const std::uint64_t quarter = std::uint64_t{1} << 62;
  int low = 0;
  for (int i = 0; i < 30'000; ++i) low += stream.below(3 * quarter) < quarter;
  EXPECT_NEAR(low, 10'000, 300);
}

TEST(Stream, BelowOneIsZero) {
  Stream stream(9, 9);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(stream.below(1), 0u);
}

TEST(Stream, NormalHasTheMomentsOfTheStandardNormal) {
  Stream stream(7, 8);
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    cubes += value * value * value;
    fourths += value * value * value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.015);
  EXPECT_NEAR(cubes / kCount, 0, 0.04);
  EXPECT_NEAR(fourths / kCount, 3, 0.1);
}

TEST(HashName, IsFnv1a) {
  EXPECT_EQ(hash_name("", 0), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_name("a", 1), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_name("foobar", 6), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace wholestep::random
