#pragma once
// Graph-to-graph passes, and the order in which a program takes them.
#include <functional>
#include <string>
#include <vector>

#include "wholestep/graph.h"
#include "wholestep/session.h"

namespace wholestep::passes {

/// Removes nodes that no output and no update needs. Inputs, parameters and states stay: they are the program's
/// signature.
Graph eliminate_dead(const Graph& graph);
/// Gives equal nodes one id.
Graph share_common(const Graph& graph);
/// Algebra that changes no bits of any result, NaN, infinity and signed zero included, by the rule table in
/// simplify.cpp.
Graph simplify(const Graph& graph);
/// What passes tell of themselves in the report of a program.
struct Report {
  std::vector<std::string> decomposed;  // the op of each composite that was replaced
};

/// Replaces composites by primitives, those for which `keep` is true excepted.
Graph decompose(const Graph& graph, const std::function<bool(const OpDef&)>& keep = {}, Report* report = nullptr);

/// Makes products of bf16 and f16 matrices f32 products of widened operands, rounded to the type that they had.
Graph widen_products(const Graph& graph);
/// Swaps the operands of matrix products whose second one is large and stored transposed.
Graph turn_products(const Graph& graph);
/// Cuts float matrix products whose depth is large beside their result into pieces along the depth, and sums these.
Graph split_depth(const Graph& graph);
/// Makes reductions of many elements to a few results two: to partial results, then to these.
Graph split_reductions(const Graph& graph);

/// Has f32 values computed as `precision` says, by `compute_in_of` each op; casts where types meet. The signature,
/// outputs and updates keep their types. Not of the pipeline: what it gives is the graph that a program is compiled
/// from.
Graph apply_precision(const Graph& graph, Precision precision);

struct Pass {
  std::string name;
  std::function<Graph(const Graph&, Report&)> run;
  bool widens = false;  // left out for devices that multiply bf16 and f16 themselves
};

/// What every program goes through, in order. After it, only primitives are left.
const std::vector<Pass>& pipeline();
/// The graph after the pass called `last` (all of them where empty). Throws `unknown_name` listing the passes.
Graph run_pipeline(const Graph& graph, const std::string& last = {}, bool verify_each = false);

}  // namespace wholestep::passes
