// Products of bf16, two steps of their depth at a time: on processors with an instruction for it, and on all others.
#include <cmath>
#include <optional>
#include <random>

#include "nest_fixture.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "wholestep/ops.h"

namespace wholestep::test {
namespace {

class CpuPairs : public OnEveryPath {};

float uniform(std::mt19937& random) { return static_cast<float>(std::ldexp(random(), -31)) - 1; }

Array random_bf16(std::int64_t count, std::mt19937& random, float scale = 1) {
  Array array(bf16, {count});
  auto* bits = static_cast<std::uint16_t*>(array.data());
  for (std::int64_t i = 0; i < count; ++i)
    bits[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(scale * uniform(random)) >> 16);
  return array;
}

Array random_f32(std::int64_t count, std::mt19937& random) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(uniform(random));
  return Array::from(values);
}

TEST_P(CpuPairs, HighHalvesAreMultipliedFirst) {
  std::mt19937 random(1);
  const std::int64_t count = 2 * lanes() + 3;
  for (const int lanes : {1, this->lanes()}) {
    TestNest test(lanes);
    const int high_a = test.buffer(random_bf16(count, random)), low_a = test.buffer(random_bf16(count, random)),
              high_b = test.buffer(random_bf16(count, random)), low_b = test.buffer(random_bf16(count, random));
    const Array before = random_f32(count, random);
    const int sum = test.buffer(before), out = test.output(f32, count);
    ExprBuilder exprs = test.exprs();
    const auto at = [&](int buffer) { return load(exprs, test, buffer, var(0)); };
    const ExprId value = exprs.dot_pairs(exprs.pair(at(high_a), at(low_a)), exprs.pair(at(high_b), at(low_b)), at(sum));
    test.nest.body.push_back(loop(0, count, LoopKind::vector, {store(out, var(0), value)}));
    std::vector<std::vector<double>> x;
    for (const int buffer : {high_a, low_a, high_b, low_b})
      x.push_back(test.arrays[static_cast<std::size_t>(buffer)].to_doubles());
    test.run(*cpu);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const float high = std::fma(static_cast<float>(x[0][i]), static_cast<float>(x[2][i]), before.as<float>()[i]);
      EXPECT_EQ(test.arrays[static_cast<std::size_t>(out)].as<float>()[i],
                std::fma(static_cast<float>(x[1][i]), static_cast<float>(x[3][i]), high));
    }
  }
}

TEST_P(CpuPairs, NeighboursInMemoryAreOneLoad) {
  std::mt19937 random(2);
  TestNest test(lanes());
  const int a = test.buffer(random_bf16(9, random)), b = test.buffer(random_bf16(lanes() + 1, random));
  const int out = test.output(f32, 4 * lanes());
  ExprBuilder exprs = test.exprs();
  // Scalars at odd and even places, times vectors.
  const ExprId left =
      exprs.pair(load(exprs, test, a, var(1, 2) + Affine(1)), load(exprs, test, a, var(1, 2) + Affine(2)));
  const ExprId right = exprs.pair(load(exprs, test, b, var(0)), load(exprs, test, b, var(0) + Affine(1)));
  const ExprId value = exprs.dot_pairs(left, right, exprs.constant(0, f32));
  test.nest.body.push_back(loop(1, 4, LoopKind::serial,
                                {loop(0, lanes(), LoopKind::vector, {store(out, var(1, lanes()) + var(0), value)})}));
  test.run(*cpu);
  const std::vector<double> x = test.arrays[0].to_doubles(), y = test.arrays[1].to_doubles();
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(lanes()); ++i) {
      const float high = static_cast<float>(x[2 * row + 1] * y[i]);
      EXPECT_EQ(test.arrays[2].as<float>()[row * static_cast<std::size_t>(lanes()) + i],
                std::fma(static_cast<float>(x[2 * row + 2]), static_cast<float>(y[i + 1]), high));
    }
  }
}

/// Output 0 of `graph` as planned with or without pairs, and what the schedules say of themselves.
struct Result {
  std::vector<float> values;
  std::string notes;
};

Result run(backend::Backend& cpu, const Graph& graph, const std::vector<Array>& inputs, bool pairs) {
  schedule::Target target = cpu.target();
  target.multiplies_pairs = pairs;
  const Graph prepared = passes::run_pipeline(graph, {}, true);
  plan::Plan plan = plan::make_plan(prepared, {.target = target});
  plan::verify(plan);
  auto program = cpu.build(plan, prepared, {.flush_subnormals = true});
  Array out(graph.node(graph.outputs()[0]).type);
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const plan::BufferRole role = plan.buffers[i].role;
    if (role == plan::BufferRole::input)
      program->bind_host(static_cast<int>(i), const_cast<void*>(inputs[next++].data()));
    if (role == plan::BufferRole::output) program->bind_host(static_cast<int>(i), out.data());
  }
  program->run();
  const auto values = std::as_const(out).as<float>();
  Result result{{values.begin(), values.end()}, {}};
  for (const schedule::Nest& nest : plan.nests) result.notes += nest.note + "\n";
  return result;
}

