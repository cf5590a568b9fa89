#include "plan/arena.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace wholestep::plan {
namespace {

constexpr std::int64_t kAlignment = 64;

// Memory that was just read is kept for so many phases more where that costs no more than kSpareMemory: were it written
// again at once, a worker that is ahead would have to wait for those that still read it.
constexpr int kPhasesKept = 3;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

ArenaLayout place(const std::vector<Lifetime>& lifetimes) {
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  for (std::size_t i : order) {
    const Lifetime& life = lifetimes[i];
    const std::int64_t bytes = aligned(std::max<std::int64_t>(life.bytes, 1));
    std::int64_t offset = 0;
    for (std::size_t other : placed) {
      const Lifetime& taken = lifetimes[other];
      if (taken.last < life.first || life.last < taken.first) continue;
      if (offset + bytes <= layout.offsets[other]) break;
      offset = std::max(offset, layout.offsets[other] + aligned(std::max<std::int64_t>(taken.bytes, 1)));
    }
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                   [&](std::int64_t at, std::size_t other) { return at < layout.offsets[other]; }),
                  i);
  }
  return layout;
}

}  // namespace

ArenaLayout lay_out(const std::vector<Lifetime>& lifetimes) {
  ArenaLayout layout = place(lifetimes);
  const auto most = static_cast<double>(layout.bytes) * (1 + kSpareMemory);
  for (int kept = kPhasesKept; kept > 0; --kept) {
    std::vector<Lifetime> longer = lifetimes;
    for (Lifetime& life : longer) life.last += kept;
    ArenaLayout spacious = place(longer);
    if (static_cast<double>(spacious.bytes) > most) continue;
    layout = std::move(spacious);
    break;
  }
  layout.largest_live_bytes = largest_live_bytes(lifetimes);
  return layout;
}

std::int64_t largest_live_bytes(const std::vector<Lifetime>& lifetimes) {
  std::map<int, std::int64_t> changes;
  for (const Lifetime& life : lifetimes) {
    const std::int64_t bytes = aligned(std::max<std::int64_t>(life.bytes, 1));
    changes[life.first] += bytes;
    changes[life.last + 1] -= bytes;
  }
  std::int64_t live = 0, largest = 0;
  for (const auto& [phase, change] : changes) largest = std::max(largest, live += change);
  return largest;
}

}  // namespace wholestep::plan
