#include "schedule/division.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace wholestep::schedule {

std::optional<Reciprocal> exact_for_bytes(float divisor) {
  const auto high = static_cast<float>(1.0 / divisor);
  // 1 - divisor * high is exact in double: two 24-bit factors.
  const auto low = static_cast<float>((1.0 - static_cast<double>(divisor) * static_cast<double>(high)) / divisor);
  if (!std::isnormal(high) || !std::isfinite(low)) return {};
  for (int byte = 0; byte < 256; ++byte) {
    const auto x = static_cast<float>(byte);
    const float product = x * low;
    if (product != 0 && !std::isnormal(product)) return {};  // flushed to zero on some devices
    const float quotient = std::fma(x, high, product);
    if (std::bit_cast<std::uint32_t>(quotient) != std::bit_cast<std::uint32_t>(x / divisor)) return {};
  }
  return Reciprocal{high, low};
}

}  // namespace wholestep::schedule
