#include "wholestep/types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "wholestep/error.h"

namespace wholestep {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<DTypeInfo, 8> kDTypes{{{DType::f64, "f64", 8},
                                            {DType::f32, "f32", 4},
                                            {DType::bf16, "bf16", 2},
                                            {DType::f16, "f16", 2},
                                            {DType::i64, "i64", 8},
                                            {DType::i32, "i32", 4},
                                            {DType::u8, "u8", 1},
                                            {DType::boolean, "bool", 1}}};

const DTypeInfo& info(DType dtype) { return kDTypes.at(static_cast<std::size_t>(dtype)); }

constexpr std::int64_t kMostElements = std::int64_t{1} << 62;

}  // namespace

std::size_t size_of(DType dtype) { return info(dtype).bytes; }

bool is_float(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

bool is_integer(DType dtype) { return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8; }

std::string_view to_string(DType dtype) { return info(dtype).name; }

DType dtype_from_string(std::string_view text) {
  for (const DTypeInfo& known : kDTypes)
    if (known.name == text) return known.dtype;
  throw Error(ErrorCode::parse_error,
              fmt::format("'{}' is not a dtype: expected f64, f32, bf16, f16, i64, i32, u8 or bool", text));
}

std::int64_t num_elements(const Shape& shape) {
  // The bound holds without the zeros too, so that strides and partial products never overflow.
  std::int64_t nonzero = 1;
  bool empty = false;
  for (std::int64_t extent : shape) {
    if (extent < 0)
      throw Error(ErrorCode::invalid_argument, fmt::format("shape {} has a negative extent", to_string(shape)));
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (extent > kMostElements / nonzero)
      throw Error(ErrorCode::invalid_argument, fmt::format("shape {} has more than 2^62 elements", to_string(shape)));
    nonzero *= extent;
  }
  return empty ? 0 : nonzero;
}

std::size_t num_bytes(const TensorType& type) {
  const auto elements = static_cast<std::uint64_t>(num_elements(type.shape));
  const std::size_t each = size_of(type.dtype);
  if (elements > static_cast<std::uint64_t>(INT64_MAX) / each)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} has more than 2^63 bytes", to_string(type)));
  return static_cast<std::size_t>(elements) * each;
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  num_elements(shape);
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string to_string(const TensorType& type) {
  return fmt::format("{}{}", to_string(type.dtype), to_string(type.shape));
}

}  // namespace wholestep
