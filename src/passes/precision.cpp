// Which f32 values are computed in fewer bits.
//
// Under a mixed policy a value is one of three: low, the result of a product or of what follows from one element by
// element; firm, the result of an op that has to be in f32, or of what follows from one; open, what depends on no such
// op, as parameters, inputs and constants do. Firm values draw element-wise ops to f32, low ones draw open ones to few
// bits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "graph/op.h"
#include "passes/passes.h"
#include "passes/rebuild.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

struct Name {
  Precision precision;
  std::string_view name;
};
constexpr std::array kNames = {Name{Precision::f32, "f32"}, Name{Precision::mixed_bf16, "mixed_bf16"},
                               Name{Precision::mixed_f16, "mixed_f16"}, Name{Precision::f16, "f16"}};

}  // namespace

std::string_view to_string(Precision precision) { return std::ranges::find(kNames, precision, &Name::precision)->name; }

Precision precision_by_name(std::string_view name) {
  if (name == "mixed") return Precision::mixed_bf16;
  const auto found = std::ranges::find(kNames, name, &Name::name);
  if (found != kNames.end()) return found->precision;
  std::vector<std::string_view> known;
  for (const Name& each : kNames) known.push_back(each.name);
  throw Error(ErrorCode::unknown_name,
              fmt::format("no precision is called \"{}\"; known: {}, mixed", name, fmt::join(known, ", ")));
}

namespace passes {
namespace {

class ApplyPrecision {
 public:
  ApplyPrecision(const Graph& graph, Precision precision)
      : graph_(graph),
        rebuild_(graph),
        everything_(precision == Precision::f16),
        dtype_(precision == Precision::mixed_bf16 ? DType::bf16 : DType::f16),
        values_(graph.nodes().size()) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) visit(static_cast<NodeId>(i));
    return eliminate_dead(rebuild_.finish());
  }

 private:
  enum class Kind { open, low, firm };
  struct Value {
    Kind kind = Kind::open;
    Tensor full, low;  // low: where it was needed
  };

  bool is_f32(NodeId id) const { return graph_.node(id).type.dtype == DType::f32; }
  Value& value(NodeId id) { return values_[static_cast<std::size_t>(id)]; }

  Tensor in_low(NodeId id) {
    Value& of = value(id);
    if (!of.low.valid()) of.low = cast(of.full, dtype_);
    return of.low;
  }

  /// What an op of these operands draws its result to, and is drawn to.
  Kind kind_of(const Node& node) {
    const ComputeIn where = compute_in_of(*node.op);
    if (where == ComputeIn::wide) return Kind::firm;
    if (everything_) return Kind::low;
    bool floats = false, firm = where == ComputeIn::full, low = where == ComputeIn::low;
    for (NodeId operand : node.operands) {
      const DType dtype = graph_.node(operand).type.dtype;
      floats |= is_float(dtype);
      const bool other_float = is_float(dtype) && dtype != DType::f32;  // a type that was asked for by name
      if (where != ComputeIn::operands) continue;
      firm |= other_float || (is_f32(operand) && value(operand).kind == Kind::firm);
      low |= is_f32(operand) && value(operand).kind == Kind::low;
    }
    if (!floats) return Kind::open;
    return firm ? Kind::firm : low ? Kind::low : Kind::open;
  }

  void visit(NodeId id) {
    const Node& node = graph_.node(id);
    Value& result = value(id);
    if (node.op->kind == OpKind::source) {
      rebuild_.set(id, result.full = rebuild_.copy(id));
      return;
    }
    result.kind = kind_of(node);
    std::vector<Tensor> operands;
    for (NodeId operand : node.operands) {
      operands.push_back(result.kind == Kind::low && is_f32(operand) ? in_low(operand) : value(operand).full);
    }
    const Tensor computed = rebuild_.to().apply(node.op->name, operands, node.attrs);
    result.full = cast(computed, node.type.dtype);
    if (computed.dtype() == dtype_) result.low = computed;
    rebuild_.set(id, result.full);
  }

  const Graph& graph_;
  Rebuild rebuild_;
  bool everything_;
  DType dtype_;
  std::vector<Value> values_;
};

}  // namespace

Graph apply_precision(const Graph& graph, Precision precision) {
  return precision == Precision::f32 ? graph : ApplyPrecision(graph, precision).run();
}

}  // namespace passes
}  // namespace wholestep
