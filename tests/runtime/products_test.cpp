// Products whose operands are made on the way, or whose results are used on the way, are those of arrays in memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/random.h"
#include "support/devices.h"
#include "wholestep/ops.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

class Products : public testing::OnEachDevice {
 protected:
  void expect_same_fused(const Graph& graph, const Inputs& inputs, const std::string& what) const {
    const Session session(GetParam());
    const std::vector<Array> fused = session.compile(graph).run(inputs);
    const std::vector<Array> plain = session.compile(graph, {.fusion = false}).run(inputs);
    const std::vector<Array> exact = Session(Device::reference()).compile(graph).run(inputs);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      ASSERT_EQ(std::memcmp(fused[i].data(), plain[i].data(), fused[i].bytes()), 0) << what << ", output " << i;
      const std::vector<double> got = fused[i].to_doubles(), expected = exact[i].to_doubles();
      for (std::size_t k = 0; k < got.size(); ++k)
        ASSERT_NEAR(got[k], expected[k], 1e-5 * (1 + std::abs(expected[k]))) << what << ", output " << i;
    }
  }

  template <class T>
  static std::vector<T> numbers(std::int64_t count, std::uint64_t below) {
    std::vector<T> values;
    random::Stream random(static_cast<std::uint64_t>(count), below);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto number = static_cast<double>(random.below(below));
      values.push_back(
          static_cast<T>(std::is_floating_point_v<T> ? number / static_cast<double>(below) - 0.5 : number));
    }
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(On, Products, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(Products, WithALeftOperandOfBytesHasTheSameBitsInBothDirections) {
  for (const std::int64_t batch : {1, 3, 64}) {
    for (const std::int64_t depth : {17, 300, 1100}) {
      for (const std::int64_t width : {10, 40}) {
        const auto pixels = numbers<std::uint8_t>(batch * depth, 256);
        const auto weights = numbers<float>(depth * width, 1000), slopes = numbers<float>(batch * width, 1000);
        Graph g;
        const Tensor x = (cast(g.input("x", {batch, depth}, DType::u8), DType::f32) / 255.0 - 0.5) * 2.0;
        g.set_outputs({matmul(x, g.input("w", {depth, width})), matmul(x, g.input("d", {batch, width}), true, false)});
        expect_same_fused(
            g, {{"x", pixels}, {"w", weights}, {"d", slopes}},
            "batch " + std::to_string(batch) + " depth " + std::to_string(depth) + " width " + std::to_string(width));
      }
    }
  }
}

TEST_P(Products, WithALeftOperandOfGatheredRowsHasTheSameBits) {
  const auto pixels = numbers<std::uint8_t>(50 * 33, 256);
  const auto weights = numbers<float>(33 * 20, 1000), slopes = numbers<float>(40 * 20, 1000);
  const auto rows = numbers<std::int32_t>(40, 50);
  Graph g;
  const Tensor x =
      cast(gather_rows(g.input("data", {50, 33}, DType::u8), g.input("rows", {40}, DType::i32)), DType::f32) / 127.5;
  g.set_outputs({matmul(x, g.input("w", {33, 20})), matmul(x, g.input("d", {40, 20}), true, false)});
  expect_same_fused(g, {{"data", pixels}, {"rows", rows}, {"w", weights}, {"d", slopes}}, "rows");
}

TEST_P(Products, WithALeftOperandThatIsAlsoAnOutputOrARightOperandHasTheSameBits) {
  const auto pixels = numbers<std::uint8_t>(24 * 24, 256);
  Graph g;
  const Tensor x = cast(g.input("x", {24, 24}, DType::u8), DType::f32) / 3.0;
  g.set_outputs({matmul(x, x), matmul(x, x, true, false), x, matmul(reshape(x, {2, 12, 24}), reshape(x, {2, 24, 12}))});
  expect_same_fused(g, {{"x", pixels}}, "square");
}

// Sizes at which the operands are swapped, and at which they are not.
TEST_P(Products, OfASecondOperandThatIsStoredTransposedHaveTheBitsOfOneThatIsNot) {
  for (const std::int64_t batch : {1, 7, 64}) {
    const std::int64_t depth = 520, width = 600;
    const auto w = numbers<float>(depth * width, 1000), x = numbers<float>(batch * depth, 1000);
    std::vector<float> turned(w.size());
    for (std::int64_t i = 0; i < depth; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        turned[static_cast<std::size_t>(j * depth + i)] = w[static_cast<std::size_t>(i * width + j)];
    Graph g;
    const Tensor a = g.input("a", {batch, depth}), at = transpose(a), b = g.input("b", {depth, width}),
                 bt = g.input("bt", {width, depth});
    g.set_outputs({matmul(a, b), matmul(a, bt, false, true), matmul(a, transpose(bt)), matmul(at, bt, true, true),
                   relu(matmul(a, bt, false, true))});
    const std::vector<Array> results = Session(GetParam()).compile(g).run({{"a", x}, {"b", w}, {"bt", turned}});
    for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(results[i].same_bits(results[0])) << batch << ", output " << i;
    expect_same_fused(g, {{"a", x}, {"b", w}, {"bt", turned}}, "batch " + std::to_string(batch));
  }
}

TEST_P(Products, OfBatchesOfStoredTransposedMatricesAreRight) {
  const auto x = numbers<float>(2 * 3 * 200, 1000), w = numbers<float>(2 * 500 * 200, 1000);
  Graph g;
  g.set_outputs({matmul(g.input("x", {2, 3, 200}), g.input("w", {2, 500, 200}), false, true)});
  expect_same_fused(g, {{"x", x}, {"w", w}}, "two");
}

TEST_P(Products, TranspositionsOfAnySizeMoveEachElement) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{700, 523}, {512, 1024}, {16, 2048}}) {
    const auto bytes = numbers<std::uint8_t>(rows * columns, 256);
    Graph g;
    const Tensor x = g.input("x", {rows, columns}, DType::u8);
    const Tensor wide = cast(x, DType::f64), half = cast(x, DType::bf16);
    g.set_outputs({transpose(x), transpose(wide) * 3.0, transpose(half) + transpose(half),
                   transpose(reshape(x, {rows, 1, columns}), {2, 1, 0}), concat({transpose(x), transpose(x)}, 0),
                   pad(transpose(x), {1, 2}, {3, 4})});
    const std::vector<Array> found = Session(GetParam()).compile(g).run({{"x", bytes}});
    const std::vector<Array> expected = Session(Device::reference()).compile(g).run({{"x", bytes}});
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].same_bits(expected[i])) << rows << ", " << i;
  }
}

