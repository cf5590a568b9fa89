// A composite has two definitions: its own evaluation and its decomposition. They must agree.
#include "core/random.h"
#include "graph/op.h"
#include "ops/evaluate.h"

namespace wholestep {
namespace {

HostValue random_value(const TensorType& type, std::pair<double, double> range, random::Stream& stream) {
  HostValue value(type);
  for (double& x : value.real) x = range.first + (range.second - range.first) * stream.uniform();
  for (std::int64_t& x : value.integer) {
    const auto span = static_cast<std::uint64_t>(range.second - range.first);
    x = static_cast<std::int64_t>(range.first) + static_cast<std::int64_t>(stream.below(span));
  }
  return value;
}

class Composite : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(Composite, DecomposesIntoWhatItsOwnEvaluationGives) {
  const OpDef& op = *GetParam();
  for (std::size_t e = 0; e < op.examples.size(); ++e) {
    SCOPED_TRACE("example " + std::to_string(e));
    const OpExample& example = op.examples[e];
    random::Stream stream(1, e);
    Graph graph;
    std::vector<Tensor> operands;
    std::map<std::string, HostValue, std::less<>> values;
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
      const TensorType& type = example.operands[i];
      const std::string name = "operand" + std::to_string(i);
      operands.push_back(graph.input(name, type.shape, type.dtype));
      std::pair<double, double> range = is_float(type.dtype) ? std::pair(-2.0, 2.0) : std::pair(0.0, 5.0);
      if (type.dtype == boolean) range.second = 2;
      if (i < example.ranges.size()) range = example.ranges[i];
      values.emplace(name, random_value(type, range, stream));
    }
    Tensor whole = graph.apply(op.name, operands, example.attrs);
    const Node node = graph.node(whole.id());
    Tensor parts = op.decompose(graph, node, operands);
    ASSERT_EQ(parts.type(), whole.type());
    graph.set_outputs({whole, parts});
    const auto lookup = [&](std::string_view name) { return &values.find(name)->second; };
    const reference::Result result = reference::interpret(graph, lookup, {.f64 = true});
    for (std::int64_t i = 0; i < result.outputs[0].size(); ++i) {
      const double expected = result.outputs[0].at(i);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result.outputs[1].at(i)));
      } else {
        EXPECT_NEAR(result.outputs[1].at(i), expected, 1e-12 * std::max(1.0, std::abs(expected))) << "element " << i;
      }
    }
  }
}

std::vector<const OpDef*> composites() {
  std::vector<const OpDef*> found;
  for (const OpDef* op : op_table().all()) {
    if (op->kind == OpKind::composite) found.push_back(op);
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Ops, Composite, ::testing::ValuesIn(composites()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace wholestep
