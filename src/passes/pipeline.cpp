#include <fmt/format.h>

#include <algorithm>

#include "passes/passes.h"

namespace wholestep::passes {

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
      {"eliminate_dead", eliminate_dead},   {"simplify", simplify},
      {"share_common", share_common},       {"decompose", [](const Graph& graph) { return decompose(graph); }},
      {"simplify_primitives", simplify},    {"share_primitives", share_common},
      {"eliminate_unused", eliminate_dead}, {"widen_products", widen_products, true},
      {"split_depth", split_depth},
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
  if (verify_each) verify(current);
  for (const Pass& pass : passes) {
    current = pass.run(current);
    if (verify_each) verify(current);
    if (pass.name == last) break;
  }
  return current;
}

}  // namespace wholestep::passes