TEST_P(Products, TranspositionsOfNothingAreEmpty) {
  const std::vector<float> values(512 * 1024);
  Graph g;
  const Tensor x = g.input("x", {1024, 512});
  g.set_outputs({transpose(slice(x, {0, 5}, {1024, 5})), transpose(slice(x, {5, 0}, {5, 512}))});
  const std::vector<Array> found = Session(GetParam()).compile(g).run({{"x", values}});
  EXPECT_EQ(found[0].shape(), (Shape{0, 1024}));
  EXPECT_EQ(found[1].shape(), (Shape{512, 0}));
}

TEST_P(Products, WithALeftOperandOfHalvesHasTheSameBits) {
  const auto weights = numbers<float>(30 * 20, 1000);
  const Array halves = [&] {
    Array made(DType::bf16, {40, 30});
    const auto values = numbers<std::uint8_t>(40 * 30 * 2, 64);
    std::memcpy(made.data(), values.data(), made.bytes());
    return made;
  }();
  Graph g;
  const Tensor x = cast(g.input("x", {40, 30}, DType::bf16), DType::f32) * 0.25;
  g.set_outputs({matmul(x, g.input("w", {30, 20}))});
  expect_same_fused(g, {{"x", halves}, {"w", weights}}, "halves");
}

// Long enough that it is a loop over the tile; `slope` is one number for each element, or for each column.
TEST_P(Products, OfSubnormalHalvesAreKeptWhereAsked) {
  const std::vector<float> tiny(2 * 4, 0x1p-130F), large(4 * 16, 0x1p100F);
  Graph g;
  const Tensor a = cast(g.input("a", {2, 4}), DType::bf16), b = cast(g.input("b", {4, 16}), DType::bf16);
  g.set_outputs({cast(matmul(a, b), DType::f32)});
  CompiledGraph compiled = Session(GetParam()).compile(g, {.flush_subnormals = false});
  for (const double value : compiled.run({{"a", tiny}, {"b", large}})[0].to_doubles()) EXPECT_EQ(value, 0x1p-28);
}

TEST_P(Products, OfFewColumnsWithALongEpilogueHaveTheSameBits) {
  for (const std::int64_t rows : {1, 37}) {
    for (const std::int64_t columns : {1, 10, 20, 33}) {
      for (const std::int64_t depth : {7, 1100}) {
        for (const bool per_column : {false, true}) {
          const Shape shape = per_column ? Shape{columns} : Shape{rows, columns};
          Graph g;
          Tensor y = matmul(g.input("a", {rows, depth}), g.input("b", {depth, columns}));
          const Tensor slope = g.input("slope", shape);
          const Tensor average = y * 0.1 + slope * 0.9, spread = square(y) * 0.01 + square(slope) * 0.99;
          y = slope * 0.5 - average / (sqrt(spread) + 0.5);
          g.set_outputs({y, average, spread});
          const auto a = numbers<float>(rows * depth, 1000), b = numbers<float>(depth * columns, 999);
          const Array c = Array::from(numbers<float>(per_column ? columns : rows * columns, 998), shape);
          expect_same_fused(g, {{"a", a}, {"b", b}, {"slope", c}},
                            std::to_string(rows) + " x " + std::to_string(depth) + " x " + std::to_string(columns));
        }
      }
    }
  }
}

}  // namespace
}  // namespace wholestep
