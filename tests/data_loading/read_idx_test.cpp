#include <gtest/gtest.h>

#include "io/support.h"
#include "wholestep/data.h"

namespace wholestep::data {
namespace {

using test::expect_error;
using test::gzip;
using test::idx;
using test::TemporaryFolder;
using test::write_text;

TEST(ReadIdx, ReadsEachSplitPlainOrCompressed) {
  TemporaryFolder folder;
  write_text(folder.file("train-images-idx3-ubyte"), idx(0x08, {2, 1, 2}, "abcd"));
  write_text(folder.file("train-labels-idx1-ubyte.gz"), gzip(idx(0x08, {2}, "\5\6")));
  write_text(folder.file("t10k-images-idx3-ubyte.gz"), gzip(idx(0x08, {1, 1, 2}, "ef")));
  write_text(folder.file("t10k-labels-idx1-ubyte"), idx(0x08, {1}, "\7"));
  const ImageSet train = read_idx(folder.path(), Split::train);
  EXPECT_TRUE(train.images().same_bits(Array::from<std::uint8_t>({'a', 'b', 'c', 'd'}, {2, 1, 2})));
  EXPECT_TRUE(train.labels().same_bits(Array::from<std::int32_t>({5, 6})));
  const ImageSet test = read_idx(folder.path(), Split::test);
  EXPECT_TRUE(test.images().same_bits(Array::from<std::uint8_t>({'e', 'f'}, {1, 1, 2})));
  EXPECT_TRUE(test.labels().same_bits(Array::from<std::int32_t>({7})));
}

TEST(ReadIdx, ListsWhatItLookedFor) {
  TemporaryFolder folder;
  expect_error(ErrorCode::file_not_found,
               {folder.path().string(), "train-images-idx3-ubyte ", "train-images-idx3-ubyte.gz"},
               [&] { read_idx(folder.path(), Split::train); });
  write_text(folder.file("t10k-images-idx3-ubyte"), idx(0x08, {0, 1, 2}, ""));
  expect_error(ErrorCode::file_not_found, {"t10k-labels-idx1-ubyte ", "t10k-labels-idx1-ubyte.gz"},
               [&] { read_idx(folder.path(), Split::test); });
  expect_error(ErrorCode::file_not_found, {"/nowhere/at/all"}, [] { read_idx("/nowhere/at/all", Split::train); });
}

TEST(ReadIdx, NamesTheFilesWhereImagesAndLabelsDoNotFit) {
  TemporaryFolder folder;
  write_text(folder.file("train-images-idx3-ubyte"), idx(0x08, {2, 1, 2}, "abcd"));
  write_text(folder.file("train-labels-idx1-ubyte"), idx(0x08, {3}, "abc"));
  expect_error(ErrorCode::shape_mismatch,
               {folder.file("train-images-idx3-ubyte"), folder.file("train-labels-idx1-ubyte"), "2 images", "3 labels"},
               [&] { read_idx(folder.path(), Split::train); });
  write_text(folder.file("train-labels-idx1-ubyte"), idx(0x0C, {2}, std::string("\0\0\0\1\xff\xff\xff\xff", 8)));
  expect_error(ErrorCode::index_out_of_range, {folder.file("train-labels-idx1-ubyte"), "label -1"},
               [&] { read_idx(folder.path(), Split::train); });
}

TEST(ReadIdx, NamesADamagedFile) {
  TemporaryFolder folder;
  write_text(folder.file("train-images-idx3-ubyte"), idx(0x08, {2, 1, 2}, "abc"));
  write_text(folder.file("train-labels-idx1-ubyte"), idx(0x08, {2}, "ab"));
  expect_error(ErrorCode::file_truncated, {folder.file("train-images-idx3-ubyte")},
               [&] { read_idx(folder.path(), Split::train); });
}

TEST(ReadIdx, ReadsFashionMnist) {
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "Fashion-MNIST is not installed in " << folder;
  const ImageSet train = read_idx(folder, Split::train);
  EXPECT_EQ(train.images().shape(), (Shape{60000, 28, 28}));
  EXPECT_EQ(train.classes(), 10);
  const ImageSet test = read_idx(folder, Split::test);
  EXPECT_EQ(test.images().shape(), (Shape{10000, 28, 28}));
  for (const ImageSet* set : {&train, &test}) {
    std::vector<std::int64_t> counts(10);
    for (const std::int32_t label : set->labels().as<std::int32_t>()) ++counts[static_cast<std::size_t>(label)];
    for (const std::int64_t count : counts) EXPECT_EQ(count, set->size() / 10);
  }
}

}  // namespace
}  // namespace wholestep::data
