#pragma once
// How much of a product one worker holds in registers.
#include <cstdint>

#include "schedule/nest.h"

namespace wholestep::schedule {

struct Tile {
  int rows;
  int vectors;  // of a row
};

/// The tile of least estimated time for a result of `m` rows and `n` columns, `lanes` to a vector, which takes
/// `registers_per_vector`. `small`: products of a few microseconds, which have row tiles in a power of two, as other
/// kernels over the same rows have (see plan/shares.h).
Tile choose_tile(std::int64_t m, std::int64_t n, bool small, int lanes, int registers_per_vector, const Target& target);

}  // namespace wholestep::schedule
