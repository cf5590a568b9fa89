#pragma once
// One graph on a device and on the reference interpreter, and where they differ, the smallest part that shows it.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/reference/interpreter.h"
#include "wholestep/session.h"

namespace wholestep::testing {

/// What a run leaves behind: the outputs, then every parameter and state that has an update.
using Results = std::vector<Array>;

inline Results run_on(const Device& device, bool fusion, const Graph& graph, const NamedArrays& values) {
  const CompileOptions options{.fusion = fusion, .disk_cache = false, .verify = true};
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

/// A device accumulates and rounds in another order. How much that may show follows from how much it shows in the
/// interpreter, when it keeps every value in double precision: 16 times the largest difference within a result, plus
/// some units in the last place of its largest element; at most a hundredth of that element (a tenth for bf16 and f16).
inline Expected expect(const Graph& graph, const NamedArrays& values) {
  Expected expected{interpret(graph, values, false), {}};
  const std::vector<HostValue> precise = interpret(graph, values, true);
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
    const double most = (half ? 0.1 : 0.01) * largest;
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
        return "result " + std::to_string(i) + " " + to_string(wanted.type) + " element " + std::to_string(j) + ": " +
               std::to_string(a) + ", expected " + std::to_string(b) + " within " +
               std::to_string(expected.tolerances[i]);
      }
    }
  }
  return {};
}

/// The nodes that node `root` needs, as a graph of its own with `root` as output. Nodes for which `given` is true
/// become inputs.
template <class Given>
Graph cut_out(const Graph& graph, NodeId root, const Given& given) {
  std::vector<bool> needed(graph.nodes().size(), false);
  needed[static_cast<std::size_t>(root)] = true;
  for (NodeId id = root; id >= 0; --id) {
    if (!needed[static_cast<std::size_t>(id)] || given(id)) continue;
    for (const NodeId operand : graph.node(id).operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  Graph cut(graph.name());
  std::vector<Tensor> made(graph.nodes().size());
  for (NodeId id = 0; id <= root; ++id) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    const Node& node = graph.node(id);
    Tensor& value = made[static_cast<std::size_t>(id)];
    if (given(id)) {
      value = cut.input("v" + std::to_string(id), node.type.shape, node.type.dtype);
    } else if (node.name.empty()) {
      std::vector<Tensor> operands;
      for (const NodeId operand : node.operands) operands.push_back(made[static_cast<std::size_t>(operand)]);
      value = cut.apply(node.op->name, operands, node.attrs);
    } else {
      value = node.op->name == "input" ? cut.input(node.name, node.type.shape, node.type.dtype)
                                       : cut.param(node.name, node.type.shape, node.type.dtype);
    }
  }
  cut.set_outputs({made[static_cast<std::size_t>(root)]});
  return cut;
}

/// The text of the smallest part of `graph` found for which `differs` holds: the first node that differs, alone on the
/// values that the interpreter gives it where that is enough, else with all that it is computed from.
template <class Differs>
std::string minimised(const Graph& graph, const NamedArrays& values, const Differs& differs) {
  const auto none = [](NodeId) { return false; };
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Graph part = cut_out(graph, id, none);
    if (graph.node(id).op->kind == OpKind::source || !differs(part, values)) continue;
    NamedArrays operands;
    for (const NodeId operand : graph.node(id).operands) {
      const std::string name = "v" + std::to_string(operand);
      if (find(operands, name)) continue;
      operands.emplace_back(name, reference::to_array(interpret(cut_out(graph, operand, none), values, false)[0]));
    }
    const Graph alone = cut_out(graph, id, [&](NodeId other) { return other != id; });
    return differs(alone, operands) ? alone.to_text() : part.to_text();
  }
  return graph.to_text();
}

}  // namespace wholestep::testing
