#pragma once
// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#include <array>
#include <cstddef>
#include <cstdint>

namespace wholestep::random {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Numbers in order from (seed, stream); streams of one seed are independent.
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::uint32_t next();
  /// Uniform in [0, bound), without bias. bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Standard normal (Box and Muller).
  double normal();

 private:
  std::uint64_t seed_, stream_, counter_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

/// A stream number from a name (FNV-1a).
std::uint64_t hash_name(const char* data, std::size_t size);

}  // namespace wholestep::random
