// What a legal graph is.
#include <fmt/format.h>

#include <set>

#include "graph/op.h"
#include "graph/text.h"

namespace wholestep {
namespace {

[[noreturn]] void reject(const Graph& graph, const std::string& message) {
  throw Error(ErrorCode::invalid_graph, fmt::format("graph '{}': {}", graph.name(), message));
}

bool has_node(const Graph& graph, NodeId id) { return id >= 0 && static_cast<std::size_t>(id) < graph.nodes().size(); }

class NodeCheck {
 public:
  NodeCheck(const Graph& graph, NodeId id) : graph_(graph), id_(id), node_(graph.node(id)) {}

  void run() const {
    require(node_.op && op_table().find(node_.op->name) == node_.op, "its op is not in the op table");
    check_operands();
    check_attrs();
    check_name();
    check_type();
  }

 private:
  void require(bool holds, const std::string& message) const {
    if (holds) return;
    reject(graph_, fmt::format("%{} ({}): {}", id_, node_.op ? node_.op->name : "no op", message));
  }

  void check_operands() const {
    const OpDef& op = *node_.op;
    const auto count = static_cast<int>(node_.operands.size());
    require(count >= op.min_operands && (op.max_operands < 0 || count <= op.max_operands),
            fmt::format("it has {} operands, expected {} to {}", count, op.min_operands,
                        op.max_operands < 0 ? "any" : std::to_string(op.max_operands)));
    for (NodeId operand : node_.operands)
      require(operand >= 0 && operand < id_, fmt::format("operand %{} does not come before it", operand));
  }

  void check_attrs() const {
    std::set<std::string_view> known;
    for (const AttrSpec& spec : node_.op->attrs) known.insert(spec.name);
    std::set<std::string_view> seen;
    for (const auto& [name, value] : node_.attrs.items()) {
      require(known.count(name) == 1, fmt::format("unknown attribute '{}'", name));
      require(seen.insert(name).second, fmt::format("attribute '{}' is given twice", name));
      const auto* literal = std::get_if<Literal>(&value);
      require(!literal || *literal, fmt::format("attribute '{}' is a literal without data", name));
    }
  }

  void check_name() const {
    if (!text::is_named(*node_.op)) return require(node_.name.empty(), fmt::format("it has a name, '{}'", node_.name));
    require(!node_.name.empty(), "its name is empty");
    require(graph_.find_id(node_.name) == id_, fmt::format("the name '{}' is that of another node", node_.name));
  }

  void check_type() const {
    std::vector<TensorType> types;
    for (NodeId operand : node_.operands) types.push_back(graph_.node(operand).type);
    try {
      const TensorType inferred = node_.op->infer({node_.op->name, types, node_.attrs});
      require(inferred == node_.type,
              fmt::format("its type is {}, the type rule gives {}", to_string(node_.type), to_string(inferred)));
      num_bytes(node_.type);
      if (node_.op->name == "param") init_of(node_);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::invalid_graph) throw;
      require(false, error.what());
    }
  }

  const Graph& graph_;
  NodeId id_;
  const Node& node_;
};

}  // namespace

void verify(const Graph& graph) {
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) NodeCheck(graph, static_cast<NodeId>(id)).run();
  for (NodeId output : graph.outputs())
    if (!has_node(graph, output)) reject(graph, fmt::format("output %{} is not a node", output));
  std::set<NodeId> updated;
  for (const Update& update : graph.updates()) {
    if (!has_node(graph, update.target) || !has_node(graph, update.value))
      reject(graph, fmt::format("update %{} = %{} names no node", update.target, update.value));
    const Node& target = graph.node(update.target);
    if (target.op->name != "param" && target.op->name != "state")
      reject(graph, fmt::format("update of %{}, which is {} and not a param or state", update.target, target.op->name));
    if (target.type != graph.node(update.value).type)
      reject(graph, fmt::format("update of '{}', {}, with {}", target.name, to_string(target.type),
                                to_string(graph.node(update.value).type)));
    if (!updated.insert(update.target).second) reject(graph, fmt::format("'{}' is updated twice", target.name));
  }
}

}  // namespace wholestep
