#pragma once
#include <vector>

#include "loops/kernel.h"

namespace wholestep::plan {

/// Kernels in order of dependence, and what must come before what.
struct KernelOrder {
  std::vector<std::vector<int>> after;  // kernels that must come later, per kernel
  std::vector<int> level;               // longest path
};

/// An update whose value is written straight into its target, or not.
struct InPlace {
  Update update;
  bool possible = false;
};

struct InPlaceResult {
  std::vector<InPlace> updates;
  KernelOrder order;
};

/// Which updates can overwrite their target where it lies: every other reader of the old value can be ordered before
/// the writer, and the writer reads each old element no later than it stores the new one there.
InPlaceResult order_kernels(const Graph& graph, const std::vector<loops::Kernel>& kernels);

/// In `kernel`, value `from` becomes value `to`: one buffer for both.
void rename_buffer(loops::Kernel& kernel, NodeId from, NodeId to);

}  // namespace wholestep::plan
