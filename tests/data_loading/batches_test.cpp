#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "io/support.h"
#include "wholestep/data.h"

namespace wholestep::data {
namespace {

using test::expect_error;

/// `n` images of 2 x 3 whose pixels all are the example's number, which is also the label.
ImageSet numbered(std::int64_t n) {
  Array images(u8, {n, 2, 3});
  Array labels(i32, {n});
  for (std::int64_t i = 0; i < n * 6; ++i)
    images.as<std::uint8_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i / 6);
  std::iota(labels.as<std::int32_t>().begin(), labels.as<std::int32_t>().end(), 0);
  return ImageSet(std::move(images), std::move(labels));
}

/// The labels of a set in its order, in batches of `size`; checks that images go with them.
std::vector<std::vector<std::int32_t>> labels_of(Batches batches) {
  std::vector<std::vector<std::int32_t>> result;
  for (const Batch& batch : batches) {
    EXPECT_EQ(batch.images.shape(), (Shape{batch.count, 6}));
    EXPECT_EQ(batch.labels.shape(), (Shape{batch.count}));
    const auto labels = std::as_const(batch.labels).as<std::int32_t>();
    const auto images = std::as_const(batch.images).as<std::uint8_t>();
    for (std::size_t i = 0; i < images.size(); ++i) EXPECT_EQ(images[i], labels[i / 6]);
    result.emplace_back(labels.begin(), labels.end());
  }
  return result;
}

std::vector<std::int32_t> flat(const std::vector<std::vector<std::int32_t>>& batches) {
  std::vector<std::int32_t> result;
  for (const auto& batch : batches) result.insert(result.end(), batch.begin(), batch.end());
  return result;
}

TEST(Batches, KeepTheFinalPartialBatch) {
  EXPECT_EQ(labels_of(numbered(7).batches(3)), (std::vector<std::vector<std::int32_t>>{{0, 1, 2}, {3, 4, 5}, {6}}));
  EXPECT_EQ(labels_of(numbered(6).batches(3)), (std::vector<std::vector<std::int32_t>>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(labels_of(numbered(2).batches(std::int64_t{1} << 60)), (std::vector<std::vector<std::int32_t>>{{0, 1}}));
}

TEST(Batches, CountThemselvesFromTheFirstAskedFor) {
  EXPECT_EQ(numbered(7).batches(3).size(), 3);
  EXPECT_EQ(numbered(7).batches(3, 2).size(), 1);
  EXPECT_EQ(numbered(7).batches(3, 3).size(), 0);
  EXPECT_EQ(numbered(0).batches(3).size(), 0);
}

TEST(Batches, ResumeInTheMiddle) {
  const ImageSet set = numbered(100).shuffled(4, 2);
  const auto all = labels_of(set.batches(8));
  ASSERT_EQ(all.size(), 13u);
  for (std::size_t first = 0; first <= all.size(); ++first) {
    EXPECT_EQ(labels_of(set.batches(8, static_cast<std::int64_t>(first))),
              (std::vector<std::vector<std::int32_t>>(all.begin() + static_cast<std::ptrdiff_t>(first), all.end())));
  }
}

TEST(Batches, OfAnEmptySetAreNone) { EXPECT_EQ(numbered(0).batches(4).next(), nullptr); }

TEST(Batches, EndForGood) {
  Batches batches = numbered(3).batches(2);
  EXPECT_NE(batches.next(), nullptr);
  EXPECT_NE(batches.next(), nullptr);
  EXPECT_EQ(batches.next(), nullptr);
  EXPECT_EQ(batches.next(), nullptr);
}

TEST(Batches, OutliveTheirSetAndMove) {
  Batches batches = numbered(5).batches(2);
  ASSERT_NE(batches.next(), nullptr);
  Batches moved = std::move(batches);
  EXPECT_EQ(moved.next()->labels.as<std::int32_t>()[0], 2);
  moved = numbered(9).batches(9);
  EXPECT_EQ(moved.next()->count, 9);
}

TEST(Batches, MayBeLeftBeforeTheirEnd) {
  const ImageSet set = numbered(200);
  for (int taken = 0; taken < 30; ++taken) {
    Batches batches = set.batches(3);
    for (int i = 0; i < taken; ++i) EXPECT_NE(batches.next(), nullptr);
  }
}

TEST(Batches, RefuseSizesBelowOneAndAFirstPastTheEnd) {
  const ImageSet set = numbered(7);
  expect_error(ErrorCode::invalid_argument, {"0"}, [&] { set.batches(0); });
  expect_error(ErrorCode::invalid_argument, {"-3"}, [&] { set.batches(-3); });
  expect_error(ErrorCode::invalid_argument, {"-1"}, [&] { set.batches(3, -1); });
  expect_error(ErrorCode::invalid_argument, {"4", "3"}, [&] { set.batches(3, 4); });
}

TEST(ImageSet, ShufflesToAPermutationThatSeedAndEpochDetermine) {
  const ImageSet set = numbered(200);
  const auto order = [&](std::uint64_t seed, std::uint64_t epoch) {
    return flat(labels_of(set.shuffled(seed, epoch).batches(7)));
  };
  const auto first = order(1, 0);
  EXPECT_EQ(first, order(1, 0));
  EXPECT_EQ((std::set<std::vector<std::int32_t>>{first, order(1, 1), order(2, 0), order(2, 1),
                                                 flat(labels_of(set.batches(7)))}
                 .size()),
            5u);
  auto sorted = first;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, flat(labels_of(set.batches(200))));
}

TEST(ImageSet, ShufflesInTheSameOrderOnEveryMachine) {
  EXPECT_EQ(flat(labels_of(numbered(10).shuffled(0, 0).batches(10))),
            (std::vector<std::int32_t>{8, 1, 9, 2, 5, 4, 7, 0, 3, 6}));
}

TEST(ImageSet, ShufflesEveryPositionEquallyOften) {
  const ImageSet set = numbered(5);
  int counts[5][5] = {};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto order = flat(labels_of(set.shuffled(seed).batches(5)));
    for (std::size_t i = 0; i < 5; ++i) ++counts[i][order[i]];
  }
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 400, 80);  // 4.5 standard deviations
  }
}

