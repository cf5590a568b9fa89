#pragma once
// One graph on a device and on the reference interpreter, and where they differ, the smallest part that shows it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/reference/interpreter.h"
#include "wholestep/session.h"

namespace wholestep::testing {

/// What a run leaves behind: the outputs, then every parameter and state that has an update.
using Results = std::vector<Array>;

inline Results run_on(const Device& device, CompileOptions options, const Graph& graph, const NamedArrays& values) {
  options.disk_cache = false;
  options.verify = true;
  options.flush_subnormals = false;  // the reference keeps them
  CompiledGraph program = Session(device).compile(graph, options);
  Inputs inputs;
  for (const auto& [name, array] : values) {
    const NodeId id = graph.find_id(name);
    if (id < 0) continue;
    if (graph.node(id).op->name == "input") {
      inputs.emplace_back(name, array);
    } else {
      program.set_param(name, array);
    }
  }
  Results results = program.run(inputs);
  for (const Update& update : graph.updates()) results.push_back(program.get_param(graph.node(update.target).name));
  return results;
}

inline std::vector<HostValue> interpret(const Graph& graph, const NamedArrays& values, bool f64) {
  std::map<std::string, HostValue, std::less<>> given;
  for (const auto& [name, array] : values) given.emplace(name, reference::to_host_value(array));
  const auto lookup = [&](std::string_view name) {
    const auto at = given.find(name);
    return at == given.end() ? nullptr : &at->second;
  };
  reference::Result result = reference::interpret(graph, lookup, {.f64 = f64});
  std::move(result.updates.begin(), result.updates.end(), std::back_inserter(result.outputs));
  return std::move(result.outputs);
}

/// What the interpreter says, and how far a device may be from it.
struct Expected {
  std::vector<HostValue> values;   // floats rounded to their dtype after each op
  std::vector<double> tolerances;  // per result, absolute; 0 for integers and booleans
};

/// The largest finite magnitude of any value of the graph.
inline double scale_of(Graph graph, const NamedArrays& values) {
  std::vector<Tensor> all;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (is_float(graph.node(id).type.dtype)) all.push_back(graph.tensor(id));
  }
  graph.set_outputs(all);
  double scale = 0;
  for (const HostValue& value : interpret(graph, values, false)) {
    for (const double x : value.real) scale = std::isfinite(x) ? std::max(scale, std::abs(x)) : scale;
  }
  return scale;
}

/// A device accumulates and rounds in another order. How much that may show follows from how much it shows in the
/// interpreter, when it keeps every value in double precision: 16 times the largest difference within a result, plus
/// some units in the last place of its largest element. The former is at most a hundredth of that element (a tenth for
/// graphs with bf16 or f16), or a hundred-thousandth of the largest value of the graph, for results that are what is
/// left of terms that cancel.
inline Expected expect(const Graph& graph, const NamedArrays& values) {
  Expected expected{interpret(graph, values, false), {}};
  const std::vector<HostValue> precise = interpret(graph, values, true);
  const double scale = scale_of(graph, values);
  bool half = false;
  for (const Node& node : graph.nodes()) half = half || node.type.dtype == bf16 || node.type.dtype == f16;
  for (std::size_t i = 0; i < precise.size(); ++i) {
    const HostValue& value = expected.values[i];
    double largest = 0, difference = 0;
    for (std::int64_t j = 0; j < value.size(); ++j) {
      if (!std::isfinite(value.at(j)) || !std::isfinite(precise[i].at(j))) continue;
      largest = std::max(largest, std::abs(value.at(j)));
      difference = std::max(difference, std::abs(value.at(j) - precise[i].at(j)));
    }
    const double units = value.type.dtype == bf16 ? 0x1p-6 : value.type.dtype == f16 ? 0x1p-9 : 4e-6;
    const double most = std::max((half ? 0.1 : 0.01) * largest, 1e-5 * scale);
    const bool exact = !is_float(value.type.dtype);
    expected.tolerances.push_back(exact ? 0 : std::min(16 * difference, most) + units * largest + 1e-30);
  }
  return expected;
}

