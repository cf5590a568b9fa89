#include <gtest/gtest.h>

#include "loops/fuse.h"

namespace wholestep::loops {
namespace {

// Value of an affine where variable i has value `values[i]`.
std::int64_t at(const Affine& affine, const std::vector<std::int64_t>& values) {
  std::int64_t result = affine.offset;
  for (const auto& [var, coefficient] : affine.terms) result += coefficient * values[static_cast<std::size_t>(var)];
  return result;
}

TEST(Reshape, SplittingIsAffineAndMergingIsNot) {
  EXPECT_TRUE(reshape_is_affine({2, 3, 4}, {6, 4}));
  EXPECT_FALSE(reshape_is_affine({6, 4}, {2, 3, 4}));
  EXPECT_TRUE(reshape_is_affine({1, 6, 1, 4}, {6, 4, 1}));
  EXPECT_FALSE(reshape_is_affine({3, 8}, {4, 6}));
  EXPECT_TRUE(reshape_is_affine({}, {1, 1}));
  EXPECT_FALSE(reshape_is_affine({0, 4}, {4, 0}));
}

TEST(Reshape, TheIndexNamesTheSameRowMajorElement) {
  const Shape to{2, 3, 1, 4}, from{6, 1, 4};
  ASSERT_TRUE(reshape_is_affine(to, from));
  const Index index = reshape_index({Affine::of(0), Affine::of(1), Affine(0), Affine::of(2)}, to, from);
  const Affine there = flatten(index, from);
  std::int64_t flat = 0;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j)
      for (std::int64_t k = 0; k < 4; ++k) EXPECT_EQ(at(there, {i, j, k}), flat++);
}

}  // namespace
}  // namespace wholestep::loops
