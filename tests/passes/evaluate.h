#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "backend/reference/interpreter.h"
#include "core/random.h"

namespace wholestep {

/// Values that passes get wrong: both zeros, infinities, NaN, the extremes; then random ones of all sizes.
inline HostValue hard_values(const TensorType& type, std::uint64_t seed) {
  const std::vector<double> reals = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5, -2.5, 3.0e38, 1e-45, -1e-40};
  const std::vector<std::int64_t> integers = {0, 1, -1, 255, 128, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 7};
  HostValue value(type);
  random::Stream stream(seed, 0);
  for (double& x : value.real) {
    x = stream.below(2) ? reals[stream.below(reals.size())]
                        : std::ldexp(stream.uniform() - 0.5, static_cast<int>(stream.below(60)) - 30);
  }
  for (std::int64_t& x : value.integer) {
    x = stream.below(2) ? integers[stream.below(integers.size())] : static_cast<std::int64_t>(stream.next());
    if (type.dtype == boolean) x &= 1;
  }
  return reference::to_host_value(reference::to_array(value));
}

/// Outputs, then updates, of `graph` on values that depend on `seed` and each input's type alone.
inline std::vector<Array> evaluate(const Graph& graph, std::uint64_t seed) {
  std::map<std::string, HostValue, std::less<>> values;
  for (const Node& node : graph.nodes())
    if (!node.name.empty())
      values.emplace(node.name,
                     hard_values(node.type, seed * 1000 + random::hash_name(node.name.data(), node.name.size())));
  const reference::Result result = reference::interpret(graph, [&](std::string_view name) {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : &found->second;
  });
  std::vector<Array> arrays;
  for (const HostValue& value : result.outputs) arrays.push_back(reference::to_array(value));
  for (const HostValue& value : result.updates) arrays.push_back(reference::to_array(value));
  return arrays;
}

/// The same bits, but for the sign and payload of a NaN, which the arithmetic of machines leaves open.
inline void expect_same(const std::vector<Array>& a, const std::vector<Array>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    ASSERT_EQ(to_string(a[k].type()), to_string(b[k].type()));
    const std::vector<double> left = a[k].to_doubles(), right = b[k].to_doubles();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (std::isnan(left[i]) && std::isnan(right[i])) continue;
      ASSERT_TRUE(left[i] == right[i] && std::signbit(left[i]) == std::signbit(right[i]))
          << "value " << k << ", element " << i << ": " << left[i] << " and " << right[i];
    }
  }
}

}  // namespace wholestep
