#pragma once
#include <cstdint>
#include <vector>

namespace wholestep::plan {

/// Memory wanted from phase `first` to phase `last`, both included.
struct Lifetime {
  std::int64_t bytes;
  int first;
  int last;
};

/// The share of memory that may be spent on running faster.
inline constexpr double kSpareMemory = 0.1;

struct ArenaLayout {
  std::vector<std::int64_t> offsets;  // 64-byte aligned, in the order of the lifetimes
  std::int64_t bytes = 0;
  std::int64_t largest_live_bytes = 0;
};

/// Places every lifetime so that those alive in one phase do not overlap: largest first, each in the lowest gap that
/// holds it. Where a tenth more memory allows it, nor do those of neighbouring phases, which can then run into each
/// other.
ArenaLayout lay_out(const std::vector<Lifetime>& lifetimes);

/// Of all phases, the most that is alive in one.
std::int64_t largest_live_bytes(const std::vector<Lifetime>& lifetimes);

}  // namespace wholestep::plan
