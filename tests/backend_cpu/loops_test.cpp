#include <cmath>
#include <numeric>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

class CpuLoops : public OnEveryPath {};

std::vector<float> counting(std::int64_t count, float first = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

template <class T = float>
std::vector<T> contents(const TestNest& test, int buffer) {
  const auto values = test.arrays[static_cast<std::size_t>(buffer)].as<T>();
  return {values.begin(), values.end()};
}

TEST_P(CpuLoops, MaskTheTailOfEveryLength) {
  for (std::int64_t count = 0; count <= 2 * lanes() + 1; ++count) {
    TestNest test(lanes());
    const int in = test.buffer(counting(count)),
              out = test.buffer(std::vector<float>(static_cast<std::size_t>(count) + 40, -7), true);
    ExprBuilder exprs = test.exprs();
    const ExprId twice = exprs.binary(BinaryOp::add, load(exprs, test, in, var(0)), load(exprs, test, in, var(0)));
    test.nest.body.push_back(loop(0, count, LoopKind::vector, {store(out, var(0), twice)}));
    test.run(*cpu);
    const auto result = contents(test, out);
    for (std::size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i], static_cast<std::int64_t>(i) < count ? 2.0f * static_cast<float>(i + 1) : -7.0f)
          << count << " at " << i;
    }
  }
}

TEST_P(CpuLoops, LoadAndStoreAtAnyStride) {
  for (const std::int64_t stride : {-3, -1, 0, 2, 5}) {
    const std::int64_t count = lanes() + 3, start = stride < 0 ? -stride * (count - 1) : 0;
    TestNest test(lanes());
    const int in = test.buffer(counting(start + 5 * count)), out = test.output(f32, count);
    const int spread = test.output(f32, start + 5 * count);
    ExprBuilder exprs = test.exprs();
    const Affine at = var(0, stride) + Affine(start);
    test.nest.body.push_back(loop(0, count, LoopKind::vector,
                                  {store(out, var(0), load(exprs, test, in, stride == 0 ? Affine(start) : at)),
                                   store(spread, stride == 0 ? Affine(start) : at, load(exprs, test, in, var(0)))}));
    test.run(*cpu);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)], static_cast<float>(start + i * stride + 1)) << stride;
      const float expected = static_cast<float>(stride == 0 ? count : i + 1);
      EXPECT_EQ(contents(test, spread)[static_cast<std::size_t>(start + i * stride)], expected) << stride;
    }
  }
}

TEST_P(CpuLoops, NeverTouchMemoryBehindAFailedGuard) {
  // Reads [-5, count + 5) of an array whose neighbours on both sides are an unreadable page away at most.
  for (const std::int64_t stride : {1, 3}) {
    for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
      const std::int64_t count = 2 * lanes() + 3, elements = count * stride;
      TestNest test(lanes());
      const int in = test.buffer(counting(elements)), out = test.output(f32, count + 10);
      ExprBuilder exprs = test.exprs();
      const ExprId x = load(exprs, test, in, (var(0) + Affine(-5)) * stride, {Guard{var(0) + Affine(-5), 0, count}});
      const ExprId inside = exprs.in_range({Guard{var(0), 5, count + 5}});
      const ExprId marked = exprs.select(inside, x, exprs.constant(-1, f32));
      test.nest.body.push_back(loop(0, count + 10, kind, {store(out, var(0), marked)}));
      test.run(*cpu);
      for (std::int64_t i = 0; i < count + 10; ++i) {
        const bool valid = i >= 5 && i < count + 5;
        EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)],
                  valid ? static_cast<float>((i - 5) * stride + 1) : -1.0f);
      }
    }
  }
}

TEST_P(CpuLoops, CombineScalarGuardsWithVectorLoads) {
  const std::int64_t count = lanes() + 2;
  TestNest test(lanes());
  const int in = test.buffer(counting(3 * count)), out = test.output(f32, 5 * count);
  ExprBuilder exprs = test.exprs();
  const ExprId x = load(exprs, test, in, (var(1) + Affine(-1)) * count + var(0), {Guard{var(1), 1, 4}});
  test.nest.body.push_back(
      loop(1, 5, LoopKind::serial, {loop(0, count, LoopKind::vector, {store(out, var(1, count) + var(0), x)})}));
  test.run(*cpu);
  for (std::int64_t i = 0; i < 5 * count; ++i) {
    const bool valid = i >= count && i < 4 * count;
    EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)], valid ? static_cast<float>(i - count + 1) : 0.0f);
  }
}

