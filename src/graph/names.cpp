#include "graph/names.h"

#include <fmt/format.h>

#include "graph/op.h"
#include "wholestep/error.h"

namespace wholestep {

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 20;
  if (names.empty()) return "none";
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

std::string list_names(const Graph& graph, std::string_view kind) {
  std::vector<std::string> names;
  for (const NodeId id : graph.nodes_of(kind)) names.push_back(graph.node(id).name);
  return list_names(names);
}

bool is_param(const Graph& graph, std::string_view name) {
  const NodeId id = graph.find_id(name);
  return id >= 0 && graph.node(id).op->name == "param";
}

void check_param(const Graph& graph, std::string_view name) {
  if (is_param(graph, name)) return;
  throw Error(ErrorCode::unknown_name, fmt::format("{}: no parameter is called \"{}\"; parameters: {}", graph.name(),
                                                   name, list_names(graph, "param")));
}

}  // namespace wholestep
