// Every op of the table on the compiled device: its examples, and their gradients, against the reference interpreter.
#include <gtest/gtest.h>

#include "support/values.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

/// What a few roundings in a row may amount to, relative to the larger of 1 and the value.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 2e-5;
    case DType::bf16:
      return 0x1p-6;
    case DType::f16:
      return 0x1p-9;
    default:
      return 0;
  }
}

/// One graph with every example of `op` on inputs of its own; the gradients too, where floats are wide enough that
/// rounding each node does not drown them.
struct AllExamples {
  Graph graph{"examples"};
  std::vector<std::string> labels;  // of the outputs
  testing::Values values;
};

void add_examples(const OpDef& op, AllExamples& all) {
  std::vector<Tensor> outputs;
  int number = 0;
  for (const OpExample& example : op.examples) {
    testing::Example made;
    testing::make_example(op, example, false, made);
    const std::string prefix = "e" + std::to_string(number++) + ".";
    std::vector<Tensor> operands, wrt;
    for (const Tensor& operand : made.operands) {
      const std::string& name = made.graph.node(operand.id()).name;
      operands.push_back(all.graph.input(prefix + name, operand.shape(), operand.dtype()));
      all.values.emplace(prefix + name, made.values.at(name));
      if (operand.dtype() == f32 || operand.dtype() == f64) wrt.push_back(operands.back());
    }
    const Tensor result = all.graph.apply(op.name, operands, example.attrs);
    outputs.push_back(result);
    all.labels.push_back(testing::describe(op, example));
    const auto* none = std::get_if<NotDifferentiable>(&op.gradient);
    if (none && none->error) continue;
    if (wrt.empty() || (result.dtype() != f32 && result.dtype() != f64)) continue;
    random::Stream stream(29, static_cast<std::uint64_t>(number));
    const Tensor cotangent = all.graph.input(prefix + "cotangent", result.shape(), result.dtype());
    all.values.emplace(prefix + "cotangent", testing::random_value(result.type(), 0.5, 1.5, stream));
    for (const Tensor& gradient : append_gradients(all.graph, result, cotangent, wrt)) {
      outputs.push_back(gradient);
      all.labels.push_back("gradient of " + testing::describe(op, example));
    }
  }
  all.graph.set_outputs(outputs);
}

std::vector<Array> run(const AllExamples& all, const CompileOptions& options) {
  std::vector<std::pair<std::string, Array>> arrays;
  for (const auto& [name, value] : all.values) arrays.emplace_back(name, reference::to_array(value));
  Inputs inputs;
  for (const auto& [name, array] : arrays) inputs.emplace_back(name, array);
  return Session(Device::cpu(1)).compile(all.graph, options).run(inputs);
}

void expect_close(const HostValue& expected, const HostValue& actual) {
  ASSERT_EQ(actual.type, expected.type);
  EXPECT_EQ(actual.integer, expected.integer);
  for (std::size_t i = 0; i < expected.real.size(); ++i) {
    const double x = expected.real[i], y = actual.real[i];
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(y)) << "element " << i << " is " << y;
    } else if (std::isinf(x)) {
      EXPECT_EQ(y, x) << "element " << i;
    } else {
      EXPECT_NEAR(y, x, tolerance(expected.type.dtype) * std::max(1.0, std::abs(x))) << "element " << i;
    }
  }
}

TEST(OpsOnTheDevice, AgreeWithTheReferenceAndWithThemselvesUnfused) {
  for (const OpDef* op : op_table().all()) {
    if (op->examples.empty()) continue;
    SCOPED_TRACE(op->name);
    try {
      AllExamples all;
      add_examples(*op, all);
      const std::vector<HostValue> expected = testing::evaluate(all.graph, all.values, false);
      const std::vector<Array> fused = run(all, {.disk_cache = false, .verify = true});
      const std::vector<Array> unfused = run(all, {.fusion = false, .disk_cache = false});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(all.labels[i]);
        expect_close(expected[i], reference::to_host_value(fused[i]));
        EXPECT_TRUE(fused[i].same_bits(unfused[i])) << "fusion changes bits";
      }
    } catch (const Error& error) {
      ADD_FAILURE() << op->name << " threw: " << error.what();
    }
  }
}

}  // namespace
}  // namespace wholestep
