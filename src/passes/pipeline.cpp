#include <fmt/format.h>

#include <algorithm>

#include "passes/passes.h"

namespace wholestep::passes {

namespace {

// A pass that has nothing to report.
auto quiet(Graph (*run)(const Graph&)) {
  return [run](const Graph& graph, Report&) { return run(graph); };
}

}  // namespace

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"eliminate_dead", quiet(eliminate_dead)},
      {"simplify", quiet(simplify)},
      {"share_common", quiet(share_common)},
      {"decompose", [](const Graph& graph, Report& report) { return decompose(graph, {}, &report); }},
      {"simplify_primitives", quiet(simplify)},
      {"share_primitives", quiet(share_common)},
      {"eliminate_unused", quiet(eliminate_dead)},
      {"widen_products", quiet(widen_products), true},
      {"turn_products", quiet(turn_products)},
      {"split_depth", quiet(split_depth)},
      {"split_reductions", quiet(split_reductions)},
  };
  return passes;
}

Graph run_pipeline(const Graph& graph, const std::string& last, bool verify_each) {
  const std::vector<Pass>& passes = pipeline();
  const auto named = [&](const Pass& pass) { return pass.name == last; };
  if (!last.empty() && std::none_of(passes.begin(), passes.end(), named)) {
    std::string names;
    for (const Pass& pass : passes) names += (names.empty() ? "" : ", ") + pass.name;
    throw Error(ErrorCode::unknown_name, fmt::format("there is no pass '{}'; the passes are {}", last, names));
  }
  Graph current = graph;
  Report report;
  if (verify_each) verify(current);
  for (const Pass& pass : passes) {
    current = pass.run(current, report);
    if (verify_each) verify(current);
    if (pass.name == last) break;
  }
  return current;
}

}  // namespace wholestep::passes
