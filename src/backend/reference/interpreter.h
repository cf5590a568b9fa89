#pragma once
// The reference interpreter: one node after another, in double precision, by the op table's own evaluation rules.
// It defines what is right; nothing about it is fast.
#include <functional>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace wholestep::reference {

struct Options {
  bool f64 = false;  // keep floats in double instead of rounding each result to its dtype
};

struct Result {
  std::vector<HostValue> outputs;  // in the order of graph.outputs()
  std::vector<HostValue> updates;  // in the order of graph.updates()
};

/// Values of inputs, parameters and states by name, which live until the call returns, integers as their dtype holds
/// them; nullptr where there is none (throws `missing_input`).
using Lookup = std::function<const HostValue*(std::string_view name)>;

/// Evaluates `graph`, composites by their own `evaluate`. Throws `missing_input`, `shape_mismatch`, `dtype_mismatch`.
Result interpret(const Graph& graph, const Lookup& values, Options options = {});

HostValue to_host_value(const ArrayView& array);
/// Rounds to the dtype.
Array to_array(const HostValue& value);

}  // namespace wholestep::reference
