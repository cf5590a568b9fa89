// The CPU as a backend: LLVM makes the code, a team of threads runs it.
#include <fmt/format.h>
#include <sched.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "backend/backend.h"
#include "backend/cpu/cpu_executable.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/target.h"
#include "backend/cpu/team.h"
#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

// More share too little work each.
constexpr int kMostCompilers = 8;

class CpuBackend : public backend::Backend {
 public:
  CpuBackend(CodeTarget target, int threads)
      : jit_(std::move(target), std::min(usable_cores(), kMostCompilers)), team_(Team::shared(threads)) {}

  DeviceInfo info() const override {
    const CodeTarget& target = jit_.target();
    return {"cpu", true, fmt::format("{}, {} code, LLVM", target.cpu, target.schedule.name), team_->size()};
  }
  schedule::Target target() const override { return jit_.target().schedule; }
  int threads() const override { return team_->size(); }
  std::shared_ptr<backend::DeviceBuffer> allocate(std::size_t bytes) override {
    return std::make_shared<CpuBuffer>(bytes);
  }
  std::unique_ptr<backend::Executable> build(const plan::Plan& plan, const Graph&,
                                             const backend::BuildOptions& options) override {
    return std::make_unique<CpuExecutable>(plan, jit_.compile(plan.nests, options), jit_.target(), team_,
                                           options.flush_subnormals);
  }

 private:
  Jit jit_;
  std::shared_ptr<Team> team_;
};

}  // namespace
}  // namespace wholestep::cpu

/// See backend::OpenBackend. Null where the interface is another version's.
extern "C" __attribute__((visibility("default"))) wholestep::backend::Backend* wholestep_open_backend(
    int interface_version, int threads) {
  using namespace wholestep;
  constexpr int kMostThreads = 1024;
  if (interface_version != backend::kInterfaceVersion) return nullptr;
  if (threads < 0 || threads > kMostThreads) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cpu: expected 0 to {} threads, got {}", kMostThreads, threads));
  }
  return new cpu::CpuBackend(cpu::detect_target(std::getenv("WHOLESTEP_CPU_TARGET")),
                             threads == 0 ? cpu::usable_cores() : threads);
}
