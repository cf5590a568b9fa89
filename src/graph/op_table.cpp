#include <fmt/format.h>

#include <algorithm>

#include "graph/op.h"

namespace wholestep {

/// Generated from src/ops/.
void register_all_ops(OpTable& table);

void InferArgs::fail(ErrorCode code, const std::string& message) const {
  std::string types;
  for (const TensorType& type : operands) types += (types.empty() ? "" : ", ") + to_string(type);
  throw Error(code, fmt::format("{}: {} (operands: {})", op, message, types.empty() ? "none" : types));
}

ComputeIn compute_in_of(const OpDef& op) {
  if (op.compute_in) return *op.compute_in;
  switch (op.kind) {
    case OpKind::contraction:
      return ComputeIn::low;
    case OpKind::reduction:
    case OpKind::scatter:
    case OpKind::sequential:
    case OpKind::composite:
      return ComputeIn::full;
    case OpKind::source:
    case OpKind::elementwise:
    case OpKind::view:
      break;
  }
  return ComputeIn::operands;
}

void OpTable::add(OpDef def) {
  const auto at = std::lower_bound(ops_.begin(), ops_.end(), def.name,
                                   [](const auto& op, const std::string& name) { return op->name < name; });
  if (at != ops_.end() && (*at)->name == def.name)
    throw Error(ErrorCode::internal, fmt::format("op '{}' is registered twice", def.name));
  ops_.insert(at, std::make_unique<OpDef>(std::move(def)));
}

const OpDef* OpTable::find(std::string_view name) const {
  const auto at = std::lower_bound(ops_.begin(), ops_.end(), name,
                                   [](const auto& op, std::string_view wanted) { return op->name < wanted; });
  return at != ops_.end() && (*at)->name == name ? at->get() : nullptr;
}

std::vector<const OpDef*> OpTable::all() const {
  std::vector<const OpDef*> ops;
  ops.reserve(ops_.size());
  for (const auto& op : ops_) ops.push_back(op.get());
  return ops;
}

const OpTable& op_table() {
  static const OpTable table = [] {
    OpTable filled;
    register_all_ops(filled);
    return filled;
  }();
  return table;
}

}  // namespace wholestep
