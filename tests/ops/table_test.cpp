// Walks the op table: every op must have every cell, and the cells must agree with each other on the op's own examples.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "support/values.h"

namespace wholestep {
namespace {

using testing::describe;
using testing::Example;
using testing::make_example;

bool has_gradient(const OpDef& op) { return !std::holds_alternative<NotDifferentiable>(op.gradient); }

/// What the entry lacks, as "op: cell".
std::vector<std::string> missing_cells(const OpDef& op) {
  std::vector<std::string> missing;
  const auto require = [&](bool present, std::string_view cell) {
    if (!present) missing.push_back(op.name + ": " + std::string(cell));
  };
  const bool declared = op.kind == OpKind::source && op.name != "constant";  // by Graph, with a value from outside
  require(!op.doc.empty(), "doc");
  for (const AttrSpec& attr : op.attrs) require(!attr.doc.empty(), "doc of attribute " + attr.name);
  require(declared || op.infer != nullptr, "type rule");
  require(op.kind == OpKind::source || op.evaluate != nullptr, "reference evaluation");
  const auto* flat = std::get_if<NotDifferentiable>(&op.gradient);
  if (flat) {
    require(!flat->reason.empty(), "reason for having no gradient");
  } else {
    const auto* rule = std::get_if<GradientRule>(&op.gradient);
    require(rule ? *rule != nullptr : op.decompose != nullptr, "gradient or a reason for having none");
  }
  if (op.kind == OpKind::composite) {
    require(op.decompose != nullptr, "decomposition");
  } else if (op.kind == OpKind::sequential) {
    require(op.sequence != nullptr, "sequence");
  } else if (op.kind != OpKind::source) {
    require(op.lower != nullptr, "lowering");
  }
  require(declared || !op.examples.empty(), "examples");
  return missing;
}

/// Calls `check` for every example of every op that takes operands.
void for_each_example(const std::function<void(const OpDef&, const OpExample&)>& check) {
  for (const OpDef* op : op_table().all()) {
    for (const OpExample& example : op->examples) {
      SCOPED_TRACE(describe(*op, example));
      try {
        check(*op, example);
      } catch (const std::exception& error) {
        ADD_FAILURE() << describe(*op, example) << " threw: " << error.what();
      }
    }
  }
}

/// As above, for f64 copies of the examples with a float operand and a float result of ops that have a gradient.
void for_each_differentiable(const std::function<void(const OpDef&, Example&)>& check) {
  std::set<std::string> seen;
  for_each_example([&](const OpDef& op, const OpExample& example) {
    if (!has_gradient(op)) return;
    Example made;
    make_example(op, example, true, made);
    bool differentiable = false;
    for (const Tensor& operand : made.operands) differentiable |= is_float(operand.dtype());
    // Examples that differ in the width of their floats alone are one.
    if (!differentiable || !is_float(made.result.dtype()) || !seen.insert(made.graph.to_text()).second) return;
    check(op, made);
  });
}

std::vector<Tensor> float_operands(const Example& made) {
  std::vector<Tensor> floats;
  for (const Tensor& operand : made.operands) {
    if (is_float(operand.dtype())) floats.push_back(operand);
  }
  return floats;
}

Tensor random_input(Example& made, const std::string& name, const TensorType& type) {
  random::Stream stream(23, random::hash_name(name.data(), name.size()));
  made.values.emplace(name, testing::random_value(type, 0.5, 1.5, stream));
  return made.graph.input(name, type.shape, type.dtype);
}

/// Elements of a tensor to probe: all of a small one, some of a large one.
std::vector<std::size_t> probes(std::size_t size) {
  constexpr std::size_t kMost = 12;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < std::min(size, kMost); ++i) chosen.push_back(size <= kMost ? i : i * 7919 % size);
  return chosen;
}

bool is_finite(const HostValue& value) {
  return std::all_of(value.real.begin(), value.real.end(), [](double x) { return std::isfinite(x); });
}

void expect_near_relative(double expected, double actual, double tolerance) {
  EXPECT_NEAR(actual, expected, tolerance * (1 + std::abs(expected)));
}

TEST(OpTable, EveryOpHasEveryCell) {
  for (const OpDef* op : op_table().all()) {
    for (const std::string& cell : missing_cells(*op)) ADD_FAILURE() << "missing " << cell;
  }
  EXPECT_GT(op_table().all().size(), 80U);
}

TEST(OpTable, AnEntryWithoutCellsIsNoticed) {
  OpDef bare;
  bare.name = "bare";
  EXPECT_EQ(missing_cells(bare), (std::vector<std::string>{"bare: doc", "bare: type rule", "bare: reference evaluation",
                                                           "bare: gradient or a reason for having none",
                                                           "bare: lowering", "bare: examples"}));
  bare.kind = OpKind::composite;
  bare.gradient = NotDifferentiable{};
  const std::vector<std::string> missing = missing_cells(bare);
  EXPECT_NE(std::find(missing.begin(), missing.end(), "bare: reason for having no gradient"), missing.end());
  EXPECT_NE(std::find(missing.begin(), missing.end(), "bare: decomposition"), missing.end());
}

TEST(OpTable, EveryExampleSurvivesItsTextForm) {
  for_each_example([](const OpDef& op, const OpExample& example) {
    Example made;
    make_example(op, example, false, made);
    const std::string text = made.graph.to_text();
    EXPECT_TRUE(Graph::parse(text) == made.graph) << text;
  });
}

TEST(OpTable, EvaluationGivesTheInferredTypeAndFiniteValues) {
  for_each_example([](const OpDef& op, const OpExample& example) {
    for (const bool wide : {false, true}) {
      Example made;
      make_example(op, example, wide, made);
      const HostValue value = testing::evaluate(made.graph, made.values, wide).at(0);
      EXPECT_EQ(value.type, made.result.type());
      const auto elements = static_cast<std::size_t>(num_elements(value.type.shape));
      EXPECT_EQ(is_float(value.type.dtype) ? value.real.size() : value.integer.size(), elements);
      bool empty = false;  // a mean or a maximum of nothing is not finite
      for (const TensorType& type : example.operands) empty |= num_elements(type.shape) == 0;
      if (empty || op.name == "constant") continue;
      for (double x : value.real) EXPECT_TRUE(std::isfinite(x)) << x;
    }
  });
}

TEST(OpTable, DecompositionsAgreeWithTheOpsOwnEvaluation) {
  int compared = 0;
  for_each_example([&](const OpDef& op, const OpExample& example) {
    if (!op.decompose) return;
    Example made;
    make_example(op, example, true, made);
    const Node node = made.graph.node(made.result.id());
    const Tensor other = op.decompose(made.graph, node, made.operands);
    ASSERT_EQ(other.type(), made.result.type());
    made.graph.set_outputs({made.result, other});
    const std::vector<HostValue> values = testing::evaluate(made.graph, made.values);
    EXPECT_EQ(values[0].integer, values[1].integer);
    for (std::size_t i = 0; i < values[0].real.size(); ++i) {
      if (std::isnan(values[0].real[i])) {
        EXPECT_TRUE(std::isnan(values[1].real[i]));
      } else if (std::isinf(values[0].real[i])) {
        EXPECT_EQ(values[1].real[i], values[0].real[i]);
      } else {
        expect_near_relative(values[0].real[i], values[1].real[i], 1e-12);
      }
    }
    ++compared;
  });
  EXPECT_GT(compared, 10);
}

TEST(OpTable, AWrongNumberOfOperandsIsRefused) {
  for_each_example([](const OpDef& op, const OpExample& example) {
    Example made;
    make_example(op, example, false, made);
    if (made.operands.empty()) return;
    std::vector<Tensor> operands(made.operands);
    if (op.max_operands >= 0) {
      operands.resize(static_cast<std::size_t>(op.max_operands) + 1, made.operands[0]);
      EXPECT_THROW(made.graph.apply(op.name, operands, example.attrs), Error);
    }
    operands.resize(static_cast<std::size_t>(op.min_operands) - 1);
    EXPECT_THROW(made.graph.apply(op.name, operands, example.attrs), Error);
  });
}

TEST(OpTable, AnOperandOfAnotherDtypeIsRefusedOrHasAMeaning) {
  const DType all[] = {f64, f32, bf16, f16, i64, i32, u8, boolean};
  for_each_example([&](const OpDef& op, const OpExample& example) {
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
      for (const DType dtype : all) {
        OpExample changed = example;
        changed.operands[i].dtype = dtype;
        Example made;
        try {
          make_example(op, changed, false, made);
        } catch (const Error& error) {
          // invalid_argument: an attribute, such as the value of a padding, that the dtype does not have.
          EXPECT_TRUE(error.code() == ErrorCode::dtype_mismatch || error.code() == ErrorCode::invalid_argument)
              << error.what();
          continue;
        }
        EXPECT_EQ(testing::evaluate(made.graph, made.values, false).at(0).type, made.result.type());
      }
    }
  });
}

