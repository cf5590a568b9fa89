#pragma once
// What the tests of ops share: run a graph on the reference interpreter, and expect errors.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/reference/interpreter.h"
#include "wholestep/ops.h"

namespace wholestep::testing {

using Values = std::map<std::string, Array, std::less<>>;

/// The value of `output`, given those of the graph's inputs, parameters and states.
inline Array evaluate(Tensor output, const Values& values = {}) {
  output.graph().set_outputs({output});
  std::map<std::string, HostValue, std::less<>> given;
  for (const auto& [name, array] : values) given.emplace(name, reference::to_host_value(array));
  const auto lookup = [&](std::string_view name) -> const HostValue* {
    const auto at = given.find(name);
    return at == given.end() ? nullptr : &at->second;
  };
  return reference::to_array(reference::interpret(output.graph(), lookup).outputs[0]);
}

/// The elements of `output` as doubles.
inline std::vector<double> elements_of(Tensor output, const Values& values = {}) {
  return evaluate(output, values).to_doubles();
}

/// The gradient of the sum of `output` with respect to `wrt`.
inline Tensor gradient(Tensor output, Tensor wrt) {
  Graph& graph = output.graph();
  const TensorType type = output.type();
  return append_gradients(graph, output, graph.full(type.shape, 1, type.dtype), {wrt})[0];
}

/// Expects `action` to throw an Error of `code` whose message holds all `parts`.
template <class Action>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "expected an error of code " << to_string(code);
}

/// Element by element within `tolerance`; NaN equals NaN.
inline void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << "element " << i << " is " << actual[i];
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(actual[i], expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
    }
  }
}

}  // namespace wholestep::testing
