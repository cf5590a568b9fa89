#include "wholestep/array.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "expect_error.h"

namespace wholestep {
namespace {

TEST(Types, EveryDTypeHasANameThatReadsBack) {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean})
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
  expect_error(ErrorCode::parse_error, {"'f128'"}, [] { dtype_from_string("f128"); });
}

TEST(Types, AnOverflowingShapeIsRefusedEvenWhereAnExtentIsZero) {
  const std::int64_t huge = std::int64_t{1} << 40;
  expect_error(ErrorCode::invalid_argument, {"2^62"}, [&] { num_elements({huge, huge}); });
  expect_error(ErrorCode::invalid_argument, {"2^62"}, [&] { num_elements({0, huge, huge}); });
  expect_error(ErrorCode::invalid_argument, {"[2, -1]", "negative"}, [] { num_elements({2, -1}); });
  expect_error(ErrorCode::invalid_argument, {"bytes"}, [] { num_bytes({f64, {std::int64_t{1} << 61}}); });
  EXPECT_EQ(num_elements({std::int64_t{1} << 62}), std::int64_t{1} << 62);
  EXPECT_EQ(num_elements({3, 0, 5}), 0);
  EXPECT_EQ(num_elements({}), 1);
}

TEST(Types, StridesAreRowMajor) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (std::vector<std::int64_t>{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), std::vector<std::int64_t>());
  EXPECT_EQ(row_major_strides({2, 0, 4}), (std::vector<std::int64_t>{0, 4, 1}));
}

TEST(Types, AreWrittenAsDtypeAndExtents) {
  EXPECT_EQ(to_string(TensorType{f32, {64, 784}}), "f32[64, 784]");
  EXPECT_EQ(to_string(TensorType{boolean, {}}), "bool[]");
}

TEST(Array, RefusesDataOfAnotherLength) {
  const std::vector<float> three = {1, 2, 3};
  expect_error(ErrorCode::wrong_length, {"f32[2, 2]", "4 elements", "12 bytes"}, [&] { Array::from(three, {2, 2}); });
  const double two[] = {1, 2};
  expect_error(ErrorCode::wrong_length, {"i32[3]", "got 2"}, [&] { Array::from_doubles({i32, {3}}, two); });
}

TEST(Array, RefusesABooleanThatIsNeitherZeroNorOne) {
  const std::uint8_t bytes[] = {0, 1, 2};
  expect_error(ErrorCode::invalid_argument, {"element 2", "bool[3]"},
               [&] { Array::from_bytes({boolean, {3}}, bytes, 3); });
}

TEST(Array, RefusesToBeLargerThanMemory) {
  expect_error(ErrorCode::invalid_argument, {"no memory", "f32[1152921504606846976]"},
               [] { Array(f32, {std::int64_t{1} << 60}); });
}

TEST(Array, IsReadAsItsOwnElementTypeOnly) {
  const Array array = Array::scalar(2.5f);
  EXPECT_EQ(array.as<float>()[0], 2.5f);
  EXPECT_EQ(array.item(), 2.5);
  expect_error(ErrorCode::dtype_mismatch, {"f32[]", "f64"}, [&] { array.as<double>(); });
}

TEST(Array, ItemNeedsExactlyOneElement) {
  expect_error(ErrorCode::wrong_length, {"f32[2]"}, [] { Array(f32, {2}).item(); });
  EXPECT_EQ(Array(f32, {1, 1}).item(), 0);
}

TEST(Array, ConvertsDoublesToEveryDType) {
  const std::vector<double> values = {0.1, -2.5, 3.5, 1e10, std::nan("")};
  const auto as = [&](DType dtype) { return Array::from_doubles({dtype, {5}}, values).to_doubles(); };
  EXPECT_EQ(as(f64)[0], 0.1);
  EXPECT_EQ(as(f32)[0], static_cast<double>(0.1f));
  EXPECT_EQ(as(bf16)[0], 0.10009765625);
  EXPECT_EQ(as(f16)[0], 0.0999755859375);
  EXPECT_EQ(as(f16)[3], std::numeric_limits<double>::infinity());
  EXPECT_EQ(as(i32), (std::vector<double>{0, -2, 4, 2147483647.0, 0}));
  EXPECT_EQ(as(u8), (std::vector<double>{0, 0, 4, 255, 0}));
  EXPECT_EQ(as(boolean), (std::vector<double>{1, 1, 1, 1, 1}));
}

TEST(Array, SameBitsTellsZerosApartAndKnowsANaNAgain) {
  EXPECT_FALSE(Array::scalar(0.0f).same_bits(Array::scalar(-0.0f)));
  EXPECT_TRUE(Array::scalar(NAN).same_bits(Array::scalar(NAN)));
  EXPECT_FALSE(Array(f32, {2}).same_bits(Array(f32, {2, 1})));
}

TEST(Array, WithAZeroExtentHasNoElements) {
  const Array array(f32, {3, 0});
  EXPECT_EQ(array.size(), 0);
  EXPECT_EQ(array.bytes(), 0u);
  EXPECT_TRUE(array.to_doubles().empty());
}

}  // namespace
}  // namespace wholestep
