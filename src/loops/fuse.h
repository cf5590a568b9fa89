#pragma once
// Graph to kernels: which values are kept in memory, and which are computed together.
#include <string>
#include <vector>

#include "loops/kernel.h"
#include "wholestep/graph.h"

namespace wholestep::loops {

struct FuseOptions {
  bool enabled = true;        // off: every op is a kernel
  std::vector<NodeId> alone;  // values whose kernel computes nothing else, from operands in memory
  bool pairs = false;         // products of widened bf16 read the bf16 (schedule::Target::multiplies_pairs)
};

/// `graph` holds primitives only. The kernels are in an order in which each reads only what earlier ones, and sources,
/// hold.
std::vector<Kernel> fuse(const Graph& graph, const FuseOptions& options);

/// Graph to graph, so that contractions read unit-stride rows and destinations are distinct computed values:
/// transposes an operand where a matrix product would read it column by column, and copies sources that are outputs.
Graph prepare(const Graph& graph);

/// Whether the row-major position of an element of `to` is an affine function of its index in `from`'s own dimensions,
/// that is, whether `from` is nowhere finer than `to`.
bool reshape_is_affine(const Shape& to, const Shape& from);
/// Index in `from` of the element at `at` in `to`. Needs reshape_is_affine.
Index reshape_index(const Index& at, const Shape& to, const Shape& from);

/// Extents without the ones.
std::vector<std::int64_t> squeeze(const Shape& shape);

}  // namespace wholestep::loops