/// The first difference, in words; empty where there is none.
inline std::string difference(const Expected& expected, const Results& actual) {
  if (actual.size() != expected.values.size()) return "another number of results";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const HostValue& wanted = expected.values[i];
    if (actual[i].type() != wanted.type) return "result " + std::to_string(i) + " is " + to_string(actual[i].type());
    const HostValue given = reference::to_host_value(actual[i]);
    for (std::int64_t j = 0; j < wanted.size(); ++j) {
      const double a = given.at(j), b = wanted.at(j);
      const bool same = is_float(wanted.type.dtype)
                            ? (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= expected.tolerances[i]
                            : given.integer[static_cast<std::size_t>(j)] == wanted.integer[static_cast<std::size_t>(j)];
      if (!same) {
        return fmt::format("result {} {} element {}: {:.9g}, expected {:.9g} within {:.3g}", i, to_string(wanted.type),
                           j, a, b, expected.tolerances[i]);
      }
    }
  }
  return {};
}

/// Part of a graph: some of its outputs and updates, and what they are computed from. Nodes in `given` become inputs.
struct Part {
  std::vector<NodeId> outputs;
  std::vector<Update> updates;
  std::set<NodeId> given;
};

inline std::string given_name(NodeId id) { return "v" + std::to_string(id); }

inline Graph cut_out(const Graph& graph, const Part& part) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const NodeId id : part.outputs) needed[static_cast<std::size_t>(id)] = true;
  for (const Update& update : part.updates) {
    needed[static_cast<std::size_t>(update.target)] = needed[static_cast<std::size_t>(update.value)] = true;
  }
  for (auto id = static_cast<NodeId>(needed.size()); id-- > 0;) {
    if (!needed[static_cast<std::size_t>(id)] || part.given.contains(id)) continue;
    for (const NodeId operand : graph.node(id).operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  Graph cut(graph.name());
  std::vector<Tensor> made(graph.nodes().size());
  const auto copy = [&](NodeId id) -> Tensor {
    const Node& node = graph.node(id);
    const auto& [dtype, shape] = node.type;
    if (part.given.contains(id)) return cut.input(given_name(id), shape, dtype);
    if (node.op->name == "input") return cut.input(node.name, shape, dtype);
    if (node.op->name == "param") return cut.param(node.name, shape, dtype);
    if (node.op->name == "state") return cut.state(node.name, shape, dtype);
    std::vector<Tensor> operands;
    for (const NodeId operand : node.operands) operands.push_back(made[static_cast<std::size_t>(operand)]);
    return cut.apply(node.op->name, operands, node.attrs);
  };
  for (NodeId id = 0; id < static_cast<NodeId>(needed.size()); ++id) {
    if (needed[static_cast<std::size_t>(id)]) made[static_cast<std::size_t>(id)] = copy(id);
  }
  std::vector<Tensor> outputs;
  for (const NodeId id : part.outputs) outputs.push_back(made[static_cast<std::size_t>(id)]);
  cut.set_outputs(outputs);
  for (const Update& update : part.updates) {
    cut.set_update(made[static_cast<std::size_t>(update.target)], made[static_cast<std::size_t>(update.value)]);
  }
  return cut;
}

/// The text of a small part of `graph` for which `differs` still holds: first outputs and updates are left out, then
/// nodes are replaced by inputs with the values that the interpreter gives them.
template <class Differs>
std::string minimised(const Graph& graph, NamedArrays values, const Differs& differs) {
  Part part{graph.outputs(), graph.updates(), {}};
  const auto try_part = [&](Part smaller) {
    if (smaller.outputs.empty() || !differs(cut_out(graph, smaller), values)) return false;
    part = std::move(smaller);
    return true;
  };
  for (const NodeId output : graph.outputs()) {
    if (try_part({{output}, {}, {}})) break;
  }
  for (std::size_t i = part.updates.size(); i-- > 0;) {
    Part smaller = part;
    smaller.updates.erase(smaller.updates.begin() + static_cast<std::ptrdiff_t>(i));
    try_part(std::move(smaller));
  }
  for (std::size_t i = part.outputs.size(); i-- > 0;) {
    Part smaller = part;
    smaller.outputs.erase(smaller.outputs.begin() + static_cast<std::ptrdiff_t>(i));
    try_part(std::move(smaller));
  }
  for (auto id = static_cast<NodeId>(graph.nodes().size()); id-- > 0;) {
    const Graph now = cut_out(graph, part);
    Part smaller = part;
    smaller.given.insert(id);
    if (graph.node(id).op->kind == OpKind::source || cut_out(graph, smaller).nodes().size() >= now.nodes().size())
      continue;
    if (std::find(part.outputs.begin(), part.outputs.end(), id) != part.outputs.end()) continue;
    Graph until = graph;
    until.set_outputs({until.tensor(id)});
    values.emplace_back(given_name(id), reference::to_array(interpret(until, values, false)[0]));
    try_part(std::move(smaller));
  }
  return cut_out(graph, part).to_text();
}

}  // namespace wholestep::testing