TEST_P(CpuLoops, GatherRowsAndClampTheirNumbers) {
  const std::vector<std::int32_t> rows = {2, -9, 1, 77, 0, 3, 3, 1, 2, 0, 1, 2, 3, -1, 4, 0, 2, 1};
  const auto count = static_cast<std::int64_t>(rows.size());
  for (const bool along_rows : {true, false}) {
    TestNest test(lanes());
    const std::int64_t width = 5;
    const int table = test.buffer(counting(4 * width)), index = test.buffer(rows),
              out = test.output(f32, count * width);
    ExprBuilder exprs = test.exprs();
    const ExprId row = load(exprs, test, index, var(0));
    const ExprId x = exprs.gather(table, f32, var(1), row, width, 4, {});
    const Block body = {store(out, var(0, width) + var(1), x)};
    if (along_rows) {
      test.nest.body.push_back(loop(1, width, LoopKind::serial, {loop(0, count, LoopKind::vector, body)}));
    } else {
      test.nest.body.push_back(loop(0, count, LoopKind::serial, {loop(1, width, LoopKind::vector, body)}));
    }
    test.run(*cpu);
    for (std::int64_t i = 0; i < count * width; ++i) {
      const std::int64_t row_number =
          std::min<std::int64_t>(3, std::max<std::int64_t>(0, rows[static_cast<std::size_t>(i / width)]));
      EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)],
                static_cast<float>(row_number * width + i % width + 1));
    }
  }
}

TEST_P(CpuLoops, AddToRowsInRangeAndDropTheOthers) {
  const std::vector<std::int64_t> rows = {1, 3, 1, -1, 4, 0, 1, 9, 3};
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t width = lanes() + 3;
  for (const bool along_rows : {true, false}) {
    TestNest test(lanes());
    const int updates = test.buffer(counting(count * width)), index = test.buffer(rows);
    const int out = test.buffer(counting(4 * width, 100), true);
    std::vector<float> expected = contents(test, out);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = rows[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < width && row >= 0 && row < 4; ++j) {
        expected[static_cast<std::size_t>(row * width + j)] += static_cast<float>(i * width + j + 1);
      }
    }
    ExprBuilder exprs = test.exprs();
    loops::Store add{
        out, var(1), load(exprs, test, updates, var(0, width) + var(1)), load(exprs, test, index, var(0)), width, 4};
    const Block body = {{schedule::StoreTo{add}}};
    if (along_rows) {
      test.nest.body.push_back(loop(1, width, LoopKind::serial, {loop(0, count, LoopKind::vector, body)}));
    } else {
      test.nest.body.push_back(loop(0, count, LoopKind::serial, {loop(1, width, LoopKind::vector, body)}));
    }
    test.run(*cpu);
    EXPECT_EQ(contents(test, out), expected);
  }
}

