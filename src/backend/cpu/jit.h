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
  enum class Origin { compiled, memory, disk };

  /// Links `objects`, which define `kernel_symbol` 0 ... count - 1. Throws `internal` where it cannot.
  Code(const std::vector<std::string>& objects, std::size_t count);
  ~Code();
  const std::vector<TaskFunction>& functions() const { return functions_; }
  std::size_t object_bytes() const { return object_bytes_; }
  /// The functions outside that it calls, in alphabetical order.
  const std::set<std::string>& library_calls() const { return library_calls_; }

 private:
  struct Linker;
  std::unique_ptr<Linker> linker_;
  std::vector<TaskFunction> functions_;
  std::size_t object_bytes_ = 0;
  std::set<std::string> library_calls_;
};

class Jit {
 public:
  /// `threads`: that many may compile at once.
  Jit(CodeTarget target, int threads) : target_(std::move(target)), threads_(threads) {}

  struct Result {
    std::shared_ptr<const Code> code;
    Code::Origin origin;
  };
  /// One function per nest. Throws `internal` for a nest that cannot be rendered. Safe to call from several threads.
  Result compile(const std::vector<schedule::Nest>& nests, const backend::BuildOptions& options);

  const CodeTarget& target() const { return target_; }

 private:
  std::shared_ptr<const Code> recall(const std::string& name);
  void remember(const std::string& name, std::shared_ptr<const Code> code);

  CodeTarget target_;
  int threads_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Code>>> recent_;  // most recently used first
};

}  // namespace wholestep::cpu
