#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "io/support.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryFolder;
using test::write_text;

/// A file's bytes from its header's text and its data.
std::string with_header(const std::string& header, const std::string& data = "") {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
}

/// Expects a file of these bytes to be refused.
void expect_refused(ErrorCode code, const std::vector<std::string>& words, const std::string& bytes) {
  TemporaryFolder folder;
  const std::string path = folder.file("bad.safetensors");
  write_text(path, bytes);
  std::vector<std::string> all = words;
  all.push_back(path);
  expect_error(code, all, [&] { read_safetensors(path); });
}

void expect_malformed(const std::vector<std::string>& words, const std::string& header, const std::string& data = "") {
  expect_refused(ErrorCode::file_malformed, words, with_header(header, data));
}

TEST(SafeTensors, GivesBackEveryDTypeInOrderWithItsMetadata) {
  TemporaryFolder folder;
  NamedArrays arrays;
  std::vector<std::pair<std::string, ArrayView>> views;
  for (const DType dtype : {boolean, f64, u8, bf16, i64, f16, i32, f32}) {
    arrays.emplace_back(std::string("tensor ") + std::string(to_string(dtype)),
                        Array::from_doubles({dtype, {2, 3}}, std::vector<double>{0, 1, 1, 0, 1, 0}));
  }
  arrays.emplace_back("scalar", Array::scalar(std::numeric_limits<float>::quiet_NaN()));
  arrays.emplace_back("empty", Array(f32, {3, 0, 2}));
  arrays.emplace_back("a \"quoted\"\n\\ name, größer", Array::scalar(-0.0));
  for (const auto& [name, array] : arrays) views.emplace_back(name, array);
  const std::vector<std::pair<std::string, std::string>> metadata{{"z", "first"}, {"a", "second \"x\""}, {"", ""}};
  write_safetensors(folder.file("x"), views, metadata);
  const SafeTensors read = read_safetensors(folder.file("x"));
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ(read.tensors[i].first, arrays[i].first);
    EXPECT_TRUE(read.tensors[i].second.same_bits(arrays[i].second)) << arrays[i].first;
  }
}

TEST(SafeTensors, WritesTheBytesOfTheFormat) {
  TemporaryFolder folder;
  const std::vector<float> weight{1, 2};
  const std::vector<std::uint8_t> mask{7, 8, 9};
  write_safetensors(folder.file("x"), {{"w", ArrayView({f32, {1, 2}}, weight.data(), 8)}, {"m", ArrayView(mask)}},
                    {{"format", "pt"}});
  std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"m\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_text(folder.file("x")), with_header(header, std::string("\0\0\x80\x3f\0\0\0\x40\7\x8\x9", 11)));
}

TEST(SafeTensors, WritesAndReadsAFileWithoutTensors) {
  TemporaryFolder folder;
  write_safetensors(folder.file("x"), {});
  EXPECT_EQ(read_text(folder.file("x")), with_header("{}      "));
  EXPECT_TRUE(read_safetensors(folder.file("x")).tensors.empty());
}

TEST(SafeTensors, ReadsTensorsWhoseDataIsInAnotherOrderThanTheirNames) {
  TemporaryFolder folder;
  write_text(folder.file("x"), with_header("{\"b\": {\"data_offsets\": [1, 3], \"shape\": [2], \"dtype\": \"U8\"},\n"
                                           " \"e\": {\"dtype\": \"I64\", \"shape\": [0], \"data_offsets\": [1, 1]},\n"
                                           " \"a\": {\"dtype\": \"BOOL\", \"shape\": [], \"data_offsets\": [0, 1]}} \n",
                                           "\1\5\6"));
  const SafeTensors read = read_safetensors(folder.file("x"));
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors[0].first, "b");
  EXPECT_TRUE(read.tensors[0].second.same_bits(Array::from<std::uint8_t>({5, 6})));
  EXPECT_TRUE(read.tensors[1].second.same_bits(Array(i64, {0})));
  EXPECT_TRUE(read.tensors[2].second.same_bits(Array(Array::from_doubles({boolean, {}}, std::vector<double>{1}))));
}

TEST(SafeTensors, RefusesAMissingFile) {
  TemporaryFolder folder;
  expect_error(ErrorCode::file_not_found, {folder.file("none"), "No such file"},
               [&] { read_safetensors(folder.file("none")); });
}

TEST(SafeTensors, RefusesAFolder) {
  TemporaryFolder folder;
  expect_error(ErrorCode::io_error, {folder.path().string(), "directory"}, [&] { read_safetensors(folder.path()); });
}

TEST(SafeTensors, RefusesAFileTooShortForALength) {
  for (std::size_t size = 0; size < 8; ++size) expect_refused(ErrorCode::file_truncated, {}, std::string(size, '\0'));
}

