#include "ops/evaluate.h"

namespace wholestep {
namespace {

using testing::elements_of;
using testing::expect_error;
using testing::gradient;
using testing::Values;

using Doubles = std::vector<double>;

const Array kA = Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
const Array kB = Array::from<float>({1, 0, 2, 1, 0, 3}, {3, 2});

TEST(MatMul, MultipliesRowsByColumns) {
  Graph g;
  EXPECT_EQ(elements_of(matmul(g.constant(kA), g.constant(kB))), (Doubles{5, 11, 14, 23}));
}

TEST(MatMul, ReadsFlaggedOperandsTransposed) {
  Graph g;
  Tensor a = g.constant(kA), b = g.constant(kB), at = transpose(a), bt = transpose(b);
  for (Tensor product : {matmul(at, b, true), matmul(a, bt, false, true), matmul(at, bt, true, true)}) {
    EXPECT_EQ(elements_of(product), (Doubles{5, 11, 14, 23}));
  }
}

TEST(MatMul, GradientsOfAllTransposesAreThoseOfTheProduct) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      Graph g;
      Tensor a = g.input("a", {2, 3}), b = g.input("b", {3, 2});
      Tensor weight = g.constant(Array::from<float>({1, 2, 3, 4}, {2, 2}));
      Tensor y = matmul(ta ? transpose(a) : a, tb ? transpose(b) : b, ta, tb);
      const Values values{{"a", kA}, {"b", kB}};
      EXPECT_EQ(elements_of(gradient(mul(y, weight), a), values), (Doubles{1, 4, 6, 3, 10, 12})) << ta << tb;
      EXPECT_EQ(elements_of(gradient(mul(y, weight), b), values), (Doubles{13, 18, 17, 24, 21, 30})) << ta << tb;
    }
  }
}

TEST(MatMul, GradientsHoldNoTransposes) {
  Graph g;
  Tensor a = g.input("a", {2, 3}), b = g.input("b", {3, 2});
  gradient(matmul(a, b), a);
  gradient(matmul(a, b), b);
  EXPECT_TRUE(g.nodes_of("transpose").empty());
}

TEST(MatMul, BroadcastsBatchAxes) {
  Graph g;
  Tensor a = g.input("a", {2, 1, 2, 3}), b = g.input("b", {4, 3, 5});
  EXPECT_EQ(matmul(a, b).shape(), (Shape{2, 4, 2, 5}));
  expect_error(ErrorCode::shape_mismatch, {"matmul", "[2]", "[3]"},
               [&] { matmul(g.input("c", {2, 2, 2}), g.input("d", {3, 2, 2})); });
}

TEST(MatMul, OfManyMatricesAndOneMatrixIsOneProduct) {
  Graph g;
  Tensor x = g.input("x", {2, 3, 4}), w = g.input("w", {4, 5});
  Tensor y = matmul(x, w);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
  EXPECT_TRUE(g.nodes_of("broadcast").empty());
  EXPECT_EQ(gradient(y, w).shape(), (Shape{4, 5}));
  EXPECT_EQ(matmul(x, g.input("v", {6, 4}), false, true).shape(), (Shape{2, 3, 6}));
}

TEST(MatMul, GradientOfABroadcastBatchIsItsSum) {
  Graph g;
  Tensor a = g.input("a", {1, 2, 3}), b = g.constant(Array::from<float>(std::vector<float>(12, 1), {2, 3, 2}));
  EXPECT_EQ(elements_of(gradient(matmul(a, b), a), {{"a", Array(f32, {1, 2, 3})}}), Doubles(6, 4));
}

TEST(MatMul, OverNoElementsIsZero) {
  Graph g;
  Tensor a = g.input("a", {2, 0}), b = g.input("b", {0, 2});
  EXPECT_EQ(elements_of(matmul(a, b), {{"a", Array(f32, {2, 0})}, {"b", Array(f32, {0, 2})}}), Doubles(4, 0));
}

TEST(MatMul, WrapsIntegers) {
  Graph g;
  Tensor a = g.constant(Array::from<std::int32_t>({1 << 30, 1 << 30}, {1, 2}));
  Tensor b = g.constant(Array::from<std::int32_t>({2, 1}, {2, 1}));
  EXPECT_EQ(elements_of(matmul(a, b)), (Doubles{-1073741824.0}));
}

TEST(MatMul, OfHalfPrecisionAccumulatesInMore) {
  Graph g;
  EXPECT_EQ(elements_of(matmul(g.full({1, 1000}, 1, bf16), g.full({1000, 1}, 1, bf16))), (Doubles{1000}));
}

TEST(MatMul, RefusesWhatItCannotMultiplyAndNamesTheShapes) {
  Graph g;
  Tensor a = g.input("a", {2, 3});
  expect_error(ErrorCode::shape_mismatch, {"matmul", "3 and 2", "f32[2, 3]"}, [&] { matmul(a, a); });
  expect_error(ErrorCode::shape_mismatch, {"matmul", "rank"}, [&] { matmul(a, g.input("v", {3})); });
  expect_error(ErrorCode::dtype_mismatch, {"matmul", "f64"}, [&] { matmul(a, g.input("d", {3, 2}, f64)); });
  Tensor flags = g.input("f", {2, 2}, boolean);
  expect_error(ErrorCode::dtype_mismatch, {"matmul", "bool"}, [&] { matmul(flags, flags); });
}

}  // namespace
}  // namespace wholestep
