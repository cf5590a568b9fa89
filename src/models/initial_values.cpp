#include <fmt/format.h>

#include <vector>

#include "core/random.h"
#include "wholestep/error.h"
#include "wholestep/graph.h"

namespace wholestep {
namespace {

Array initial_value(const Node& param, std::uint64_t seed) {
  const std::string& init = param.attrs.get<std::string>("init");
  const double a = param.attrs.get<double>("a");
  const double b = param.attrs.get<double>("b");
  std::vector<double> values(static_cast<std::size_t>(num_elements(param.type.shape)));
  random::Stream stream(seed, random::hash_name(param.name.data(), param.name.size()));
  if (init == "ones") {
    values.assign(values.size(), 1.0);
  } else if (init == "constant") {
    values.assign(values.size(), a);
  } else if (init == "uniform") {
    for (double& value : values) value = a + (b - a) * stream.uniform();
  } else if (init == "normal") {
    for (double& value : values) value = a + b * stream.normal();
  } else if (init != "zeros") {
    throw Error(ErrorCode::invalid_graph, fmt::format("parameter \"{}\": init \"{}\" is not zeros, ones, constant, "
                                                      "uniform or normal",
                                                      param.name, init));
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
