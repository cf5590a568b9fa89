#include <gtest/gtest.h>

#include <cstring>

#include "io/support.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

using test::expect_error;
using test::gzip;
using test::idx;
using test::TemporaryFolder;
using test::write_text;

Array read(const std::string& bytes) {
  TemporaryFolder folder;
  write_text(folder.file("x"), bytes);
  return read_idx(folder.file("x"));
}

/// Expects these bytes to be refused, with the file's name in the message.
void expect_refused(ErrorCode code, const std::vector<std::string>& words, const std::string& bytes) {
  TemporaryFolder folder;
  const std::string path = folder.file("bad-idx");
  write_text(path, bytes);
  std::vector<std::string> all = words;
  all.push_back(path);
  expect_error(code, all, [&] { read_idx(path); });
}

TEST(Idx, ReadsBytesPlainAndCompressed) {
  const std::string bytes = idx(0x08, {2, 1, 3}, "abcdef");
  const Array expected = Array::from<std::uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'}, {2, 1, 3});
  EXPECT_TRUE(read(bytes).same_bits(expected));
  EXPECT_TRUE(read(gzip(bytes)).same_bits(expected));
}

TEST(Idx, SwapsBigEndianElements) {
  EXPECT_TRUE(read(idx(0x0C, {2}, std::string("\x01\x02\x03\x04\xff\xff\xff\xfe", 8)))
                  .same_bits(Array::from<std::int32_t>({0x01020304, -2})));
  EXPECT_TRUE(read(idx(0x0D, {1}, std::string("\x3f\x80\0\0", 4))).same_bits(Array::from<float>({1.0f})));
  EXPECT_TRUE(read(idx(0x0E, {1}, std::string("\x40\x08\0\0\0\0\0\0", 8))).same_bits(Array::from<double>({3.0})));
}

TEST(Idx, ReadsScalarsAndEmptyTensors) {
  EXPECT_TRUE(read(idx(0x08, {}, "\7")).same_bits(Array::scalar<std::uint8_t>(7)));
  EXPECT_TRUE(read(idx(0x08, {0, 28, 28}, "")).same_bits(Array(u8, {0, 28, 28})));
  EXPECT_TRUE(read(gzip(idx(0x08, {0}, ""))).same_bits(Array(u8, {0})));
}

TEST(Idx, ReadsMoreThanOnePieceOfMemory) {
  const std::uint32_t size = 5'000'001;
  std::string elements(size, '\0');
  for (std::size_t i = 0; i < elements.size(); i += 997) elements[i] = static_cast<char>(i % 251);
  const Array plain = read(idx(0x08, {size}, elements));
  ASSERT_EQ(plain.bytes(), elements.size());
  EXPECT_EQ(std::memcmp(plain.data(), elements.data(), elements.size()), 0);
  EXPECT_TRUE(read(gzip(idx(0x08, {size}, elements))).same_bits(plain));
}

TEST(Idx, ReadsAGzipFileOfSeveralMembers) {
  const std::string bytes = idx(0x08, {6}, "abcdef");
  EXPECT_TRUE(read(gzip(bytes.substr(0, 3)) + gzip(bytes.substr(3, 7)) + gzip("") + gzip(bytes.substr(10)))
                  .same_bits(Array::from<std::uint8_t>({'a', 'b', 'c', 'd', 'e', 'f'})));
}

TEST(Idx, RefusesAMissingFileAndAFolder) {
  TemporaryFolder folder;
  expect_error(ErrorCode::file_not_found, {folder.file("none")}, [&] { read_idx(folder.file("none")); });
  expect_error(ErrorCode::io_error, {folder.path().string(), "directory"}, [&] { read_idx(folder.path()); });
}

TEST(Idx, RefusesAnotherMagic) {
  expect_refused(ErrorCode::file_malformed, {"89 50"}, "\x89PNG\r\n");
  expect_refused(ErrorCode::file_malformed, {"00 01"}, std::string("\0\1\x8\1\0\0\0\0", 8));
  expect_refused(ErrorCode::file_malformed, {"0x07"}, idx(0x07, {0}, ""));
}

TEST(Idx, RefusesElementTypesThatWholestepHasNot) {
  expect_refused(ErrorCode::unsupported, {"signed byte"}, idx(0x09, {1}, "a"));
  expect_refused(ErrorCode::unsupported, {"16-bit integer"}, idx(0x0B, {1}, "ab"));
}

TEST(Idx, RefusesEveryPrefixOfAValidFile) {
  const std::string bytes = idx(0x08, {2, 3}, "abcdef");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    expect_refused(ErrorCode::file_truncated, {}, bytes.substr(0, size));
  }
  const std::string compressed = gzip(bytes);
  for (std::size_t size = 2; size < compressed.size(); ++size) {
    expect_refused(ErrorCode::file_truncated, {}, compressed.substr(0, size));
  }
}

TEST(Idx, SaysHowMuchATruncatedFileHolds) {
  expect_refused(ErrorCode::file_truncated, {"u8[2, 3]", "6 bytes", "holds 4"}, idx(0x08, {2, 3}, "abcd"));
}

TEST(Idx, RefusesBytesAfterTheElements) {
  expect_refused(ErrorCode::file_malformed, {"more data"}, idx(0x08, {2, 3}, "abcdefg"));
  expect_refused(ErrorCode::file_malformed, {"more data"}, gzip(idx(0x08, {2, 3}, "abcdefg")));
  expect_refused(ErrorCode::file_malformed, {"gzip"}, gzip(idx(0x08, {2, 3}, "abcdef")) + "garbage");
}

TEST(Idx, RefusesExtentsWhoseProductOverflows) {
  expect_refused(ErrorCode::file_malformed, {"2^62"}, idx(0x08, {0xffffffff, 0xffffffff, 0xffffffff}, ""));
  expect_refused(ErrorCode::file_malformed, {"2^62"}, idx(0x08, {0xffffffff, 0xffffffff, 0xffffffff, 0}, ""));
  expect_refused(ErrorCode::file_malformed, {"2^62"}, idx(0x0E, {0x80000000, 0x40000000}, ""));
}

TEST(Idx, RefusesAPromiseOfMoreThanAnyMemoryByReadingWhatIsThere) {
  expect_refused(ErrorCode::file_truncated, {"4611686016279904256"}, idx(0x08, {0x7fffffff, 0x80000000}, "abc"));
  expect_refused(ErrorCode::file_truncated, {"holds 3"}, gzip(idx(0x08, {0x7fffffff, 0x80000000}, "abc")));
}

TEST(Idx, RefusesGzipGarbageAndWrongChecksums) {
  expect_refused(ErrorCode::file_malformed, {"gzip"}, "\x1f\x8bgarbage that is not deflated");
  std::string compressed = gzip(idx(0x08, {2, 3}, "abcdef"));
  compressed[compressed.size() - 8] ^= 1;
  expect_refused(ErrorCode::file_malformed, {"gzip", "check"}, compressed);
}

TEST(Idx, InflatesNoMoreOfAGzipBombThanItsHeaderPromises) {
  const std::string bomb = gzip(idx(0x08, {4}, std::string(20'000'000, '\0')));
  ASSERT_LT(bomb.size(), 40'000u);
  expect_refused(ErrorCode::file_malformed, {"more data", "4 bytes"}, bomb);
}

}  // namespace
}  // namespace wholestep::io
