#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wholestep/types.h"

namespace wholestep {

/// DType of a C++ element type: double, float, std::int64_t, std::int32_t, std::uint8_t, bool.
template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}

/// A dense row-major tensor in host memory that owns its bytes.
class Array {
 public:
  Array() = default;
  /// Zeros of the given type.
  explicit Array(TensorType type);
  Array(DType dtype, Shape shape) : Array(TensorType{dtype, std::move(shape)}) {}

  /// Copies `values`. Throws `wrong_length` where their number is not that of `shape`.
  template <class T>
  static Array from(const std::vector<T>& values, Shape shape) {
    return from_bytes({dtype_of<T>(), std::move(shape)}, values.data(), values.size() * sizeof(T));
  }
  /// A rank-1 array.
  template <class T>
  static Array from(const std::vector<T>& values) {
    return from(values, {static_cast<std::int64_t>(values.size())});
  }
  /// A rank-0 array.
  template <class T>
  static Array scalar(T value) {
    return from_bytes({dtype_of<T>(), {}}, &value, sizeof(T));
  }
  /// Copies `size` bytes. Throws `wrong_length` where `size` is not that of `type`.
  static Array from_bytes(TensorType type, const void* data, std::size_t size);
  /// Converts `values` to `type.dtype` (round to nearest even). Throws `wrong_length`.
  static Array from_doubles(TensorType type, std::span<const double> values);

  const TensorType& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  /// Number of elements.
  std::int64_t size() const { return empty_ ? 0 : num_elements(type_.shape); }
  std::size_t bytes() const { return data_.size(); }
  void* data() { return data_.data(); }
  const void* data() const { return data_.data(); }

  /// The elements as `T`. Throws `dtype_mismatch` where `T` is not the element type.
  template <class T>
  std::span<const T> as() const {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    check_dtype(dtype_of<T>());
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  /// Every element converted to double (exact but for i64 above 2^53).
  std::vector<double> to_doubles() const;
  /// The value of a one-element array as double. Throws `wrong_length` otherwise.
  double item() const;
  /// Same type and same bytes (so NaN equals the same NaN, and -0 differs from 0).
  bool same_bits(const Array& other) const { return type_ == other.type_ && data_ == other.data_; }

 private:
  void check_dtype(DType wanted) const;
  TensorType type_;
  bool empty_ = true;
  std::vector<std::byte> data_;
};

/// Borrowed, read-only tensor data; valid while what it was made from lives. A rank-1 view of the right length stands
/// for a tensor of any shape; a view of another rank must have exactly the tensor's shape.
struct ArrayView {
  TensorType type;
  const void* data = nullptr;
  std::size_t bytes = 0;

  ArrayView() = default;
  ArrayView(const Array& array) : type(array.type()), data(array.data()), bytes(array.bytes()) {}
  ArrayView(TensorType type, const void* data, std::size_t bytes) : type(std::move(type)), data(data), bytes(bytes) {}
  template <class T>
  ArrayView(std::span<const T> values)
      : type{dtype_of<T>(), {static_cast<std::int64_t>(values.size())}},
        data(values.data()),
        bytes(values.size_bytes()) {}
  template <class T>
  ArrayView(const std::vector<T>& values) : ArrayView(std::span<const T>(values)) {}
};

/// Values by name, for inputs and parameters. Borrowed.
using Inputs = std::vector<std::pair<std::string, ArrayView>>;
/// Values by name, owned, in a stated order.
using NamedArrays = std::vector<std::pair<std::string, Array>>;

/// The array called `name`, or nullptr.
const Array* find(const NamedArrays& arrays, std::string_view name);

}  // namespace wholestep
