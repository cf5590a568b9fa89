#pragma once
// Conversions between element types, exact to the bit. Every part that converts a number uses these.
#include <cstdint>
#include <string>

#include "wholestep/types.h"

namespace wholestep {

/// Bits of `value` rounded once to nearest even; subnormals are kept, overflow gives infinity, NaN stays NaN.
std::uint16_t to_bf16_bits(double value);
std::uint16_t to_f16_bits(double value);
/// Exact.
double from_bf16_bits(std::uint16_t bits);
double from_f16_bits(std::uint16_t bits);

/// `value` rounded once to the float type `dtype`.
double round_to_float(double value, DType dtype);
/// `value` reduced modulo 2^bits to the integer type `dtype`; for boolean, whether it is not 0.
std::int64_t wrap_to_integer(std::int64_t value, DType dtype);
/// `value` truncated towards zero and held to the range of the integer type `dtype`, NaN as 0; for boolean, whether it
/// is not 0 (so NaN is true). What the op `cast` does.
std::int64_t saturate_to_integer(double value, DType dtype);

/// Whether every value of `from` is a value of `to` and the two differ, so that converting there and back is the
/// identity.
bool widens(DType from, DType to);

/// Element `i` of dense `data` as double; i64 above 2^53 rounds.
double load_real(const void* data, std::int64_t i, DType dtype);
/// Element `i` of dense `data` of an integer type or boolean.
std::int64_t load_integer(const void* data, std::int64_t i, DType dtype);
/// Stores `value` rounded to the float type `dtype` as element `i`.
void store_real(void* data, std::int64_t i, DType dtype, double value);
/// Stores `value` wrapped to the integer type or boolean `dtype` as element `i`.
void store_integer(void* data, std::int64_t i, DType dtype, std::int64_t value);

/// `value` for a message: the shortest text that reads back; "nan" for every NaN, whatever its sign.
std::string number_text(double value);

}  // namespace wholestep
