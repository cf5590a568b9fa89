#include "core/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace wholestep {
namespace {

/// Encodes in an IEEE 754 binary format of 16 bits with `exponent_bits` and `mantissa_bits`.
std::uint16_t encode16(double value, int exponent_bits, int mantissa_bits) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 63) << 15);
  const std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  const int biased = static_cast<int>((bits >> 52) & 0x7ff);
  const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  if (biased == 0x7ff) {
    if (mantissa == 0) return sign | infinity;
    const auto payload = static_cast<std::uint16_t>(mantissa >> (52 - mantissa_bits));
    const auto quiet = static_cast<std::uint16_t>(1 << (mantissa_bits - 1));
    return static_cast<std::uint16_t>(sign | infinity | quiet | payload);
  }
  if (biased == 0) return sign;  // zero, or a subnormal double: far below half of the smallest 16-bit number
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int smallest = 1 - bias;
  const int exponent = biased - 1023;
  if (exponent > bias) return sign | infinity;
  const std::uint64_t significand = mantissa | (std::uint64_t{1} << 52);
  const int shift = 52 - mantissa_bits + std::max(0, smallest - exponent);
  if (shift > 53) return sign;
  std::uint64_t rounded = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1))) ++rounded;
  // A carry out of the mantissa moves into the exponent, from subnormal to normal and from the largest to infinity.
  const auto exponent_steps = static_cast<std::uint64_t>(std::max(exponent, smallest) - smallest);
  return static_cast<std::uint16_t>(sign | ((exponent_steps << mantissa_bits) + rounded));
}

template <class T>
T load(const void* data, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* data, std::int64_t i, T value) {
  std::memcpy(static_cast<char*>(data) + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::uint16_t to_bf16_bits(double value) { return encode16(value, 8, 7); }
std::uint16_t to_f16_bits(double value) { return encode16(value, 5, 10); }

double from_bf16_bits(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

double from_f16_bits(std::uint16_t bits) {
  const std::uint64_t sign = static_cast<std::uint64_t>(bits >> 15) << 63;
  const int exponent = (bits >> 10) & 0x1f;
  const std::uint64_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<double>(sign | (std::uint64_t{0x7ff} << 52) | (mantissa << 42));
  const double magnitude = exponent == 0 ? std::ldexp(static_cast<double>(mantissa), -24)
                                         : std::ldexp(static_cast<double>(mantissa | 0x400), exponent - 25);
  return sign ? -magnitude : magnitude;
}

double round_to_float(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::bf16:
      return from_bf16_bits(to_bf16_bits(value));
    case DType::f16:
      return from_f16_bits(to_f16_bits(value));
    default:
      return value;
  }
}

std::int64_t wrap_to_integer(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::boolean:
      return value != 0;
    default:
      return value;
  }
}

std::int64_t saturate_to_integer(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  constexpr double kTwo63 = 9223372036854775808.0;
  const std::int64_t whole = value >= kTwo63    ? std::numeric_limits<std::int64_t>::max()
                             : value <= -kTwo63 ? std::numeric_limits<std::int64_t>::min()
                                                : static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::i32:
      return std::clamp<std::int64_t>(whole, std::numeric_limits<std::int32_t>::min(),
                                      std::numeric_limits<std::int32_t>::max());
    case DType::u8:
      return std::clamp<std::int64_t>(whole, 0, 255);
    default:
      return whole;
  }
}

bool widens(DType from, DType to) {
  switch (from) {
    case DType::boolean:
      return to != DType::boolean;
    case DType::u8:
      return to != DType::boolean && to != DType::u8;
    case DType::i32:
      return to == DType::i64 || to == DType::f64;
    case DType::bf16:
    case DType::f16:
      return to == DType::f32 || to == DType::f64;
    case DType::f32:
      return to == DType::f64;
    default:
      return false;
  }
}

double load_real(const void* data, std::int64_t i, DType dtype) {
  switch (dtype) {
    case DType::f64:
      return load<double>(data, i);
    case DType::f32:
      return load<float>(data, i);
    case DType::bf16:
      return from_bf16_bits(load<std::uint16_t>(data, i));
    case DType::f16:
      return from_f16_bits(load<std::uint16_t>(data, i));
    default:
      return static_cast<double>(load_integer(data, i, dtype));
  }
}

std::int64_t load_integer(const void* data, std::int64_t i, DType dtype) {
  switch (dtype) {
    case DType::i64:
      return load<std::int64_t>(data, i);
    case DType::i32:
      return load<std::int32_t>(data, i);
    default:
      return load<std::uint8_t>(data, i);
  }
}

void store_real(void* data, std::int64_t i, DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return store(data, i, value);
    case DType::f32:
      return store(data, i, static_cast<float>(value));
    case DType::bf16:
      return store(data, i, to_bf16_bits(value));
    case DType::f16:
      return store(data, i, to_f16_bits(value));
    default:
      return store_integer(data, i, dtype, saturate_to_integer(value, dtype));
  }
}

void store_integer(void* data, std::int64_t i, DType dtype, std::int64_t value) {
  const std::int64_t wrapped = wrap_to_integer(value, dtype);
  switch (dtype) {
    case DType::i64:
      return store(data, i, wrapped);
    case DType::i32:
      return store(data, i, static_cast<std::int32_t>(wrapped));
    default:
      return store(data, i, static_cast<std::uint8_t>(wrapped));
  }
}

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

}  // namespace wholestep
