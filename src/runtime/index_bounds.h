#pragma once
#include <vector>

#include "plan/plan.h"
#include "wholestep/graph.h"

namespace wholestep::runtime {

/// Inputs whose elements are used as indices (labels, rows of a table), directly or through ops that only move them,
/// with the smallest bound that any such use sets. Taken from the graph as written, before composites are replaced.
std::vector<plan::IndexBound> index_bounds(const Graph& graph);

}  // namespace wholestep::runtime
