#pragma once
// From nests to functions in memory.
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/target.h"

namespace wholestep::cpu {

/// Runs tasks [first_task, last_task) of one nest; `buffers` has one address per plan buffer of the nest.
using TaskFunction = void (*)(void* const* buffers, std::int64_t first_task, std::int64_t last_task);

/// Loaded machine code; its functions live as long as it does.
class Code {
 public:
  enum class Origin { compiled, compiled_not_kept, memory, disk };

  /// Links `objects`. Function i is `kernel_symbol(kernels[i])`. Throws `internal` where it cannot.
  Code(const std::vector<std::string>& objects, const std::vector<std::size_t>& kernels);
  ~Code();
  const std::vector<TaskFunction>& functions() const { return functions_; }
  /// How many functions differ.
  std::size_t different() const { return different_; }
  std::size_t object_bytes() const { return object_bytes_; }
  /// The functions outside that it calls, in alphabetical order.
  const std::set<std::string>& library_calls() const { return library_calls_; }

 private:
  struct Linker;
  std::unique_ptr<Linker> linker_;
  std::vector<TaskFunction> functions_;
  std::size_t different_ = 0;
  std::size_t object_bytes_ = 0;
  std::set<std::string> library_calls_;
};

/// The code of the last few programs, by name. Safe to use from several threads.
class CodeCache {
 public:
  /// The cache shared by all who ask while one of them holds it: what code does depends on neither the backend nor its
  /// number of threads.
  static std::shared_ptr<CodeCache> shared();

  /// The code under this name, or nullptr.
  std::shared_ptr<const Code> find(const std::string& name);
  void insert(const std::string& name, std::shared_ptr<const Code> code);

 private:
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Code>>> recent_;  // most recently used first
};

class Jit {
 public:
  /// `threads`: that many may compile at once.
  Jit(CodeTarget target, int threads)
      : target_(std::move(target)), threads_(threads), in_memory_(CodeCache::shared()) {}

  struct Result {
    std::shared_ptr<const Code> code;
    Code::Origin origin;
  };
  /// One function per nest. Throws `internal` for a nest that cannot be rendered. Safe to call from several threads.
  Result compile(const std::vector<schedule::Nest>& nests, const backend::BuildOptions& options);

  const CodeTarget& target() const { return target_; }

 private:
  CodeTarget target_;
  int threads_;
  std::shared_ptr<CodeCache> in_memory_;
};

}  // namespace wholestep::cpu