TEST(OpTable, OperandsThatShareADtypeMustGoOnSharingIt) {
  const std::set<std::string> labelled = {"select", "gather_rows", "scatter_add_rows", "cross_entropy",
                                          "count_correct"};
  for_each_example([&](const OpDef& op, const OpExample& example) {
    if (example.operands.size() < 2 || labelled.contains(op.name)) return;
    OpExample changed = example;
    changed.operands[1].dtype = changed.operands[1].dtype == f64 ? f32 : f64;
    Example made;
    try {
      make_example(op, changed, false, made);
      ADD_FAILURE() << describe(op, changed) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::dtype_mismatch) << error.what();
    }
  });
}

TEST(OpTable, GradientsAgreeWithFiniteDifferences) {
  int probed = 0;
  for_each_differentiable([&](const OpDef&, Example& made) {
    const Graph forward = made.graph;
    const Tensor cotangent = random_input(made, "cotangent", made.result.type());
    const std::vector<Tensor> wrt = float_operands(made);
    const std::vector<Tensor> gradients = append_gradients(made.graph, made.result, cotangent, wrt);
    made.graph.set_outputs(gradients);
    verify(made.graph);
    const std::vector<HostValue> values = testing::evaluate(made.graph, made.values);
    for (std::size_t k = 0; k < wrt.size(); ++k) {
      ASSERT_EQ(values[k].type, wrt[k].type());
      const std::string& name = made.graph.node(wrt[k].id()).name;
      for (const std::size_t i : probes(values[k].real.size())) {
        SCOPED_TRACE(name + " element " + std::to_string(i));
        const HostValue& weights = made.values.at("cotangent");
        expect_near_relative(testing::central_difference(forward, made.values, name, i, weights), values[k].real[i],
                             2e-8);
        ++probed;
      }
    }
  });
  EXPECT_GT(probed, 500);
}

