#pragma once
// Numbers for tests: random values of examples, runs of the reference interpreter, finite differences.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/reference/interpreter.h"
#include "core/convert.h"
#include "core/random.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep::testing {

using Values = std::map<std::string, HostValue, std::less<>>;

/// All outputs of `graph`; `f64`: floats are kept in double.
inline std::vector<HostValue> evaluate(const Graph& graph, const Values& values, bool f64 = true) {
  const auto lookup = [&](std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &found->second;
  };
  return reference::interpret(graph, lookup, {.f64 = f64}).outputs;
}

inline HostValue value_of(TensorType type, const std::vector<double>& numbers) {
  HostValue value(std::move(type));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (is_float(value.type.dtype)) {
      value.real.at(i) = numbers[i];
    } else {
      value.integer.at(i) = static_cast<std::int64_t>(numbers[i]);
    }
  }
  return value;
}

/// Uniform in [low, high), representable in the dtype.
inline HostValue random_value(TensorType type, double low, double high, random::Stream& stream) {
  HostValue value(std::move(type));
  for (double& x : value.real) x = round_to_float(low + (high - low) * stream.uniform(), value.type.dtype);
  for (std::int64_t& x : value.integer) {
    x = value.type.dtype == DType::boolean
            ? static_cast<std::int64_t>(stream.below(2))
            : static_cast<std::int64_t>(std::floor(low + (high - low) * stream.uniform()));
  }
  return value;
}

/// Graph and values of one example: operands are inputs "x0", "x1", ...; the one output is the op's result.
struct Example {
  Graph graph{"example"};
  std::vector<Tensor> operands;
  Tensor result;
  Values values;
};

/// `wide`: float operands are f64.
inline void make_example(const OpDef& op, const OpExample& example, bool wide, Example& made) {
  random::Stream stream(17, random::hash_name(op.name.data(), op.name.size()));
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    TensorType type = example.operands[i];
    if (wide && is_float(type.dtype)) type.dtype = DType::f64;
    auto [low, high] = is_float(type.dtype) ? std::pair(-2.0, 2.0) : std::pair(0.0, 5.0);
    if (i < example.ranges.size()) std::tie(low, high) = example.ranges[i];
    if (op.index_operand && op.index_operand->operand == static_cast<int>(i)) {
      const auto bound = static_cast<double>(op.index_operand->bound(example.operands, example.attrs));
      low = std::max(low, 0.0), high = std::min(high, bound);
    }
    const std::string name = "x" + std::to_string(i);
    made.operands.push_back(made.graph.input(name, type.shape, type.dtype));
    made.values.emplace(name, random_value(type, low, high, stream));
  }
  made.result = made.graph.apply(op.name, made.operands, example.attrs);
  made.graph.set_outputs({made.result});
}

/// "add(f32[2, 3], f32[2, 3])".
inline std::string describe(const OpDef& op, const OpExample& example) {
  std::string text = op.name + "(";
  for (const TensorType& type : example.operands) text += (text.back() == '(' ? "" : ", ") + to_string(type);
  return text + ")";
}

/// Sum of products of two values of one shape.
inline double inner_product(const HostValue& a, const HostValue& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.real.size(); ++i) sum += a.real[i] * b.real.at(i);
  return sum;
}

/// Central difference of inner_product(output `output` of `graph`, weights) in element `element` of input `name`.
inline double central_difference(const Graph& graph, Values values, const std::string& name, std::size_t element,
                                 const HostValue& weights, std::size_t output = 0) {
  constexpr double kStep = 1e-5;
  double& x = values.at(name).real.at(element);
  const double at = x;
  x = at + kStep;
  const double above = inner_product(evaluate(graph, values).at(output), weights);
  x = at - kStep;
  const double below = inner_product(evaluate(graph, values).at(output), weights);
  return (above - below) / (2 * kStep);
}

}  // namespace wholestep::testing
