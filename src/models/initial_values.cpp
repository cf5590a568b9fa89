#include <algorithm>
#include <vector>

#include "core/random.h"
#include "wholestep/graph.h"

namespace wholestep {
namespace {

Array initial_value(const Node& param, std::uint64_t seed) {
  const Init init = init_of(param);
  std::vector<double> values(static_cast<std::size_t>(num_elements(param.type.shape)));
  random::Stream stream(seed, random::hash_name(param.name.data(), param.name.size()));
  const auto fill = [&](const auto& next) { std::generate(values.begin(), values.end(), next); };
  switch (init.kind) {
    case Init::Kind::zeros:
      break;
    case Init::Kind::ones:
      fill([] { return 1.0; });
      break;
    case Init::Kind::constant:
      fill([&] { return init.a; });
      break;
    case Init::Kind::uniform:
      fill([&] { return init.a + (init.b - init.a) * stream.uniform(); });
      break;
    case Init::Kind::normal:
      fill([&] { return init.a + init.b * stream.normal(); });
      break;
  }
  return Array::from_doubles(param.type, values);
}

}  // namespace

std::vector<std::string> trainable(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.nodes_of("param")) names.push_back(graph.node(id).name);
  return names;
}

NamedArrays initial_values(const Graph& graph, std::uint64_t seed) {
  NamedArrays values;
  for (const NodeId id : graph.nodes_of("param")) {
    values.emplace_back(graph.node(id).name, initial_value(graph.node(id), seed));
  }
  return values;
}

}  // namespace wholestep
