#pragma once
// Nests built by hand and run on the CPU backend, on every code path that this processor has.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "wholestep/error.h"

namespace wholestep::test {

using loops::Affine;
using loops::BinaryOp;
using loops::ExprBuilder;
using loops::ExprId;
using loops::Guard;
using loops::ReduceOp;
using loops::UnaryOp;
using schedule::Block;
using schedule::LoopKind;
using schedule::Nest;

/// A backend for the code path `isa`; null where this processor cannot run it.
inline std::shared_ptr<backend::Backend> open_cpu(const std::string& isa, int threads = 1) {
  void* part = dlopen(WHOLESTEP_BUILD_DIR "/libwholestep_cpu.so", RTLD_NOW | RTLD_LOCAL);
  if (!part) throw Error(ErrorCode::device_unavailable, dlerror());
  const auto make = reinterpret_cast<backend::OpenBackend>(dlsym(part, "wholestep_open_backend"));
  setenv("WHOLESTEP_CPU_TARGET", isa.c_str(), 1);
  std::shared_ptr<backend::Backend> result;
  try {
    result.reset(make(backend::kInterfaceVersion, threads));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device_unavailable) throw;
  }
  unsetenv("WHOLESTEP_CPU_TARGET");
  return result;
}

inline Affine var(loops::Var v, std::int64_t coefficient = 1) { return Affine::of(v, coefficient); }

inline schedule::Stmt loop(loops::Var v, std::int64_t extent, LoopKind kind, Block body) {
  return {schedule::Loop{v, extent, kind, std::move(body)}};
}
inline schedule::Stmt store(int buffer, Affine index, ExprId value) {
  return {schedule::StoreTo{{buffer, std::move(index), value}}};
}
inline schedule::Stmt set(int array, Affine slot, ExprId value) {
  return {schedule::SetAccumulator{array, std::move(slot), value}};
}

/// A nest, its expressions, and the arrays behind its buffers.
struct TestNest {
  Nest nest;
  std::vector<Array> arrays;

  explicit TestNest(int lanes = 1) {
    nest.name = "test";
    nest.lanes = lanes;
    nest.task_cost = 100;
  }
  ExprBuilder exprs() { return ExprBuilder(nest.exprs); }

  /// A buffer with these contents.
  int buffer(Array array, bool written = false) {
    nest.buffers.push_back({static_cast<NodeId>(arrays.size()), array.dtype(), array.size(), true, written});
    arrays.push_back(std::move(array));
    return static_cast<int>(nest.buffers.size()) - 1;
  }
  template <class T>
  int buffer(const std::vector<T>& values, bool written = false) {
    return buffer(Array::from_bytes({dtype_of<T>(), {static_cast<std::int64_t>(values.size())}}, values.data(),
                                    values.size() * sizeof(T)),
                  written);
  }
  int output(DType dtype, std::int64_t elements) { return buffer(Array(dtype, {elements}), true); }
  int local(DType dtype, std::int64_t elements) {
    nest.buffers.push_back({-1, dtype, elements, true, true});
    return static_cast<int>(nest.buffers.size()) - 1;
  }
  int registers(DType dtype, std::int64_t slots, schedule::Lanes lanes) {
    nest.accumulators.push_back({dtype, slots, lanes});
    return static_cast<int>(nest.accumulators.size()) - 1;
  }

  plan::Plan plan() const {
    plan::Plan plan;
    plan.name = "test";
    plan::Launch launch{0, {}};
    for (const Array& array : arrays) {
      const int index = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back({plan::BufferRole::input, "b" + std::to_string(index), array.type(), index});
      launch.buffers.push_back(index);
    }
    plan.nests.push_back(nest);
    plan.phases.push_back({{launch}, false});
    return plan;
  }

  /// Runs once; the arrays then hold the results.
  void run(backend::Backend& backend, const backend::BuildOptions& options = {}) {
    schedule::verify(nest);
    auto program = backend.build(plan(), Graph("test"), options);
    for (std::size_t i = 0; i < arrays.size(); ++i) program->bind_host(static_cast<int>(i), arrays[i].data());
    program->run();
  }
};

inline ExprId load(ExprBuilder exprs, const TestNest& test, int buffer, Affine index, std::vector<Guard> guards = {}) {
  return exprs.load(buffer, test.nest.buffers[static_cast<std::size_t>(buffer)].dtype, std::move(index),
                    std::move(guards));
}

/// One test per code path; skipped where the processor lacks it.
class OnEveryPath : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    cpu = open_cpu(GetParam());
    if (!cpu) GTEST_SKIP() << "this processor cannot run " << GetParam();
  }
  int lanes() const { return cpu->target().vector_bytes / 4; }
  std::shared_ptr<backend::Backend> cpu;
};

#define ON_EVERY_PATH(suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Cpu, suite, ::testing::Values("generic", "avx2", "avx512"), \
                           [](const auto& info) { return std::string(info.param); })

}  // namespace wholestep::test
