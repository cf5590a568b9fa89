#include "backend/cpu/target.h"

#include <fmt/format.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <unistd.h>

#include <initializer_list>
#include <vector>

#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

bool has_all(const llvm::StringMap<bool>& features, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!features.lookup(name)) return false;
  }
  return true;
}

std::string feature_text(const llvm::StringMap<bool>& features) {
  std::vector<std::string> items;
  for (const auto& feature : features)
    items.push_back(fmt::format("{}{}", feature.second ? '+' : '-', feature.first().str()));
  std::sort(items.begin(), items.end());
  return fmt::format("{}", fmt::join(items, ","));
}

std::int64_t cache_bytes(int name, std::int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

const char* to_string(Isa isa) { return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "generic"; }

// `vdpbf16ps` on 32 factors, measured beside two f32 multiply-adds of 16: on Zen 5 as fast as one of them, on Sapphire
// Rapids (and by LLVM's model on Zen 4) slower than both.
bool pairs_are_fast(const std::string& cpu) { return cpu == "znver5"; }

}  // namespace

CodeTarget detect_target(const char* wanted) {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  Isa best = Isa::generic;
  if (has_all(features, {"avx2", "fma", "f16c", "bmi2"})) best = Isa::avx2;
  if (best == Isa::avx2 && has_all(features, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    best = Isa::avx512;

  CodeTarget target;
  target.isa = best;
  const std::string name = wanted ? wanted : "";
  if (name == "generic") {
    target.isa = Isa::generic;
  } else if (name == "avx2") {
    target.isa = Isa::avx2;
  } else if (name == "avx512") {
    target.isa = Isa::avx512;
  } else if (!name.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("WHOLESTEP_CPU_TARGET: expected avx512, avx2 or generic, got \"{}\"", name));
  }
  if (target.isa > best) {
    throw Error(
        ErrorCode::device_unavailable,
        fmt::format("WHOLESTEP_CPU_TARGET: this processor cannot run {} code (its best is {})", name, to_string(best)));
  }
  if (target.isa == best && best != Isa::generic) {
    target.cpu = llvm::sys::getHostCPUName().str();
    target.features = feature_text(features);
  } else {
    target.cpu = target.isa == Isa::avx2 ? "x86-64-v3" : "x86-64";
  }
  target.has_f16c = target.isa != Isa::generic;
  schedule::Target& shape = target.schedule;
  shape.name = target.isa == Isa::avx512 ? "x86-64-v4" : target.isa == Isa::avx2 ? "x86-64-v3" : "x86-64";
  shape.vector_bytes = target.isa == Isa::avx512 ? 64 : target.isa == Isa::avx2 ? 32 : 16;
  shape.vector_registers = target.isa == Isa::avx512 ? 32 : 16;
  shape.has_fma = target.isa != Isa::generic;
  shape.multiplies_pairs = target.isa == Isa::avx512 && features.lookup("avx512bf16") && pairs_are_fast(target.cpu);
  shape.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, shape.l1_bytes);
  shape.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, shape.l2_bytes);
  return target;
}

}  // namespace wholestep::cpu
