#include "graph/op.h"
#include "ops/evaluate.h"

namespace wholestep {
namespace {

using testing::elements_of;
using testing::expect_error;
using testing::gradient;
using testing::Values;

using Doubles = std::vector<double>;

const Array kTable = Array::from<float>({0, 1, 10, 11, 20, 21}, {3, 2});

TEST(GatherRows, TakesRowsByIndexOfAnyShape) {
  Graph g;
  Tensor table = g.constant(kTable);
  EXPECT_EQ(elements_of(gather_rows(table, g.constant(Array::from<std::int64_t>({2, 0, 2})))),
            (Doubles{20, 21, 0, 1, 20, 21}));
  EXPECT_EQ(elements_of(gather_rows(table, g.constant(1, i32))), (Doubles{10, 11}));
  EXPECT_EQ(gather_rows(table, g.input("i", {4, 5}, i32)).shape(), (Shape{4, 5, 2}));
}

TEST(GatherRows, MovesIndicesOutsideToTheNearestRow) {
  Graph g;
  Tensor rows = gather_rows(g.constant(kTable), g.constant(Array::from<std::int32_t>({-7, 9})));
  EXPECT_EQ(elements_of(rows), (Doubles{0, 1, 20, 21}));
}

TEST(GatherRows, GradientAddsUpRowsThatAreTakenTwice) {
  Graph g;
  Tensor table = g.input("table", {3, 2});
  Tensor rows = gather_rows(table, g.constant(Array::from<std::int32_t>({2, 0, 2, 9})));
  EXPECT_EQ(elements_of(gradient(rows, table), {{"table", kTable}}), (Doubles{1, 1, 0, 0, 3, 3}));
}

TEST(GatherRows, RefusesScalarsFloatIndicesAndTablesWithoutRows) {
  Graph g;
  Tensor index = g.input("i", {2}, i32);
  expect_error(ErrorCode::shape_mismatch, {"gather_rows"}, [&] { gather_rows(g.input("s", {}), index); });
  expect_error(ErrorCode::dtype_mismatch, {"gather_rows", "integer"},
               [&] { gather_rows(g.constant(kTable), g.input("f", {2})); });
  expect_error(ErrorCode::shape_mismatch, {"gather_rows", "no rows"},
               [&] { gather_rows(g.input("e", {0, 2}), index); });
}

TEST(GatherRows, DeclaresTheBoundOfItsIndices) {
  const OpDef& op = *op_table().find("gather_rows");
  ASSERT_TRUE(op.index_operand);
  EXPECT_EQ(op.index_operand->operand, 1);
  EXPECT_EQ(op.index_operand->bound({{f32, {7, 2}}, {i32, {3}}}, {}), 7);
}

TEST(ScatterAddRows, AddsInOrderAndDropsRowsOutside) {
  Graph g;
  Tensor base = g.constant(kTable), indices = g.constant(Array::from<std::int32_t>({1, -1, 1, 3}));
  Tensor updates = g.constant(Array::from<float>({1, 2, 100, 100, 3, 4, 100, 100}, {4, 2}));
  EXPECT_EQ(elements_of(scatter_add_rows(base, indices, updates)), (Doubles{0, 1, 14, 17, 20, 21}));
}

TEST(ScatterAddRows, GradientOfADroppedRowIsZero) {
  Graph g;
  Tensor base = g.input("base", {3, 2}), updates = g.input("updates", {3, 2});
  Tensor y =
      mul(scatter_add_rows(base, g.constant(Array::from<std::int32_t>({2, -1, 2})), updates), g.constant(kTable));
  const Values values{{"base", kTable}, {"updates", Array(f32, {3, 2})}};
  EXPECT_EQ(elements_of(gradient(y, updates), values), (Doubles{20, 21, 0, 0, 20, 21}));
  EXPECT_EQ(elements_of(gradient(y, base), values), (Doubles{0, 1, 10, 11, 20, 21}));
}

TEST(ScatterAddRows, RefusesUpdatesOfAnotherShapeOrType) {
  Graph g;
  Tensor base = g.constant(kTable), indices = g.input("i", {4}, i32);
  expect_error(ErrorCode::shape_mismatch, {"scatter_add_rows", "[4, 2]", "f32[4, 3]"},
               [&] { scatter_add_rows(base, indices, g.input("u", {4, 3})); });
  expect_error(ErrorCode::dtype_mismatch, {"scatter_add_rows"},
               [&] { scatter_add_rows(base, indices, g.input("d", {4, 2}, f64)); });
}

}  // namespace
}  // namespace wholestep
