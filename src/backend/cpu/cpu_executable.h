#pragma once
// A plan with its machine code, memory and the share of each worker.
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/team.h"

namespace wholestep::cpu {

class CpuExecutable : public backend::Executable {
 public:
  CpuExecutable(const plan::Plan& plan, Jit::Result code, const CodeTarget& target, std::shared_ptr<Team> team,
                bool flush_subnormals);

  void bind(int index, std::shared_ptr<backend::DeviceBuffer> buffer) override;
  void bind_host(int index, void* data) override;
  void run() override;
  bool from_cache() const override { return from_cache_; }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  /// A buffer of the plan and what it is tied to.
  struct Slot {
    std::string name;
    std::size_t bytes = 0;
    bool bindable = false;
    bool bound = false;                             // to device memory
    bool borrowed = false;                          // to host memory, for the next run
    void* own = nullptr;                            // address when not borrowed
    std::shared_ptr<backend::DeviceBuffer> buffer;  // keeps `own` alive
    std::vector<std::size_t> uses;                  // entries of addresses_
  };

  /// Consecutive tasks of one kernel.
  struct Range {
    TaskFunction function;
    std::size_t addresses;  // first of the kernel's entries in addresses_
    std::int64_t first, last;
  };

  Slot& slot(int index);
  void set_address(Slot& slot, void* data);
  void lay_out(const plan::Plan& plan);
  std::size_t claim_addresses(const plan::Plan& plan, const plan::Launch& launch);
  void work(int worker);

  std::shared_ptr<const Code> code_;
  std::shared_ptr<Team> team_;
  Memory arena_;
  std::vector<Literal> constants_;
  std::vector<Slot> slots_;
  std::vector<void*> addresses_;
  std::vector<std::vector<std::vector<Range>>> segments_;  // between two barriers, per worker
  std::vector<int> borrowed_;                              // slots borrowed for the next run
  bool parallel_ = false;
  bool from_cache_ = false;
  bool flush_subnormals_ = false;
  std::vector<std::string> notes_;
};

}  // namespace wholestep::cpu
