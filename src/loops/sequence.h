#pragma once
// A sequential op as a kernel of its own.
#include "loops/kernel.h"
#include "loops/lowering.h"

namespace wholestep::loops {

/// Fills `kernel`, whose parallel axes are those of the result before its last two, ones left out, with the stages that
/// the rule of `root` writes.
void write_sequence(const Graph& graph, NodeId root, Kernel& kernel, Lowering& lowering);

}  // namespace wholestep::loops
