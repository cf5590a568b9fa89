#include "schedule/tile.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace wholestep::schedule {

// Multiply-adds at two a cycle, loads at two a cycle, and the latency of a chain where there are too few of them;
// leftover rows and columns counted as what they cost.
Tile choose_tile(std::int64_t m, std::int64_t n, bool small, int lanes, int registers_per_vector,
                 const Target& target) {
  const int registers = target.vector_registers;
  Tile best{1, 1};
  double least = INFINITY;
  for (int vectors = 1; vectors <= 4; ++vectors) {
    for (int rows = 1; rows <= 16; ++rows) {
      if ((rows * vectors + vectors + 1) * registers_per_vector > registers) continue;
      auto tile_cycles = [&](std::int64_t r, std::int64_t v) {
        const double work = static_cast<double>(r * v * registers_per_vector) / 2;
        const double loads = static_cast<double>(r + v * registers_per_vector) / 2;
        return std::max({work, loads, 4.0}) + 0.75;
      };
      const std::int64_t width = static_cast<std::int64_t>(vectors) * lanes;
      const std::int64_t full_m = m / rows, rest_m = m % rows, full_n = n / width;
      const std::int64_t rest_v = (n % width + lanes - 1) / lanes;
      double total = static_cast<double>(full_m * full_n) * tile_cycles(rows, vectors);
      if (rest_m) total += static_cast<double>(full_n) * tile_cycles(rest_m, vectors);
      if (rest_v) total += static_cast<double>(full_m) * tile_cycles(rows, rest_v);
      if (rest_m && rest_v) total += tile_cycles(rest_m, rest_v);
      // Each kind of tile is code to compile.
      total *= 1 + 0.02 * ((rest_m ? 1 : 0) + (rest_v && full_n ? 1 : 0));
      if (small && !std::has_single_bit(static_cast<std::uint64_t>(full_m + (rest_m ? 1 : 0)))) total *= 1.1;
      if (total < least * 0.999) {
        least = total;
        best = {rows, vectors};
      }
    }
  }
  return best;
}

}  // namespace wholestep::schedule
