#include "core/random.h"

#include <cmath>
#include <numbers>

namespace wholestep::random {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(odd),
               static_cast<std::uint32_t>(even >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(even)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

std::uint32_t Stream::next() {
  if (used_ == 4) {
    block_ = philox({static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32),
                     static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                    {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    ++counter_;
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

namespace {
std::uint64_t next64(Stream& stream) {
  const std::uint64_t low = stream.next();
  return std::uint64_t{stream.next()} << 32 | low;
}
}  // namespace

std::uint64_t Stream::below(std::uint64_t bound) {
  // The first 2^64 mod bound numbers are one too many of their remainders: drawing again removes the bias.
  const std::uint64_t excess = (0 - bound) % bound;
  std::uint64_t value;
  do value = next64(*this);
  while (value < excess);
  return value % bound;
}

double Stream::uniform() { return static_cast<double>(next64(*this) >> 11) * 0x1p-53; }

double Stream::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));  // the argument is in (0, 1], its logarithm finite
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::uint64_t hash_name(const char* data, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3;
  return hash;
}

}  // namespace wholestep::random
