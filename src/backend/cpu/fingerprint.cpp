#include "backend/cpu/fingerprint.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <llvm/Config/llvm-config.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <type_traits>

namespace wholestep::cpu {
namespace {

/// Collects what code depends on as bytes. Every list is preceded by its length, so that no two nests share a text.
class Writer {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  template <class T>
  void put(const std::vector<T>& items) {
    put(items.size());
    for (const T& item : items) put(item);
  }
  void put(const loops::Affine& affine) {
    put(affine.offset);
    put(affine.terms.size());
    for (const auto& [var, coefficient] : affine.terms) {
      put(var);
      put(coefficient);
    }
  }
  void put(const loops::Guard& guard) {
    put(guard.value);
    put(guard.low);
    put(guard.high);
  }
  void put(const loops::Expr& expr) {
    put(expr.kind);
    put(expr.dtype);
    put(expr.unary);
    put(expr.binary);
    put(expr.reduce);
    for (const loops::ExprId operand : expr.operands) put(operand);
    put(expr.buffer);
    put(expr.slot);
    put(expr.scale);
    put(expr.limit);
    put(expr.integer);
    put(std::bit_cast<std::uint64_t>(expr.real));
    put(expr.index);
    put(expr.guards);
  }
  void put(const loops::Axis& axis) {
    put(axis.var);
    put(axis.extent);
  }
  void put(const loops::BufferUse& use) {
    put(use.value >= 0);
    put(use.dtype);
    put(use.elements);
    put(use.written);
  }
  void put(const schedule::AccumulatorArray& array) {
    put(array.dtype);
    put(array.slots);
    put(array.lanes);
  }
  void put(const schedule::Stmt& statement) {
    put(statement.node.index());
    std::visit([this](const auto& node) { put_statement(node); }, statement.node);
  }
  void put(const schedule::Nest& nest) {
    put(nest.lanes);
    put(nest.grid);
    put(nest.exprs);
    put(nest.buffers);
    put(nest.accumulators);
    put(nest.body);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put_statement(const schedule::Loop& loop) {
    put(loop.var);
    put(loop.extent);
    put(loop.kind);
    put(loop.body);
    put(loop.begin);
    put(loop.end);
  }
  void put_statement(const schedule::Branch& branch) {
    put(branch.value);
    put(branch.limit);
    put(branch.then);
    put(branch.otherwise);
  }
  void put_statement(const schedule::SetAccumulator& set) {
    put(set.array);
    put(set.slot);
    put(set.value);
  }
  void put_statement(const schedule::Prefetch& soon) { put(soon.read); }
  void put_statement(const schedule::StoreTo& to) {
    put(to.store.buffer);
    put(to.store.index);
    put(to.store.value);
    put(to.store.row);
    put(to.store.scale);
    put(to.store.limit);
  }

  std::string bytes_;
};

/// Size and time of the file that holds this function: a rebuilt renderer does not meet the code of an older one.
std::string own_file_version() {
  Dl_info info{};
  struct stat status{};
  if (!dladdr(reinterpret_cast<const void*>(&own_file_version), &info) || !info.dli_fname ||
      stat(info.dli_fname, &status) != 0) {
    return "";
  }
  return fmt::format("{}-{}.{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace

// Murmur-like: eight bytes at a time, each multiplied and rotated in; the last ones padded with zeros.
std::uint64_t hash_bytes(const void* data, std::size_t size, std::uint64_t seed) {
  constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15, kSecond = 0xd6e8feb86659fd93;
  const char* bytes = static_cast<const char*>(data);
  std::uint64_t hash = seed ^ (size * kFirst);
  for (std::size_t at = 0; at < size; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, size - at < 8 ? size - at : 8);
    hash = std::rotl(hash ^ (word * kFirst), 29) * kSecond;
  }
  hash ^= hash >> 32;
  hash *= kSecond;
  hash ^= hash >> 29;
  hash *= kFirst;
  return hash ^ (hash >> 32);
}

std::string description(const schedule::Nest& nest) {
  Writer writer;
  writer.put(nest);
  return writer.bytes();
}

std::string fingerprint(const std::string& key, const std::vector<schedule::Nest>& nests, const CodeTarget& target,
                        bool fast_math) {
  static const std::string version = own_file_version();
  Writer writer;
  writer.put(key);
  writer.put(nests);
  writer.put(target.isa);
  writer.put(target.cpu);
  writer.put(target.features);
  writer.put(fast_math);
  writer.put(std::string(LLVM_VERSION_STRING));
  writer.put(version);
  const std::string& bytes = writer.bytes();
  return fmt::format("{:016x}{:016x}", hash_bytes(bytes.data(), bytes.size(), 1),
                     hash_bytes(bytes.data(), bytes.size(), 2));
}

}  // namespace wholestep::cpu
