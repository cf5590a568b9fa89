#pragma once
// Names for compiled code.
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/target.h"
#include "schedule/nest.h"

namespace wholestep::cpu {

/// 64-bit hash of bytes, for checksums and names (not for secrets).
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed = 0);

/// What the code of a nest is made from, target and options apart: of two nests with one text, one function does both.
std::string description(const schedule::Nest& nest);

/// A name that differs wherever the code would: the caller's key, the nests, the target, fast-math, and the versions of
/// LLVM and of this library's own file.
std::string fingerprint(const std::string& key, const std::vector<schedule::Nest>& nests, const CodeTarget& target,
                        bool fast_math);

}  // namespace wholestep::cpu
