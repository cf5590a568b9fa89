#include "runtime/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "wholestep/error.h"

namespace wholestep::runtime {
namespace {

[[noreturn]] void fail(ErrorCode code, const std::string& what, const TensorType& type, const std::string& got) {
  throw Error(code, fmt::format("{}: expected {}, got {}", what, to_string(type), got));
}

template <class T>
void check_each_index(const std::string& what, const ArrayView& view, std::int64_t bound) {
  const T* values = static_cast<const T*>(view.data);
  const std::size_t count = view.bytes / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int64_t>(values[i]);
    if (value < 0 || value >= bound) {
      throw Error(ErrorCode::index_out_of_range,
                  fmt::format("{}: element {} is {}, expected 0 <= index < {}", what, i, value, bound));
    }
  }
}

}  // namespace

bool fits(const TensorType& type, const ArrayView& view) {
  if (view.type.dtype != type.dtype || view.bytes != num_bytes(type)) return false;
  if (view.type.shape == type.shape) return true;
  return view.type.shape.size() == 1 && view.type.shape[0] == num_elements(type.shape);
}

void check_data(const std::string& what, const TensorType& type, const ArrayView& view) {
  const std::size_t element = size_of(type.dtype);
  if (!fits(type, view)) {
    const std::string got = to_string(view.type);
    if (view.type.dtype != type.dtype) fail(ErrorCode::dtype_mismatch, what, type, got);
    if (view.type.shape.size() == 1 && view.type.shape[0] != num_elements(type.shape)) {
      fail(ErrorCode::wrong_length, what, type, fmt::format("{} elements", view.type.shape[0]));
    }
    if (view.type.shape.size() != 1 && view.type.shape != type.shape) fail(ErrorCode::shape_mismatch, what, type, got);
    fail(ErrorCode::wrong_length, what, type, fmt::format("{} bytes, not {}", view.bytes, num_bytes(type)));
  }
  if (view.bytes == 0) return;
  if (!view.data) fail(ErrorCode::invalid_argument, what, type, "a null pointer");
  if (reinterpret_cast<std::uintptr_t>(view.data) % element != 0) {
    fail(ErrorCode::invalid_argument, what, type, fmt::format("an address that is not a multiple of {}", element));
  }
  if (type.dtype == DType::boolean) {
    const auto* bytes = static_cast<const unsigned char*>(view.data);
    const auto* bad = std::find_if(bytes, bytes + view.bytes, [](unsigned char byte) { return byte > 1; });
    if (bad != bytes + view.bytes) {
      fail(ErrorCode::invalid_argument, what, type, fmt::format("byte {} at element {}", *bad, bad - bytes));
    }
  }
}

void check_indices(const std::string& what, const ArrayView& view, std::int64_t bound) {
  switch (view.type.dtype) {
    case DType::i64:
      return check_each_index<std::int64_t>(what, view, bound);
    case DType::i32:
      return check_each_index<std::int32_t>(what, view, bound);
    case DType::u8:
      return check_each_index<std::uint8_t>(what, view, bound);
    default:
      return;
  }
}

}  // namespace wholestep::runtime
