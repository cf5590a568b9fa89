#include <gtest/gtest.h>

#include <functional>

#include "core/convert.h"
#include "evaluate.h"
#include "passes/passes.h"
#include "passes/pattern.h"
#include "wholestep/ops.h"

namespace wholestep::passes {
namespace {

constexpr DType kAll[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
const Shape kShape = {2, 3, 4};

/// Attributes of the ops on a rule's left side, innermost first; several choices.
using Choices = std::vector<std::vector<Attrs>>;

/// For the rules whose ops have attributes.
const std::map<std::string, std::function<Choices(DType)>>& attributes() {
  static const std::map<std::string, std::function<Choices(DType)>> table = {
      {"cast(x) = x", [](DType dtype) { return Choices{{Attrs{{"dtype", dtype}}}}; }},
      {"cast(cast(x)) = x",
       [](DType dtype) {
         Choices choices;
         for (DType wide : kAll)
           if (widens(dtype, wide)) choices.push_back({Attrs{{"dtype", wide}}, Attrs{{"dtype", dtype}}});
         return choices;
       }},
      {"reshape(x) = x", [](DType) { return Choices{{Attrs{{"shape", kShape}}}}; }},
      {"reshape(reshape(x)) = reshape(x)",
       [](DType) { return Choices{{Attrs{{"shape", Shape{6, 4}}}, Attrs{{"shape", Shape{24}}}}}; }},
      {"transpose(x) = x", [](DType) { return Choices{{Attrs{{"perm", Shape{0, 1, 2}}}}}; }},
      {"transpose(transpose(x)) = transpose(x)",
       [](DType) {
         return Choices{{Attrs{{"perm", Shape{1, 2, 0}}}, Attrs{{"perm", Shape{0, 2, 1}}}},
                        {Attrs{{"perm", Shape{2, 0, 1}}}, Attrs{{"perm", Shape{2, 0, 1}}}},
                        {Attrs{{"perm", Shape{1, 2, 0}}}, Attrs{{"perm", Shape{2, 0, 1}}}}};
       }},
      {"broadcast(x) = x", [](DType) { return Choices{{Attrs{{"shape", kShape}}}}; }},
      {"broadcast(broadcast(x)) = broadcast(x)",
       [](DType) { return Choices{{Attrs{{"shape", Shape{1, 2, 3, 4}}}, Attrs{{"shape", Shape{2, 5, 2, 3, 4}}}}}; }},
      {"slice(x) = x",
       [](DType) {
         return Choices{{Attrs{{"starts", Shape{0, 0, 0}}, {"limits", kShape}, {"strides", Shape{1, 1, 1}}}}};
       }},
      {"pad(x) = x",
       [](DType) { return Choices{{Attrs{{"low", Shape{0, 0, 0}}, {"high", Shape{0, 0, 0}}, {"value", 1.0}}}}; }},
      {"concat(x) = x", [](DType) { return Choices{{Attrs{{"axis", std::int64_t{1}}}}}; }},
  };
  return table;
}

/// Makes the left side of a rule in `graph`, of element type `dtype`. The condition of a select is boolean.
class Instance {
 public:
  Instance(Graph& graph, DType dtype, const std::vector<Attrs>& attrs) : graph_(graph), dtype_(dtype), attrs_(attrs) {}
  Tensor make(const Pattern& pattern, bool condition = false) {
    const DType dtype = condition ? boolean : dtype_;
    if (pattern.kind == Pattern::Kind::constant) return graph_.full(kShape, pattern.value, dtype);
    if (pattern.kind == Pattern::Kind::variable) {
      const std::string name = "v" + std::to_string(pattern.variable);
      const Tensor known = graph_.find(name);
      return known ? known : graph_.input(name, kShape, dtype);
    }
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < pattern.operands.size(); ++i)
      operands.push_back(make(pattern.operands[i], condition || (pattern.op == "select" && i == 0)));
    return graph_.apply(pattern.op, operands, next_ < attrs_.size() ? attrs_[next_++] : Attrs());
  }

 private:
  Graph& graph_;
  DType dtype_;
  const std::vector<Attrs>& attrs_;
  std::size_t next_ = 0;
};

/// Whether the op exists for the dtype and the condition holds, so that the rule fires; then it must have kept all
/// bits.
bool try_rule(const Rule& rule, DType dtype, const std::vector<Attrs>& attrs) {
  Graph graph;
  try {
    graph.set_outputs({Instance(graph, dtype, attrs).make(rule.left)});
  } catch (const Error&) {
    return false;
  }
  const Graph simple = eliminate_dead(simplify(graph));
  verify(simple);
  for (std::uint64_t seed = 0; seed < 20; ++seed) expect_same(evaluate(graph, seed), evaluate(simple, seed));
  return simple.nodes().size() < graph.nodes().size();
}

TEST(Simplify, EveryRuleFiresAndKeepsEveryBit) {
  std::size_t with_attributes = 0;
  for (const Rule& rule : simplify_rules().rules()) {
    SCOPED_TRACE(to_string(rule));
    const auto found = attributes().find(to_string(rule));
    if (found != attributes().end()) ++with_attributes;
    int fired = 0;
    for (DType dtype : kAll) {
      const Choices choices = found != attributes().end() ? found->second(dtype) : Choices{{}};
      for (const std::vector<Attrs>& attrs : choices) fired += try_rule(rule, dtype, attrs);
    }
    EXPECT_GT(fired, 0);
  }
  EXPECT_EQ(with_attributes, attributes().size()) << "attributes are given for a rule that is not in the table";
}

int ops_after_simplify(const std::function<Tensor(Graph&, Tensor)>& build, DType dtype) {
  Graph graph;
  const Tensor x = graph.input("x", kShape, dtype);
  graph.set_outputs({build(graph, x)});
  const Graph simple = eliminate_dead(simplify(graph));
  for (std::uint64_t seed = 0; seed < 5; ++seed) expect_same(evaluate(graph, seed), evaluate(simple, seed));
  return static_cast<int>(simple.nodes().size()) - 1;
}

TEST(Simplify, LeavesWhatWouldChangeASignedZeroANaNOrARounding) {
  EXPECT_GT(ops_after_simplify([](Graph&, Tensor x) { return x + 0.0; }, f32), 0);
  EXPECT_GT(ops_after_simplify([](Graph&, Tensor x) { return x - (-0.0); }, f32), 0);
  EXPECT_GT(ops_after_simplify([](Graph&, Tensor x) { return x * 0.0; }, f32), 0);
  EXPECT_GT(ops_after_simplify([](Graph&, Tensor x) { return x - x; }, f32), 0);
  EXPECT_GT(ops_after_simplify([](Graph&, Tensor x) { return x / x; }, f32), 0);
  EXPECT_EQ(ops_after_simplify([](Graph&, Tensor x) { return cast(cast(x, bf16), f32); }, f32), 2);
  EXPECT_EQ(ops_after_simplify([](Graph&, Tensor x) { return cast(cast(x, f32), i32); }, i32), 2);
  EXPECT_EQ(ops_after_simplify([](Graph&, Tensor x) { return abs(neg(x)); }, u8), 2);
}

TEST(Simplify, ChainsCollapseCompletely) {
  const auto chain = [](Graph&, Tensor x) {
    Tensor y = neg(neg(neg(neg(x * 1.0)))) / 1.0;
    y = transpose(transpose(y, {2, 0, 1}), {1, 2, 0});
    return reshape(reshape(reshape(y, {24}), {4, 6}), kShape);
  };
  EXPECT_EQ(ops_after_simplify(chain, f32), 0);
}

TEST(Simplify, SeesAConstantOfOneValueThroughViewsAndLists) {
  const auto times_ones = [](Graph& graph, Tensor x) {
    return x * transpose(graph.constant(Array::from(std::vector<float>(24, 1.0f), {4, 3, 2})), {2, 1, 0});
  };
  EXPECT_EQ(ops_after_simplify(times_ones, f32), 0);
  const auto times_others = [](Graph& graph, Tensor x) {
    std::vector<float> values(24, 1.0f);
    values.back() = 2;
    return x * graph.constant(Array::from(values, kShape));
  };
  EXPECT_EQ(ops_after_simplify(times_others, f32), 2);
}

TEST(Simplify, KeepsOutputsAndUpdatesThatBecomeASource) {
  Graph graph;
  const Tensor x = graph.input("x", {3});
  const Tensor w = graph.param("w", {3});
  graph.set_outputs({neg(neg(w)), x * 1.0});
  graph.set_update(w, x / 1.0);
  const Graph simple = eliminate_dead(simplify(graph));
  EXPECT_EQ(simple.nodes().size(), 2u);
  EXPECT_EQ(simple.outputs(), (std::vector<NodeId>{w.id(), x.id()}));
  expect_same(evaluate(graph, 1), evaluate(simple, 1));
}

}  // namespace
}  // namespace wholestep::passes