TEST(SafeTensors, RefusesAHeaderLongerThanTheFile) {
  std::string bytes = with_header("{}      ");
  bytes[0] = 9;
  expect_refused(ErrorCode::file_truncated, {"header of 9 bytes", "file of 16"}, bytes);
}

TEST(SafeTensors, RefusesAHeaderLongerThanTheFormatAllows) {
  expect_refused(ErrorCode::file_malformed, {"100000001"}, std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10));
  expect_refused(ErrorCode::file_malformed, {"18446744073709551615"}, std::string(8, '\xff') + "{}");
}

TEST(SafeTensors, RefusesEveryPrefixOfAValidFile) {
  TemporaryFolder folder;
  const std::vector<float> values{1, 2, 3};
  write_safetensors(folder.file("x"), {{"w", ArrayView(values)}}, {{"k", "v"}});
  const std::string bytes = read_text(folder.file("x"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_text(folder.file("cut"), bytes.substr(0, size));
    expect_error(ErrorCode::file_truncated, {folder.file("cut")}, [&] { read_safetensors(folder.file("cut")); });
  }
}

TEST(SafeTensors, ReadsOrRefusesButNeverCrashesWhereAnyByteOfTheHeaderIsAnother) {
  TemporaryFolder folder;
  const std::vector<float> values{1, 2, 3};
  write_safetensors(folder.file("x"), {{"w", ArrayView(values)}, {"u", ArrayView(values)}}, {{"k", "v"}});
  const std::string bytes = read_text(folder.file("x"));
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size() - 24; ++i) {
    for (const char other : {'\0', '"', '{', '}', '9', '-', '\xff'}) {
      std::string changed = bytes;
      changed[i] = other;
      write_text(folder.file("changed"), changed);
      try {
        const SafeTensors read = read_safetensors(folder.file("changed"));
        EXPECT_EQ(read.tensors.size(), 2u);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(SafeTensors, RefusesAHeaderThatIsNotJson) {
  expect_malformed({"does not begin with '{'"}, "");
  expect_malformed({"does not begin with '{'"}, " {}");
  expect_malformed({"does not begin with '{'"}, "[]");
  expect_malformed({"not JSON"}, "{");
  expect_malformed({"not JSON"}, "{}{}");
  expect_malformed({"not JSON"}, "{\"a\":}");
  expect_malformed({"not JSON"}, "{\"\xff\":{}}");
  expect_malformed({"not JSON"}, std::string("{}\0\0", 4));
}

TEST(SafeTensors, RefusesDeepNesting) {
  std::string nested = "{\"a\":{\"dtype\":";
  for (int i = 0; i < 1'000'000; ++i) nested += '[';
  expect_malformed({"an array in the description of tensor \"a\""}, nested);
  nested = "";
  for (int i = 0; i < 1'000'000; ++i) nested += "{\"a\":";
  expect_malformed({"unknown key \"a\""}, nested);
}

TEST(SafeTensors, RefusesAKeyThatComesTwice) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  expect_malformed({"\"a\" comes twice"}, "{\"a\":" + entry + ",\"a\":" + entry + "}");
  expect_malformed({"\"a\" comes twice"}, "{\"a\":" + entry + ",\"\\u0061\":" + entry + "}");
  expect_malformed({"\"shape\" twice"},
                   "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"shape\":[0],\"data_offsets\":[0,0]}}");
  expect_malformed({"\"__metadata__\" comes twice"}, "{\"__metadata__\":{},\"__metadata__\":{}}");
  expect_malformed({"\"k\" comes twice"}, "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}");
}

TEST(SafeTensors, RefusesADescriptionOfAnotherForm) {
  const auto entry = [](const std::string& text) { return "{\"a\":" + text + "}"; };
  expect_malformed({"a number", "\"a\""}, entry("1"));
  expect_malformed({"null", "\"a\""}, entry("null"));
  expect_malformed({"lacks"}, entry("{}"));
  expect_malformed({"lacks"}, entry("{\"dtype\":\"U8\",\"shape\":[0]}"));
  expect_malformed({"unknown key \"extra\""}, entry("{\"extra\":1}"));
  expect_malformed({"a number"}, entry("{\"dtype\":8}"));
  expect_malformed({"a negative number"}, entry("{\"shape\":[-1]}"));
  expect_malformed({"not a 64-bit integer"}, entry("{\"shape\":[1.5]}"));
  expect_malformed({"not a 64-bit integer"}, entry("{\"shape\":[18446744073709551616]}"));
  expect_malformed({"a string"}, entry("{\"shape\":\"x\"}"));
  expect_malformed({"an array"}, entry("{\"shape\":[[1]]}"));
  expect_malformed({"an object"}, entry("{\"shape\":{}}"));
  expect_malformed({"fewer than two"}, entry("{\"data_offsets\":[0]}"));
  expect_malformed({"more than two"}, entry("{\"data_offsets\":[0,0,0]}"));
  expect_malformed({"true or false", "metadata \"k\""}, "{\"__metadata__\":{\"k\":true}}");
  expect_malformed({"a string", "metadata"}, "{\"__metadata__\":\"k\"}");
}

TEST(SafeTensors, RefusesAnUnknownDTypeByName) {
  expect_refused(ErrorCode::unsupported, {"\"a\"", "F8_E4M3"},
                 with_header("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", "x"));
}

TEST(SafeTensors, RefusesAByteRangeThatIsNotTheShapes) {
  const auto header = [](const std::string& shape, const std::string& offsets) {
    return "{\"a\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
  };
  expect_malformed({"f32[2]", "8 bytes", "[0, 4]"}, header("[2]", "[0,4]"), "1234");
  expect_malformed({"f32[]", "4 bytes"}, header("[]", "[0,0]"));
  expect_malformed({"f32[3, 0]", "0 bytes"}, header("[3,0]", "[0,4]"), "1234");
  expect_malformed({"[8, 4]"}, header("[1]", "[8,4]"), "12345678");
}

TEST(SafeTensors, RefusesAShapeWhoseProductOverflows) {
  for (const char* shape : {"[4294967296,4294967296]", "[4611686018427387904,4]", "[9223372036854775808]",
                            "[18446744073709551615,18446744073709551615]", "[4611686018427387904,4,0]",
                            "[2147483648,2147483648,2147483648,0]"}) {
    expect_malformed({"more than 2^62 bytes"},
                     std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":") + shape + ",\"data_offsets\":[0,0]}}");
  }
}

TEST(SafeTensors, RefusesOverlapsHolesAndTrailingBytes) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + first +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + second + "}}";
  };
  expect_malformed({"\"b\" begins at 2", "ends at 4"}, two("[0,4]", "[2,6]"), "12345678");
  expect_malformed({"begins at 0", "ends at 4"}, two("[0,4]", "[0,4]"), "12345678");
  expect_malformed({"\"b\" begins at 5", "ends at 4"}, two("[0,4]", "[5,9]"), "123456789");
  expect_malformed({"\"a\" begins at 1", "ends at 0"}, two("[1,5]", "[5,9]"), "123456789");
  expect_malformed({"take 8 bytes, but 9"}, two("[0,4]", "[4,8]"), "123456789");
  expect_refused(ErrorCode::file_truncated, {"need 8 bytes, the file has 7"},
                 with_header(two("[0,4]", "[4,8]"), "1234567"));
}

