#pragma once
#include <cstdint>
#include <vector>

namespace wholestep::data {

/// Permutes `order` as `seed` and `epoch` determine (Philox; Fisher and Yates).
void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed, std::uint64_t epoch);

}  // namespace wholestep::data
