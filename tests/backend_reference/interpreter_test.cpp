#include "backend/reference/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "expect_error.h"
#include "wholestep/ops.h"

namespace wholestep::reference {
namespace {

using Values = std::map<std::string, Array, std::less<>>;

std::vector<HostValue> run(const Graph& graph, const Values& values, Options options = {}) {
  std::map<std::string, HostValue, std::less<>> host;
  for (const auto& [name, array] : values) host.emplace(name, to_host_value(array));
  Result result = interpret(
      graph,
      [&](std::string_view name) {
        const auto found = host.find(name);
        return found == host.end() ? nullptr : &found->second;
      },
      options);
  for (HostValue& update : result.updates) result.outputs.push_back(std::move(update));
  return result.outputs;
}

TEST(Interpreter, RoundsToTheDtypeAfterEachOp) {
  for (DType dtype : {f32, bf16, f16}) {
    Graph graph;
    const double step = dtype == f32 ? std::ldexp(1, -25) : dtype == bf16 ? std::ldexp(1, -9) : std::ldexp(1, -12);
    const Tensor x = graph.input("x", {}, dtype);
    graph.set_outputs({(1.0 + x) + x, 1.0 + (x + x) * 2.0});
    const double value[] = {step};
    const auto outputs = run(graph, {{"x", Array::from_doubles({dtype, {}}, value)}});
    EXPECT_EQ(outputs[0].real[0], 1.0) << to_string(dtype);
    EXPECT_EQ(outputs[1].real[0], 1.0 + step * 4) << to_string(dtype);
  }
}

TEST(Interpreter, InF64KeepsDoublesWhateverTheDtype) {
  Graph graph;
  const Tensor x = graph.input("x", {}, f32);
  graph.set_outputs({x / 3.0});
  EXPECT_EQ(run(graph, {{"x", Array::scalar(1.0f)}}, {.f64 = true})[0].real[0], 1.0 / 3.0);
  EXPECT_EQ(run(graph, {{"x", Array::scalar(1.0f)}})[0].real[0], static_cast<double>(1.0f / 3.0f));
}

TEST(Interpreter, IntegersWrapAndBooleansAreZeroOrOne) {
  Graph graph;
  const Tensor x = graph.input("x", {}, i32);
  const Tensor b = graph.input("b", {}, u8);
  graph.set_outputs({x + 1.0, b * 2.0, logical_not(greater(x, 0.0))});
  const auto outputs = run(graph, {{"x", Array::scalar(INT32_MAX)}, {"b", Array::scalar<std::uint8_t>(200)}});
  EXPECT_EQ(outputs[0].integer[0], INT32_MIN);
  EXPECT_EQ(outputs[1].integer[0], 144);
  EXPECT_EQ(outputs[2].integer[0], 0);
}

TEST(Interpreter, UpdatesAndOutputsSeeTheOldValues) {
  Graph graph;
  const Tensor a = graph.param("a", {}), b = graph.state("b", {});
  graph.set_update(a, b + 10.0);
  graph.set_update(b, a);
  graph.set_outputs({a, a, b});
  const auto values = run(graph, {{"a", Array::scalar(1.0f)}, {"b", Array::scalar(2.0f)}});
  const std::vector<double> expected = {1, 1, 2, 12, 1};
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(values[i].real[0], expected[i]) << i;
}

TEST(Interpreter, AsksForEveryInputByName) {
  Graph graph;
  const Tensor x = graph.input("x", {2});
  graph.input("unused", {3});
  graph.set_outputs({x});
  const Array two(f32, {2}), three(f32, {3});
  expect_error(ErrorCode::missing_input, {"'unused'", "f32[3]"}, [&] { run(graph, {{"x", two}}); });
  expect_error(ErrorCode::shape_mismatch, {"'x'", "f32[2]", "f32[3]"},
               [&] { run(graph, {{"x", three}, {"unused", three}}); });
  expect_error(ErrorCode::dtype_mismatch, {"'x'", "i32[2]"},
               [&] { run(graph, {{"x", Array(i32, {2})}, {"unused", three}}); });
}

TEST(Interpreter, TakesTensorsWithoutElements) {
  Graph graph;
  const Tensor x = graph.input("x", {0, 3});
  graph.set_outputs({sum(x, {0}), exp(x)});
  const auto outputs = run(graph, {{"x", Array(f32, {0, 3})}});
  EXPECT_EQ(outputs[0].real, (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(outputs[1].real.empty());
}

TEST(Interpreter, ArraysOfEveryDtypeComeBackBitForBit) {
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    std::vector<std::uint8_t> bytes(8 * size_of(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(dtype == boolean ? i % 2 : 37 * i + 11);
    const Array array = Array::from_bytes({dtype, {2, 4}}, bytes.data(), bytes.size());
    EXPECT_TRUE(to_array(to_host_value(array)).same_bits(array)) << to_string(dtype);
  }
  EXPECT_EQ(to_host_value(Array::scalar(INT64_MAX)).integer[0], INT64_MAX);
}

TEST(Interpreter, AViewMustHaveTheBytesOfItsType) {
  const float one = 1;
  expect_error(ErrorCode::wrong_length, {"f32[2]", "got 4"},
               [&] { to_host_value(ArrayView({f32, {2}}, &one, sizeof one)); });
}

}  // namespace
}  // namespace wholestep::reference