TEST(SafeTensors, RefusesATensorLargerThanTheFileWithoutAllocatingIt) {
  expect_refused(ErrorCode::file_truncated, {"4611686018427387904"},
                 with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[4611686018427387904],"
                             "\"data_offsets\":[0,4611686018427387904]}}"));
}

TEST(SafeTensors, RefusesABooleanThatIsNeitherTrueNorFalse) {
  expect_malformed({"\"a\"", "other than 0 and 1"}, "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                   "\1\2");
}

TEST(SafeTensors, WritesNothingForNamesOrDataThatAreWrong) {
  TemporaryFolder folder;
  const std::string path = folder.file("x");
  const std::vector<float> values{1};
  const ArrayView view(values);
  expect_error(ErrorCode::duplicate_name, {"\"w\""}, [&] { write_safetensors(path, {{"w", view}, {"w", view}}); });
  expect_error(ErrorCode::duplicate_name, {"\"k\""},
               [&] { write_safetensors(path, {{"w", view}}, {{"k", "1"}, {"k", "2"}}); });
  expect_error(ErrorCode::invalid_argument, {"__metadata__"},
               [&] { write_safetensors(path, {{"__metadata__", view}}); });
  expect_error(ErrorCode::invalid_argument, {"UTF-8"}, [&] { write_safetensors(path, {{"\xff", view}}); });
  expect_error(ErrorCode::wrong_length, {"\"w\"", "f32[2]", "4 bytes instead of 8"},
               [&] { write_safetensors(path, {{"w", ArrayView({f32, {2}}, values.data(), 4)}}); });
  EXPECT_EQ(folder.entries(), 0);
}

TEST(SafeTensors, KeepsTheOldFileWhereTheNewIsRefused) {
  TemporaryFolder folder;
  const std::vector<float> values{1};
  write_safetensors(folder.file("x"), {{"w", ArrayView(values)}});
  const std::string before = read_text(folder.file("x"));
  expect_error(ErrorCode::duplicate_name, {},
               [&] { write_safetensors(folder.file("x"), {{"v", ArrayView(values)}, {"v", ArrayView(values)}}); });
  EXPECT_EQ(read_text(folder.file("x")), before);
}

}  // namespace
}  // namespace wholestep::io