TEST_P(CpuLoops, ReduceLanesInATreeOfHalves) {
  for (const std::int64_t count : {1, 3, 16, 37, 100}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::ldexp(static_cast<float>((i * 37) % 101) + 0.1f, static_cast<int>(i % 7));
    TestNest test(lanes());
    const int in = test.buffer(values), out = test.output(f32, 2);
    const int sum = test.registers(f32, 1, schedule::Lanes::together),
              largest = test.registers(f32, 1, schedule::Lanes::together);
    ExprBuilder exprs = test.exprs();
    const ExprId x = load(exprs, test, in, var(0));
    auto in_register = [&](int array) {
      return exprs.add({.kind = loops::ExprKind::accumulator, .dtype = f32, .buffer = array});
    };
    auto across = [&](int array, ReduceOp op) {
      return exprs.add({.kind = loops::ExprKind::horizontal, .dtype = f32, .reduce = op, .buffer = array});
    };
    test.nest.body = {set(sum, 0, exprs.constant(0, f32)), set(largest, 0, exprs.constant(-1e30, f32)),
                      loop(0, count, LoopKind::vector,
                           {set(sum, 0, exprs.binary(BinaryOp::add, in_register(sum), x)),
                            set(largest, 0, exprs.binary(BinaryOp::max, in_register(largest), x))}),
                      store(out, 0, across(sum, ReduceOp::sum)), store(out, 1, across(largest, ReduceOp::max))};
    test.run(*cpu);
    std::vector<float> lane(static_cast<std::size_t>(lanes()), 0);
    for (std::size_t i = 0; i < values.size(); ++i) lane[i % lane.size()] += values[i];
    for (std::size_t width = lane.size() / 2; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    EXPECT_EQ(contents(test, out)[0], lane[0]) << count;
    EXPECT_EQ(contents(test, out)[1], *std::max_element(values.begin(), values.end())) << count;
  }
}

TEST_P(CpuLoops, MultiplyMatricesInRegisterTiles) {
  const std::int64_t m = 13, k = 29, n = 2 * lanes() * 2 + 5, rows = 6, width = 2 * lanes();
  std::vector<float> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>((i * 7) % 11) - 5;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>((i * 5) % 13) - 6;
  TestNest test(lanes());
  const int left = test.buffer(a), right = test.buffer(b), out = test.output(f32, m * n);
  ExprBuilder exprs = test.exprs();
  enum : loops::Var { kRowTile, kColumnTile, kDepth, kFirstFree };
  loops::Var next = kFirstFree;
  auto tile = [&](std::int64_t tile_rows, std::int64_t columns) {
    const std::int64_t vectors = (columns + lanes() - 1) / lanes();
    const int sums = test.registers(f32, tile_rows * vectors, schedule::Lanes::apart);
    auto each = [&](auto make) {
      Block made;
      for (std::int64_t j = 0; j < vectors; ++j) {
        const loops::Var lane = next++, i = next++;
        const Affine row = var(kRowTile, rows) + var(i),
                     column = var(kColumnTile, width) + Affine(j * lanes()) + var(lane);
        Block step = {make(row, column, var(i, vectors) + Affine(j))};
        made.push_back(loop(lane, std::min<std::int64_t>(lanes(), columns - j * lanes()), LoopKind::vector,
                            {loop(i, tile_rows, LoopKind::unroll, step)}));
      }
      return made;
    };
    auto in_register = [&](const Affine& slot) {
      return exprs.add({.kind = loops::ExprKind::accumulator, .dtype = f32, .buffer = sums, .index = slot});
    };
    const loops::Var slot = next++;
    Block block = {loop(slot, tile_rows * vectors, LoopKind::unroll, {set(sums, var(slot), exprs.constant(0, f32))})};
    block.push_back(
        loop(kDepth, k, LoopKind::serial, each([&](const Affine& row, const Affine& column, const Affine& at) {
               const ExprId x = load(exprs, test, left, row * k + var(kDepth));
               const ExprId y = load(exprs, test, right, var(kDepth, n) + column);
               return set(sums, at, exprs.fma(x, y, in_register(at)));
             })));
    for (auto& statement : each([&](const Affine& row, const Affine& column, const Affine& at) {
           return store(out, row * n + column, in_register(at));
         })) {
      block.push_back(std::move(statement));
    }
    return block;
  };
  auto by_rows = [&](std::int64_t columns) {
    return Block{{schedule::Branch{var(kRowTile), m / rows, tile(rows, columns), tile(m % rows, columns)}}};
  };
  test.nest.grid = {{kRowTile, (m + rows - 1) / rows}, {kColumnTile, (n + width - 1) / width}};
  test.nest.body = {{schedule::Branch{var(kColumnTile), n / width, by_rows(width), by_rows(n % width)}}};
  test.run(*cpu);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a[static_cast<std::size_t>(i * k + p)] * b[static_cast<std::size_t>(p * n + j)];
      ASSERT_EQ(contents(test, out)[static_cast<std::size_t>(i * n + j)], sum) << i << "," << j;
    }
  }
}

TEST_P(CpuLoops, ReadAllValuesBeforeTheFirstOfAdjacentStores) {
  const std::int64_t count = lanes() + 1;
  TestNest test(lanes());
  const int a = test.buffer(counting(count), true), b = test.buffer(counting(count, 100), true);
  ExprBuilder exprs = test.exprs();
  test.nest.body.push_back(
      loop(0, count, LoopKind::vector,
           {store(a, var(0), load(exprs, test, b, var(0))), store(b, var(0), load(exprs, test, a, var(0)))}));
  test.run(*cpu);
  EXPECT_EQ(contents(test, a), counting(count, 100));
  EXPECT_EQ(contents(test, b), counting(count));
}

