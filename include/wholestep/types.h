#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wholestep {

/// Element type of a tensor. `boolean` is stored as one byte, 0 or 1.
enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, u8, boolean };

inline constexpr DType f64 = DType::f64;
inline constexpr DType f32 = DType::f32;
inline constexpr DType bf16 = DType::bf16;
inline constexpr DType f16 = DType::f16;
inline constexpr DType i64 = DType::i64;
inline constexpr DType i32 = DType::i32;
inline constexpr DType u8 = DType::u8;
inline constexpr DType boolean = DType::boolean;

/// Extents of a tensor, outermost first; empty for a scalar. Tensors are dense and row-major.
using Shape = std::vector<std::int64_t>;

/// Element type and extents.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// True for f64, f32, bf16 and f16.
bool is_float(DType dtype);
/// True for i64, i32 and u8 (not for boolean).
bool is_integer(DType dtype);
/// "f32", "bool", ...
std::string_view to_string(DType dtype);
/// The inverse of `to_string`. Throws `parse_error` for any other text.
DType dtype_from_string(std::string_view text);

/// Product of the extents (1 for a scalar). Throws `invalid_argument` for a negative extent or a product above 2^62.
std::int64_t num_elements(const Shape& shape);
/// Bytes of a dense tensor of this type.
std::size_t num_bytes(const TensorType& type);
/// Elements between neighbours along each axis of a dense row-major tensor.
std::vector<std::int64_t> row_major_strides(const Shape& shape);
/// "[64, 784]"; "[]" for a scalar.
std::string to_string(const Shape& shape);
/// "f32[64, 784]".
std::string to_string(const TensorType& type);

}  // namespace wholestep
