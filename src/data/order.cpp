#include "data/order.h"

#include <fmt/format.h>

#include <utility>

#include "core/random.h"

namespace wholestep::data {

void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed, std::uint64_t epoch) {
  const std::string name = fmt::format("shuffle of epoch {}", epoch);
  random::Stream stream(seed, random::hash_name(name.data(), name.size()));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
}

}  // namespace wholestep::data