void expect_same(backend::Backend& cpu, const Graph& graph, const std::vector<Array>& inputs,
                 std::optional<bool> pairs = true) {
  const Result one = run(cpu, graph, inputs, false), two = run(cpu, graph, inputs, true);
  EXPECT_EQ(one.notes.find("bf16 in pairs"), std::string::npos) << one.notes;
  if (pairs) {
    EXPECT_EQ(two.notes.find("bf16 in pairs") != std::string::npos, *pairs) << two.notes;
  }
  ASSERT_EQ(one.values.size(), two.values.size());
  EXPECT_EQ(std::memcmp(one.values.data(), two.values.data(), one.values.size() * sizeof(float)), 0);
}

TEST_P(CpuPairs, SumsHaveTheBitsOfSingleSteps) {
  std::mt19937 random(3);
  struct Case {
    std::int64_t m, k, n;
  };
  for (const auto& [m, k, n] : {Case{1, 2, 16},
                                {3, 4, 17},
                                {64, 100, 10},
                                {13, 64, 33},
                                {37, 130, 100},
                                {5, 2050, 48},
                                {64, 784, 128},
                                {2, 1536, 1},
                                {40, 6, 7}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(testing::Message() << m << "x" << k << "x" << n << (ta ? " ta" : "") << (tb ? " tb" : ""));
        Graph g("product");
        const Tensor a = g.input("a", ta ? Shape{k, m} : Shape{m, k}, bf16);
        const Tensor b = g.input("b", tb ? Shape{n, k} : Shape{k, n}, bf16);
        g.set_outputs({matmul(cast(a, f32), cast(b, f32), ta, tb)});
        // Subnormals among the factors, products and sums.
        for (const float scale : {1.0F, 1e-19F, 1e-38F})
          expect_same(*cpu, g, {random_bf16(m * k, random, scale), random_bf16(k * n, random)},
                      n > 1 ? std::optional(true) : std::nullopt);
      }
    }
  }
}

TEST_P(CpuPairs, ComputedFactorsAndBatches) {
  std::mt19937 random(4);
  std::vector<std::uint8_t> bytes(64 * 784);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  const auto pixels = [&](std::int64_t rows, std::int64_t columns) {
    return Array::from(std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + rows * columns), {rows, columns});
  };
  for (const bool ta : {false, true}) {
    SCOPED_TRACE(ta);
    Graph g("computed");
    const Tensor x = g.input("x", {64, 784}, u8);
    const Tensor left = cast(cast(cast(x, f32) / 255.0, bf16), f32);
    const Tensor right = g.input("w", {ta ? 64 : 784, 48}, bf16);
    g.set_outputs({relu(matmul(left, cast(right, f32), ta, false))});
    expect_same(*cpu, g, {pixels(64, 784), random_bf16(784 * 48, random)});
  }
  Graph g("batch");
  const Tensor a = g.input("a", {3, 2, 9, 32}, bf16), b = g.input("b", {3, 2, 32, 20}, bf16);
  g.set_outputs({matmul(cast(a, f32), cast(b, f32))});
  expect_same(*cpu, g, {random_bf16(3 * 2 * 9 * 32, random), random_bf16(3 * 2 * 32 * 20, random)});
}

TEST_P(CpuPairs, WhatIsNotPairsStaysAsItIs) {
  std::mt19937 random(5);
  Graph odd("odd");
  const Tensor a = odd.input("a", {8, 33}, bf16), b = odd.input("b", {33, 32}, bf16);
  odd.set_outputs({matmul(cast(a, f32), cast(b, f32))});
  expect_same(*cpu, odd, {random_bf16(8 * 33, random), random_bf16(33 * 32, random)}, false);
  Graph mixed("mixed");
  const Tensor c = mixed.input("a", {8, 32}, bf16), d = mixed.input("b", {32, 32});
  mixed.set_outputs({matmul(cast(c, f32), d)});
  expect_same(*cpu, mixed, {random_bf16(8 * 32, random), random_f32(32 * 32, random)}, false);
}

ON_EVERY_PATH(CpuPairs);

}  // namespace
}  // namespace wholestep::test
