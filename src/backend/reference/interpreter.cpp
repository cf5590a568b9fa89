#include "backend/reference/interpreter.h"

#include <fmt/format.h>

#include <memory>

#include "core/convert.h"

namespace wholestep::reference {
namespace {

/// Brings the results of an evaluation rule to values of the dtype.
void settle(HostValue& value, const Options& options) {
  const DType dtype = value.type.dtype;
  if (is_float(dtype)) {
    if (options.f64 || dtype == DType::f64) return;
    for (double& x : value.real) x = round_to_float(x, dtype);
  } else if (dtype != DType::i64) {
    for (std::int64_t& x : value.integer) x = wrap_to_integer(x, dtype);
  }
}

void check_given(const Node& node, const HostValue& given) {
  if (given.type == node.type) return;
  throw Error(
      given.type.dtype != node.type.dtype ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
      fmt::format("{} '{}' is {}, got {}", node.op->name, node.name, to_string(node.type), to_string(given.type)));
}

const HostValue& given_value(const Node& node, const Lookup& values) {
  const HostValue* given = values(node.name);
  if (!given)
    throw Error(ErrorCode::missing_input,
                fmt::format("no value for {} '{}' of {}", node.op->name, node.name, to_string(node.type)));
  check_given(node, *given);
  return *given;
}

/// A value of a node: computed here, or the caller's own.
struct Value {
  std::unique_ptr<const HostValue> own;
  const HostValue* at = nullptr;
};

HostValue evaluate_node(const Node& node, const std::vector<Value>& values) {
  if (!node.op->evaluate)
    throw Error(ErrorCode::internal, fmt::format("op '{}' has no reference evaluation", node.op->name));
  HostValue result(node.type);
  std::vector<const HostValue*> operands;
  for (NodeId id : node.operands) operands.push_back(values[static_cast<std::size_t>(id)].at);
  node.op->evaluate({node, std::move(operands), result});
  return result;
}

/// How many readers each node has, outputs and updates included.
std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.nodes().size());
  for (const Node& node : graph.nodes())
    for (NodeId id : node.operands) ++readers[static_cast<std::size_t>(id)];
  for (NodeId id : graph.outputs()) ++readers[static_cast<std::size_t>(id)];
  for (const Update& update : graph.updates()) ++readers[static_cast<std::size_t>(update.value)];
  return readers;
}

}  // namespace

Result interpret(const Graph& graph, const Lookup& lookup, Options options) {
  std::vector<int> readers = count_readers(graph);
  std::vector<Value> values(graph.nodes().size());
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Node& node = graph.nodes()[id];
    const bool given = node.op->kind == OpKind::source && node.op->name != "constant";
    const HostValue* at = given ? &given_value(node, lookup) : nullptr;
    if (readers[id] == 0) continue;
    Value& value = values[id];
    if (given && !is_float(node.type.dtype)) {
      value.at = at;
    } else {
      auto made =
          std::make_unique<HostValue>(given                         ? *at
                                      : node.op->name == "constant" ? to_host_value(*node.attrs.get<Literal>("value"))
                                                                    : evaluate_node(node, values));
      settle(*made, options);
      value.at = made.get();
      value.own = std::move(made);
    }
    for (NodeId operand : node.operands)
      if (--readers[static_cast<std::size_t>(operand)] == 0) values[static_cast<std::size_t>(operand)] = {};
  }
  Result result;
  for (NodeId id : graph.outputs()) result.outputs.push_back(*values[static_cast<std::size_t>(id)].at);
  for (const Update& update : graph.updates())
    result.updates.push_back(*values[static_cast<std::size_t>(update.value)].at);
  return result;
}

HostValue to_host_value(const ArrayView& array) {
  HostValue value(array.type);
  if (array.bytes != num_bytes(array.type))
    throw Error(ErrorCode::wrong_length,
                fmt::format("{} takes {} bytes, got {}", to_string(array.type), num_bytes(array.type), array.bytes));
  const DType dtype = array.type.dtype;
  for (std::int64_t i = 0; i < value.size(); ++i) {
    if (is_float(dtype))
      value.real[static_cast<std::size_t>(i)] = load_real(array.data, i, dtype);
    else
      value.integer[static_cast<std::size_t>(i)] = load_integer(array.data, i, dtype);
  }
  return value;
}

Array to_array(const HostValue& value) {
  Array array(value.type);
  const DType dtype = value.type.dtype;
  for (std::int64_t i = 0; i < value.size(); ++i) {
    if (is_float(dtype))
      store_real(array.data(), i, dtype, value.real[static_cast<std::size_t>(i)]);
    else
      store_integer(array.data(), i, dtype, value.integer[static_cast<std::size_t>(i)]);
  }
  return array;
}

}  // namespace wholestep::reference