TEST(ImageSet, KnowsItsSizes) {
  const ImageSet set = numbered(7);
  EXPECT_EQ(set.size(), 7);
  EXPECT_EQ(set.image_elements(), 6);
  EXPECT_EQ(set.classes(), 7);
  EXPECT_EQ(numbered(0).classes(), 0);
  EXPECT_EQ(ImageSet(Array(u8, {2}), Array::from<std::int32_t>({3, 2147483647})).classes(), std::int64_t{1} << 31);
}

TEST(ImageSet, SharesItsDataWithItsCopies) {
  const ImageSet set = numbered(7);
  const ImageSet copy = set.shuffled(1);
  EXPECT_EQ(set.images().data(), copy.images().data());
  EXPECT_EQ(set.labels().data(), copy.labels().data());
}

TEST(ImageSet, TakesLabelsAsBytesAndAs64BitIntegers) {
  const Array expected = Array::from<std::int32_t>({200, 0});
  EXPECT_TRUE(ImageSet(Array(u8, {2, 1}), Array::from<std::uint8_t>({200, 0})).labels().same_bits(expected));
  EXPECT_TRUE(ImageSet(Array(u8, {2, 1}), Array::from<std::int64_t>({200, 0})).labels().same_bits(expected));
}

TEST(ImageSet, RefusesLabelsThatAreNegativeOrDoNotFit) {
  expect_error(ErrorCode::index_out_of_range, {"label -1", "example 1"},
               [] { ImageSet(Array(u8, {2, 1}), Array::from<std::int32_t>({0, -1})); });
  expect_error(ErrorCode::index_out_of_range, {"label 2147483648", "example 0"},
               [] { ImageSet(Array(u8, {1, 1}), Array::from<std::int64_t>({2147483648})); });
}

TEST(ImageSet, RefusesOtherTypesAndShapes) {
  expect_error(ErrorCode::dtype_mismatch, {"f32"}, [] { ImageSet(Array(f32, {2, 1}), Array(i32, {2})); });
  expect_error(ErrorCode::dtype_mismatch, {"f32"}, [] { ImageSet(Array(u8, {2, 1}), Array(f32, {2})); });
  expect_error(ErrorCode::shape_mismatch, {"[n, ...]"}, [] { ImageSet(Array(u8, {}), Array(i32, {1})); });
  expect_error(ErrorCode::shape_mismatch, {"[2, 1]"}, [] { ImageSet(Array(u8, {2, 1}), Array(i32, {2, 1})); });
  expect_error(ErrorCode::shape_mismatch, {"2 images", "3 labels"},
               [] { ImageSet(Array(u8, {2, 1}), Array(i32, {3})); });
}

}  // namespace
}  // namespace wholestep::data
