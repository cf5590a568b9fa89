#include "passes/pattern.h"

#include <fmt/format.h>

#include <bit>

#include "core/convert.h"
#include "graph/op.h"

namespace wholestep::passes {
namespace {

std::string to_string(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::variable) return std::string(1, "xyz"[pattern.variable]);
  if (pattern.kind == Pattern::Kind::constant) return fmt::format("{}", pattern.value);
  std::string text = pattern.op + "(";
  for (std::size_t i = 0; i < pattern.operands.size(); ++i)
    text += (i > 0 ? ", " : "") + to_string(pattern.operands[i]);
  return text + ")";
}

/// Whether every element of `tensor` is a constant with the bits of `value`.
bool is_splat(const Tensor& tensor, double value) {
  const Node* node = &tensor.graph().node(tensor.id());
  while (node->op->name == "broadcast" || node->op->name == "reshape" || node->op->name == "transpose")
    node = &tensor.graph().node(node->operands[0]);
  if (node->op->name != "constant") return false;
  const Array& array = *node->attrs.get<Literal>("value");
  for (std::int64_t i = 0; i < array.size(); ++i) {
    const double element = load_real(array.data(), i, array.dtype());
    if (std::bit_cast<std::uint64_t>(element) != std::bit_cast<std::uint64_t>(value)) return false;
  }
  return array.size() > 0;
}

bool match(const Pattern& pattern, const Tensor& tensor, Match& found);

bool match_all(const std::vector<Pattern>& patterns, const std::vector<Tensor>& tensors, Match& found) {
  if (patterns.size() != tensors.size()) return false;
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (!match(patterns[i], tensors[i], found)) return false;
  return true;
}

bool match(const Pattern& pattern, const Tensor& tensor, Match& found) {
  switch (pattern.kind) {
    case Pattern::Kind::variable: {
      Tensor& bound = found.variables[static_cast<std::size_t>(pattern.variable)];
      if (!bound.valid()) bound = tensor;
      return bound.id() == tensor.id();
    }
    case Pattern::Kind::constant:
      return is_splat(tensor, pattern.value);
    case Pattern::Kind::op:
      break;
  }
  const Node& node = tensor.graph().node(tensor.id());
  if (node.op->name != pattern.op) return false;
  found.inner = node.attrs;
  std::vector<Tensor> operands;
  for (NodeId id : node.operands) operands.push_back(tensor.graph().tensor(id));
  return match_all(pattern.operands, operands, found);
}

}  // namespace

std::string to_string(const Rule& rule) { return to_string(rule.left) + " = " + to_string(rule.right); }

RuleSet::RuleSet(std::vector<Rule> rules) : rules_(std::move(rules)) {
  for (std::size_t i = 0; i < rules_.size(); ++i) by_op_[rules_[i].left.op].push_back(i);
}

Tensor RuleSet::emit(Graph& graph, const std::string& op, const std::vector<Tensor>& operands, const Attrs& attrs,
                     const TensorType& type) const {
  const auto candidates = by_op_.find(op);
  if (candidates != by_op_.end()) {
    for (std::size_t i : candidates->second) {
      const Rule& rule = rules_[i];
      Match found;
      found.type = type;
      found.outer = attrs;
      if (!match_all(rule.left.operands, operands, found) || (rule.when && !rule.when(found))) continue;
      const auto value = [&](const Pattern& variable) {
        return found.variables[static_cast<std::size_t>(variable.variable)];
      };
      if (rule.right.kind == Pattern::Kind::variable) return value(rule.right);
      std::vector<Tensor> terms;
      for (const Pattern& term : rule.right.operands) terms.push_back(value(term));
      return emit(graph, rule.right.op, terms, rule.attrs ? rule.attrs(found) : Attrs(), type);
    }
  }
  return graph.apply(op, operands, attrs);
}

}  // namespace wholestep::passes
