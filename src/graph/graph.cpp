#include "wholestep/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/convert.h"
#include "graph/init.h"
#include "graph/op.h"

namespace wholestep {
namespace {

std::string describe(std::string_view op, const std::vector<Tensor>& operands) {
  std::vector<std::string> types;
  for (const Tensor& operand : operands) types.push_back(to_string(operand.type()));
  return fmt::format("{}({})", op, fmt::join(types, ", "));
}

const OpDef& find_op(std::string_view name) {
  const OpDef* op = op_table().find(name);
  if (!op) throw Error(ErrorCode::unknown_name, fmt::format("there is no op '{}'", name));
  return *op;
}

/// Checked for the nodes that have no type rule to do it.
void check_type(const std::string& what, const TensorType& type) {
  try {
    num_bytes(type);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", what, error.what()));
  }
}

void check_count(const OpDef& op, const std::vector<Tensor>& operands) {
  const auto given = static_cast<int>(operands.size());
  if (given >= op.min_operands && (op.max_operands < 0 || given <= op.max_operands)) return;
  const std::string expected = op.max_operands < 0 ? fmt::format("at least {}", op.min_operands)
                               : op.min_operands == op.max_operands
                                   ? fmt::format("{}", op.min_operands)
                                   : fmt::format("{} to {}", op.min_operands, op.max_operands);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: expected {} operands, got {}", describe(op.name, operands), expected, given));
}

/// A literal's bytes are those of its type (a default-constructed Array has none).
void check_literals(const std::string& what, const Attrs& attrs) {
  for (const auto& [name, value] : attrs.items()) {
    const auto* literal = std::get_if<Literal>(&value);
    if (literal && (!*literal || (*literal)->bytes() != num_bytes((*literal)->type())))
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: attribute '{}' is an array without data", what, name));
  }
}

/// The attributes in the order of the op's entry, so that equal nodes are written equally.
Attrs in_order(const OpDef& op, const Attrs& given, const std::vector<Tensor>& operands) {
  Attrs ordered;
  for (const AttrSpec& spec : op.attrs)
    if (const AttrValue* value = given.find(spec.name)) ordered.set(spec.name, *value);
  if (ordered.items().size() == given.items().size()) return ordered;
  for (const auto& [name, value] : given.items()) {
    if (!ordered.find(name)) {
      std::vector<std::string_view> known;
      for (const AttrSpec& spec : op.attrs) known.push_back(spec.name);
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: unknown attribute '{}'; it has {}", describe(op.name, operands), name,
                              known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: an attribute is given twice", describe(op.name, operands)));
}

/// What is wrong with the attributes of an op whose type rule could not read one, and which it takes.
std::string attribute_fault(const OpDef& op, const Attrs& given, const std::string& otherwise) {
  std::vector<std::string> missing, taken;
  for (const AttrSpec& spec : op.attrs) {
    if (!given.find(spec.name)) missing.push_back("'" + spec.name + "'");
    taken.push_back(fmt::format("{} ({})", spec.name, spec.doc));
  }
  const std::string what =
      missing.empty() ? otherwise
                      : fmt::format("attribute{} {} missing", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
  return fmt::format("{}; {} takes {}", what, op.name, fmt::join(taken, ", "));
}

}  // namespace

const TensorType& Tensor::type() const {
  if (!graph_) throw Error(ErrorCode::invalid_argument, "a tensor that belongs to no graph was used");
  return graph_->node(id_).type;
}

Graph::Graph(std::string name) : name_(std::move(name)) {}

Tensor Graph::append(Node node) {
  nodes_.push_back(std::move(node));
  return Tensor(this, static_cast<NodeId>(nodes_.size() - 1));
}

void Graph::check_owned(std::string_view what, const Tensor& tensor) const {
  if (!tensor.valid())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a tensor that belongs to no graph (Graph::find gives one for a name that it does not "
                            "have)",
                            what));
  if (&tensor.graph() != this)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a tensor of graph '{}' used in graph '{}'", what, tensor.graph().name(), name_));
  if (tensor.id() < 0 || static_cast<std::size_t>(tensor.id()) >= nodes_.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: graph '{}' has no node {}", what, name_, tensor.id()));
}

Tensor Graph::declare(std::string_view op, const std::string& name, TensorType type, Attrs attrs) {
  attrs.set("dtype", type.dtype);
  attrs.set("shape", type.shape);
  if (name.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} of {}: the name is empty", op, to_string(type)));
  check_type(fmt::format("{} '{}'", op, name), type);
  const OpDef& def = find_op(op);
  const auto [at, added] = names_.emplace(name, static_cast<NodeId>(nodes_.size()));
  if (!added)
    throw Error(ErrorCode::duplicate_name,
                fmt::format("{} '{}' of {}: the name is taken by {} of {}", op, name, to_string(type),
                            node(at->second).op->name, to_string(node(at->second).type)));
  return append({&def, {}, in_order(def, attrs, {}), std::move(type), name});
}

Tensor Graph::input(const std::string& name, Shape shape, DType dtype) {
  return declare("input", name, {dtype, std::move(shape)}, {});
}

Tensor Graph::param(const std::string& name, Shape shape, DType dtype, Init init) {
  Attrs attrs;
  add_init(name, shape, init, attrs);
  return declare("param", name, {dtype, std::move(shape)}, std::move(attrs));
}

Tensor Graph::state(const std::string& name, Shape shape, DType dtype) {
  return declare("state", name, {dtype, std::move(shape)}, {});
}

Tensor Graph::constant(Array value) {
  return apply("constant", {}, {{"value", std::make_shared<const Array>(std::move(value))}});
}

Tensor Graph::constant(double value, DType dtype) {
  if (!is_float(dtype)) {
    const std::int64_t whole = saturate_to_integer(value, dtype);
    if (static_cast<double>(whole) != value)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("constant: {} is not a value of {}", value, to_string(dtype)));
  }
  return constant(Array::from_doubles({dtype, {}}, {&value, 1}));
}

Tensor Graph::full(Shape shape, double value, DType dtype) {
  check_type("full", {dtype, shape});
  const Tensor scalar = constant(value, dtype);
  return shape.empty() ? scalar : apply("broadcast", {scalar}, {{"shape", std::move(shape)}});
}

Tensor Graph::apply(std::string_view name, const std::vector<Tensor>& operands, Attrs attrs) {
  const OpDef& op = find_op(name);
  if (op.kind == OpKind::source && op.name != "constant")
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: declared by Graph::{}, not applied", name, name));
  for (const Tensor& operand : operands) check_owned(name, operand);
  check_count(op, operands);
  Node node;
  node.op = &op;
  node.attrs = in_order(op, attrs, operands);
  check_literals(describe(name, operands), node.attrs);
  std::vector<TensorType> types;
  for (const Tensor& operand : operands) {
    node.operands.push_back(operand.id());
    types.push_back(operand.type());
  }
  try {
    node.type = op.infer({op.name, types, node.attrs});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_graph) throw;
    throw Error(error.code(),
                fmt::format("{}: {}", describe(name, operands), attribute_fault(op, node.attrs, error.what())));
  }
  check_type(describe(name, operands), node.type);
  return append(std::move(node));
}

void Graph::set_outputs(const std::vector<Tensor>& outputs) {
  std::vector<NodeId> ids;
  for (const Tensor& output : outputs) {
    check_owned("set_outputs", output);
    ids.push_back(output.id());
  }
  outputs_ = std::move(ids);
}

void Graph::set_update(Tensor target, Tensor value) {
  check_owned("set_update", target);
  check_owned("set_update", value);
  const Node& place = node(target.id());
  if (place.op->name != "param" && place.op->name != "state")
    throw Error(ErrorCode::not_a_parameter, fmt::format("set_update: the target is {} of {}, expected a param or state",
                                                        place.op->name, to_string(place.type)));
  const TensorType& given = value.type();
  if (given.dtype != place.type.dtype || given.shape != place.type.shape)
    throw Error(given.dtype != place.type.dtype ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
                fmt::format("set_update: {} '{}' is {}, the new value {}", place.op->name, place.name,
                            to_string(place.type), to_string(given)));
  const auto [at, added] = update_of_.emplace(target.id(), updates_.size());
  if (added)
    updates_.push_back({target.id(), value.id()});
  else
    updates_[at->second].value = value.id();
}

Tensor Graph::find(std::string_view name) {
  const NodeId id = find_id(name);
  return id < 0 ? Tensor() : Tensor(this, id);
}

NodeId Graph::find_id(std::string_view name) const {
  const auto at = names_.find(name);
  return at == names_.end() ? -1 : at->second;
}

std::vector<NodeId> Graph::nodes_of(std::string_view op) const {
  std::vector<NodeId> ids;
  for (std::size_t id = 0; id < nodes_.size(); ++id)
    if (nodes_[id].op->name == op) ids.push_back(static_cast<NodeId>(id));
  return ids;
}

bool Graph::operator==(const Graph& other) const {
  const auto same_node = [](const Node& a, const Node& b) {
    return a.op == b.op && a.operands == b.operands && a.type == b.type && a.name == b.name && a.attrs == b.attrs;
  };
  const auto same_update = [](const Update& a, const Update& b) { return a.target == b.target && a.value == b.value; };
  return name_ == other.name_ && outputs_ == other.outputs_ &&
         std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(), same_node) &&
         std::equal(updates_.begin(), updates_.end(), other.updates_.begin(), other.updates_.end(), same_update);
}

}  // namespace wholestep