TEST(OpTable, SecondDerivativesAgreeWithFiniteDifferences) {
  int probed = 0;
  for_each_differentiable([&](const OpDef&, Example& made) {
    if (!is_finite(testing::evaluate(made.graph, made.values).at(0))) return;  // the maximum of nothing
    const Tensor cotangent = random_input(made, "cotangent", made.result.type());
    std::vector<Tensor> wrt = float_operands(made);
    const Tensor first = append_gradients(made.graph, made.result, cotangent, {wrt[0]})[0];
    made.graph.set_outputs({first});
    const Graph gradient = made.graph;
    const Tensor direction = random_input(made, "direction", first.type());
    wrt.push_back(cotangent);
    made.graph.set_outputs(append_gradients(made.graph, first, direction, wrt));
    const std::vector<HostValue> values = testing::evaluate(made.graph, made.values);
    for (std::size_t k = 0; k < wrt.size(); ++k) {
      const std::string& name = made.graph.node(wrt[k].id()).name;
      for (const std::size_t i : probes(values[k].real.size())) {
        SCOPED_TRACE(name + " element " + std::to_string(i));
        const HostValue& weights = made.values.at("direction");
        expect_near_relative(testing::central_difference(gradient, made.values, name, i, weights), values[k].real[i],
                             1e-7);
        ++probed;
      }
    }
  });
  EXPECT_GT(probed, 500);
}

TEST(OpTable, AnOpWithoutGradientGivesZerosOrSaysWhy) {
  for_each_example([](const OpDef& op, const OpExample& example) {
    const auto* flat = std::get_if<NotDifferentiable>(&op.gradient);
    if (!flat) return;
    Example made;
    make_example(op, example, true, made);
    const std::vector<Tensor> wrt = float_operands(made);
    if (wrt.empty() || !is_float(made.result.dtype())) return;
    const Tensor cotangent = random_input(made, "cotangent", made.result.type());
    if (flat->error) {
      EXPECT_THROW(append_gradients(made.graph, made.result, cotangent, wrt), Error);
      return;
    }
    made.graph.set_outputs(append_gradients(made.graph, made.result, cotangent, wrt));
    for (const HostValue& value : testing::evaluate(made.graph, made.values)) {
      for (double x : value.real) EXPECT_EQ(x, 0);
    }
  });
}

}  // namespace
}  // namespace wholestep