TEST_P(CpuLoops, SeeEarlierStoresOfTheSameTask) {
  const std::int64_t count = lanes() + 1;
  TestNest test(lanes());
  const int in = test.buffer(counting(count)), out = test.output(f32, count), scratch = test.local(f32, count);
  ExprBuilder exprs = test.exprs();
  const ExprId kept = load(exprs, test, scratch, var(0, -1) + Affine(count - 1));
  const ExprId again = load(exprs, test, scratch, var(0));
  test.nest.body = {loop(0, count, LoopKind::vector, {store(scratch, var(0), load(exprs, test, in, var(0)))}),
                    loop(0, count, LoopKind::serial,
                         {store(out, var(0), kept), store(scratch, var(0), exprs.binary(BinaryOp::add, again, again))}),
                    loop(0, count, LoopKind::vector,
                         {store(out, var(0), exprs.binary(BinaryOp::add, load(exprs, test, out, var(0)), again))})};
  test.run(*cpu);
  // The second loop reverses while it doubles: its later half reads what its earlier half wrote.
  std::vector<float> memory = counting(count), expected(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    expected[i] = memory[memory.size() - 1 - i];
    memory[i] += memory[i];
  }
  for (std::size_t i = 0; i < memory.size(); ++i) expected[i] += memory[i];
  EXPECT_EQ(contents(test, out), expected);
}

TEST_P(CpuLoops, DecodeTasksInRowMajorOrder) {
  TestNest test;
  const int out = test.output(i64, 3 * 1 * 4 * 5);
  ExprBuilder exprs = test.exprs();
  test.nest.grid = {{0, 3}, {1, 1}, {2, 4}, {3, 5}};
  const Affine at = var(0, 20) + var(1, 1000) + var(2, 5) + var(3);
  test.nest.body = {store(out, at, exprs.index(var(0, 100) + var(2, 10) + var(3)))};
  test.run(*cpu);
  for (std::int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(contents<std::int64_t>(test, out)[static_cast<std::size_t>(i)], i / 20 * 100 + i / 5 % 4 * 10 + i % 5);
  }
}

TEST_P(CpuLoops, RunFromAndToWhatIsInMemory) {
  constexpr std::int64_t kExtent = 9;
  for (const auto& [begin, end] : {std::pair<float, float>{2, 5}, {-3, 4}, {6, 1e20f}, {0, 0}, {7, 3}, {-1e20f, -1}}) {
    TestNest test(lanes());
    const int bounds = test.buffer(std::vector<float>{begin, end}), out = test.output(f32, kExtent);
    ExprBuilder exprs = test.exprs();
    const auto bound = [&](std::int64_t at) { return exprs.cast(load(exprs, test, bounds, at), DType::i64); };
    schedule::Loop narrowed{0, kExtent, LoopKind::serial, {store(out, var(0), exprs.constant(1, f32))}};
    narrowed.begin = bound(0);
    narrowed.end = bound(1);
    test.nest.body = {{narrowed}};
    test.run(*cpu);
    for (std::int64_t i = 0; i < kExtent; ++i) {
      const auto at = static_cast<float>(i);
      EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)], begin <= at && at < end ? 1 : 0)
          << i << " of " << begin << " to " << end;
    }
  }
}

TEST_P(CpuLoops, EvaluateBoundsEachTimeTheLoopIsEntered) {
  // Row i, to the left of the diagonal.
  constexpr std::int64_t n = 5;
  TestNest test(lanes());
  const int out = test.output(f32, n * n);
  ExprBuilder exprs = test.exprs();
  schedule::Loop row{1, n, LoopKind::serial, {store(out, var(0, n) + var(1), exprs.constant(1, f32))}};
  row.end = exprs.index(var(0));
  test.nest.body = {loop(0, n, LoopKind::serial, {{row}})};
  test.run(*cpu);
  for (std::int64_t i = 0; i < n * n; ++i)
    EXPECT_EQ(contents(test, out)[static_cast<std::size_t>(i)], i % n < i / n ? 1 : 0) << i;
}

TEST_P(CpuLoops, RefuseANestThatBreaksTheRules) {
  auto message_of = [&](TestNest& test) -> std::string {
    try {
      cpu->build(test.plan(), Graph("test"), {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
      return error.what();
    }
    return "built";
  };
  {
    TestNest test(lanes());
    const int in = test.buffer(counting(4)), out = test.output(f32, 4);
    test.nest.body = {store(out, var(9), load(test.exprs(), test, in, 0))};
    EXPECT_NE(message_of(test).find("v9"), std::string::npos);
  }
  {
    TestNest test(lanes());
    const int sums = test.registers(f32, 2, schedule::Lanes::one);
    test.nest.body = {loop(0, 2, LoopKind::serial, {set(sums, var(0), test.exprs().constant(0, f32))})};
    EXPECT_NE(message_of(test).find("register"), std::string::npos);
  }
  {
    TestNest test(lanes());
    const int out = test.output(f32, 4);
    test.nest.body = {store(out, 0, test.exprs().constant(1, i32))};
    EXPECT_NE(message_of(test).find("i32"), std::string::npos);
  }
}

ON_EVERY_PATH(CpuLoops);

}  // namespace
}  // namespace wholestep::test
