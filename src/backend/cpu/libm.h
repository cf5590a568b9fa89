#pragma once
// Functions that generated code may call.
#include <cstdint>
#include <string>
#include <vector>

namespace wholestep::cpu {

struct LibraryFunction {
  std::string symbol;
  const void* address;
};

/// Mathematical functions as `wholestep_<op>_<dtype>`, and what LLVM's code generator calls by itself.
const std::vector<LibraryFunction>& library_functions();

}  // namespace wholestep::cpu
