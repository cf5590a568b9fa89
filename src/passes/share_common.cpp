#include <bit>
#include <functional>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/rebuild.h"

namespace wholestep::passes {
namespace {

std::size_t mix(std::size_t seed, std::size_t value) {
  return (seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2))) * 0xff51afd7ed558ccdULL;
}

struct HashValue {
  std::size_t operator()(bool value) const { return value; }
  std::size_t operator()(std::int64_t value) const { return static_cast<std::size_t>(value); }
  std::size_t operator()(double value) const { return std::bit_cast<std::uint64_t>(value); }
  std::size_t operator()(const std::string& value) const { return std::hash<std::string>{}(value); }
  std::size_t operator()(DType value) const { return static_cast<std::size_t>(value); }
  std::size_t operator()(const std::vector<std::int64_t>& values) const {
    std::size_t seed = values.size();
    for (std::int64_t value : values) seed = mix(seed, static_cast<std::size_t>(value));
    return seed;
  }
  std::size_t operator()(const Literal& value) const {
    return std::hash<std::string_view>{}({static_cast<const char*>(value->data()), value->bytes()});
  }
};

std::size_t hash(const Node& node, const std::vector<Tensor>& operands) {
  std::size_t seed = std::hash<const void*>{}(node.op);
  for (const Tensor& operand : operands) seed = mix(seed, static_cast<std::size_t>(operand.id()));
  // A sum, since attributes may come in any order.
  std::size_t attrs = 0;
  for (const auto& [name, value] : node.attrs.items())
    attrs += mix(std::hash<std::string>{}(name), std::visit(HashValue{}, value));
  return mix(seed, attrs);
}

bool same(const Node& a, const Node& b, const std::vector<Tensor>& operands_of_b) {
  if (a.op != b.op || a.operands.size() != operands_of_b.size()) return false;
  for (std::size_t i = 0; i < a.operands.size(); ++i)
    if (a.operands[i] != operands_of_b[i].id()) return false;
  return a.attrs == b.attrs;
}

}  // namespace

Graph share_common(const Graph& graph) {
  Rebuild rebuild(graph);
  std::unordered_multimap<std::size_t, NodeId> seen;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    if (is_signature(node)) {
      rebuild.set(id, rebuild.copy(id));
      continue;
    }
    const std::vector<Tensor> operands = rebuild.operands(id);
    const std::size_t key = hash(node, operands);
    const auto [first, last] = seen.equal_range(key);
    auto found = first;
    while (found != last && !same(rebuild.to().node(found->second), node, operands)) ++found;
    if (found != last) {
      rebuild.set(id, rebuild.to().tensor(found->second));
    } else {
      const Tensor value = rebuild.copy(id);
      seen.emplace(key, value.id());
      rebuild.set(id, value);
    }
  }
  return rebuild.finish();
}

}  // namespace wholestep::passes
