#pragma once
// From nests to object code.
#include <cstddef>
#include <string>
#include <vector>

#include "backend/cpu/target.h"
#include "schedule/nest.h"

namespace wholestep::cpu {

/// Symbol of the function of nest `index`.
std::string kernel_symbol(std::size_t index);

/// One or more ELF objects that together define `kernel_symbol(i)` for each nest, made on up to `threads` threads. What
/// is computed does not depend on their number. Throws `internal` for a nest that cannot be rendered.
std::vector<std::string> compile_nests(const std::vector<schedule::Nest>& nests, const CodeTarget& target,
                                       bool fast_math, int threads);

}  // namespace wholestep::cpu
