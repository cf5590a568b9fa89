#pragma once
// Division of small integers by a constant, without a division.
#include <optional>

namespace wholestep::schedule {

/// Two numbers with x / divisor == fma(x, high, x * low) in f32, bit for bit, for each x = 0 .. 255. The reciprocal as
/// an unevaluated sum: Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the
/// divisor is known in advance", IEEE Transactions on Computers 53(8), 2004. Nothing where it fails for any x.
struct Reciprocal {
  float high, low;
};
std::optional<Reciprocal> exact_for_bytes(float divisor);

}  // namespace wholestep::schedule
