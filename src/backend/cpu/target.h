#pragma once
// Which processor code is made for.
#include <string>

#include "schedule/nest.h"

namespace wholestep::cpu {

enum class Isa { generic, avx2, avx512 };

struct CodeTarget {
  schedule::Target schedule;
  Isa isa = Isa::generic;
  std::string cpu;       // as LLVM names processors
  std::string features;  // as LLVM writes them: "+avx,-sse4a"; empty: those of `cpu`
  bool has_f16c = false;
};

/// The code path `wanted` ("generic", "avx2", "avx512"), or the best that this processor runs where `wanted` is null or
/// empty. Throws `invalid_argument` for another name and `device_unavailable` for a path that this processor cannot
/// run.
CodeTarget detect_target(const char* wanted);

}  // namespace wholestep::cpu
