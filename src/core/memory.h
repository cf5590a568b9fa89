#pragma once
#include <cstddef>

namespace wholestep {

/// No single allocation is larger (1 TiB), so that a mistaken or hostile shape is an error that names the tensor on
/// every allocator, those included that end the process.
inline constexpr std::size_t kMostBytes = std::size_t{1} << 40;

}  // namespace wholestep
