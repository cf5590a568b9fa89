#pragma once
// 128 bits that stand for a graph or anything else that can be said in bytes: the key of compiled code.
#include <cstdint>
#include <string>
#include <string_view>

#include "wholestep/graph.h"

namespace wholestep::runtime {

/// Hashes what it is fed, in order. Not for secrets.
class Fingerprint {
 public:
  void add(const void* data, std::size_t size);
  void add(std::uint64_t number);
  /// Length first, so that ("ab", "c") and ("a", "bc") differ.
  void add(std::string_view text);
  void add(const TensorType& type);
  void add(const Graph& graph);
  /// 32 hexadecimal digits.
  std::string hex() const;

 private:
  std::uint64_t a_ = 0x9e3779b97f4a7c15, b_ = 0xd1b54a32d192ed03;
};

}  // namespace wholestep::runtime
