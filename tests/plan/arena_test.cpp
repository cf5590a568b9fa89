#include "plan/arena.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace wholestep::plan {
namespace {

bool overlap(std::int64_t a, std::int64_t a_bytes, std::int64_t b, std::int64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

TEST(Arena, ValuesAliveInOnePhaseNeverOverlapAndAreAligned) {
  random::Stream numbers(7, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    const int count = static_cast<int>(numbers.below(40));
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(numbers.below(12));
      lives.push_back(
          {static_cast<std::int64_t>(numbers.below(5000)), first, first + static_cast<int>(numbers.below(5))});
    }
    const ArenaLayout layout = lay_out(lives);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      ASSERT_EQ(layout.offsets[i] % 64, 0);
      ASSERT_LE(layout.offsets[i] + lives[i].bytes, layout.bytes);
      for (std::size_t j = 0; j < i; ++j) {
        if (lives[i].last < lives[j].first || lives[j].last < lives[i].first) continue;
        ASSERT_FALSE(overlap(layout.offsets[i], lives[i].bytes, layout.offsets[j], lives[j].bytes))
            << "round " << round;
      }
    }
    ASSERT_GE(layout.bytes, layout.largest_live_bytes);
  }
}

TEST(Arena, AChainOfEqualValuesNeedsTwoPlaces) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 50; ++i) chain.push_back({1024, i, i + 1});
  const ArenaLayout layout = lay_out(chain);
  EXPECT_EQ(layout.bytes, 2048);
  EXPECT_EQ(layout.largest_live_bytes, 2048);
}

TEST(Arena, NothingNeedsNothing) { EXPECT_EQ(lay_out({}).bytes, 0); }

}  // namespace
}  // namespace wholestep::plan
