#pragma once
// Which values are computed once and kept, and which are written into the expressions of their users.
#include <vector>

#include "loops/fuse.h"

namespace wholestep::loops {

/// Functions like `exp` and `sin` in one kernel: each is some forty instructions, and the time to compile a kernel
/// grows faster than its code.
inline constexpr int kMostFunctions = 12;

struct Roots {
  std::vector<bool> is_root;  // has a stage of its own
  std::vector<bool> is_source;
  std::vector<bool> is_destination;        // graph output or update
  std::vector<std::vector<NodeId>> reads;  // of a root: the roots and sources that its expression reaches
  std::vector<int> functions;              // of a root: functions like `exp` and `sin` in its expression

  bool in_memory(NodeId id) const {
    return is_root[static_cast<std::size_t>(id)] || is_source[static_cast<std::size_t>(id)];
  }
  /// Appends `root` and what is expanded into it.
  void add_nodes_of(const Graph& graph, NodeId root, std::vector<NodeId>& nodes) const;
};

/// With `enabled` off every computed node is a root. So are the operands of values `alone`, whose kernels compute
/// nothing else.
Roots choose_roots(const Graph& graph, const FuseOptions& options);

}  // namespace wholestep::loops
