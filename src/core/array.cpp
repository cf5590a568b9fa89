#include "wholestep/array.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <new>

#include "core/convert.h"
#include "core/memory.h"
#include "wholestep/error.h"

namespace wholestep {

Array::Array(TensorType type) : type_(std::move(type)), empty_(false) {
  const std::size_t bytes = num_bytes(type_);
  try {
    if (bytes > kMostBytes) throw std::bad_alloc();
    data_.resize(bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::invalid_argument, fmt::format("no memory for {} ({} bytes)", to_string(type_), bytes));
  }
}

Array Array::from_bytes(TensorType type, const void* data, std::size_t size) {
  const std::size_t expected = num_bytes(type);
  if (size != expected)
    throw Error(ErrorCode::wrong_length, fmt::format("{} takes {} elements ({} bytes), got {} bytes", to_string(type),
                                                     num_elements(type.shape), expected, size));
  if (type.dtype == DType::boolean) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    for (std::size_t i = 0; i < size; ++i)
      if (bytes[i] > 1)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("element {} of {} is the byte {}, expected 0 or 1", i, to_string(type), bytes[i]));
  }
  Array result(std::move(type));
  if (size > 0) std::memcpy(result.data(), data, size);
  return result;
}

Array Array::from_doubles(TensorType type, std::span<const double> values) {
  if (static_cast<std::int64_t>(values.size()) != num_elements(type.shape))
    throw Error(ErrorCode::wrong_length,
                fmt::format("{} takes {} elements, got {}", to_string(type), num_elements(type.shape), values.size()));
  Array result(std::move(type));
  const DType dtype = result.dtype();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool whole = is_integer(dtype);
    store_real(result.data(), static_cast<std::int64_t>(i), dtype, whole ? std::nearbyint(values[i]) : values[i]);
  }
  return result;
}

std::vector<double> Array::to_doubles() const {
  std::vector<double> values(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = load_real(data(), static_cast<std::int64_t>(i), dtype());
  return values;
}

double Array::item() const {
  if (size() != 1)
    throw Error(ErrorCode::wrong_length,
                fmt::format("item() of {}: expected one element, got {}", to_string(type_), size()));
  return load_real(data(), 0, dtype());
}

void Array::check_dtype(DType wanted) const {
  if (type_.dtype != wanted)
    throw Error(ErrorCode::dtype_mismatch,
                fmt::format("elements of {} read as {}", to_string(type_), to_string(wanted)));
}

const Array* find(const NamedArrays& arrays, std::string_view name) {
  for (const auto& [key, array] : arrays)
    if (key == name) return &array;
  return nullptr;
}

}  // namespace wholestep
