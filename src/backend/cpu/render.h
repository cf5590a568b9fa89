#pragma once
// Loop nests as LLVM IR.
#include <llvm/IR/Module.h>

#include <string>

#include "backend/cpu/target.h"
#include "schedule/nest.h"

namespace wholestep::cpu {

/// Adds to `module` the function `void symbol(ptr buffers, i64 first_task, i64 last_task)`, which runs tasks
/// [first_task, last_task) of `nest`. `buffers` points to one address per plan buffer of the nest, in its order; they
/// do not overlap. Throws `internal` for a nest that breaks the rules of nest.h.
void render(const schedule::Nest& nest, const CodeTarget& target, bool fast_math, llvm::Module& module,
            const std::string& symbol);

}  // namespace wholestep::cpu
