#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "loops/fuse.h"
#include "passes/passes.h"
#include "schedule/nest.h"
#include "wholestep/ops.h"

namespace wholestep::schedule {
namespace {

const Target kWide{"test", 64, 32, true};
const Target kNarrow{"test", 16, 16, false};

Nest nest_of(const Graph& graph, const Target& target) {
  const std::vector<loops::Kernel> kernels = loops::fuse(loops::prepare(passes::run_pipeline(graph)), {});
  EXPECT_EQ(kernels.size(), 1u);
  return schedule(kernels.front(), target);
}

Graph product(std::int64_t m, std::int64_t k, std::int64_t n) {
  Graph g;
  g.set_outputs({matmul(g.input("a", {m, k}), g.input("b", {k, n}))});
  return g;
}

void for_each_loop(const Block& block, const std::function<void(const Loop&)>& visit) {
  for (const Stmt& stmt : block) {
    if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
      visit(*loop);
      for_each_loop(loop->body, visit);
    } else if (const auto* branch = std::get_if<Branch>(&stmt.node)) {
      for_each_loop(branch->then, visit);
      for_each_loop(branch->otherwise, visit);
    }
  }
}

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

TEST(Contraction, KeepsItsSumsAndOperandsInTheRegistersThatTheTargetHas) {
  for (const Target& target : {kWide, kNarrow}) {
    for (std::int64_t m : {1, 7, 64, 784}) {
      for (std::int64_t n : {1, 10, 33, 128}) {
        const Nest nest = nest_of(product(m, 20, n), target);
        for (const AccumulatorArray& array : nest.accumulators) EXPECT_LT(array.slots, target.vector_registers);
      }
    }
  }
}

TEST(Contraction, TilesCoverEveryRowAndColumn) {
  const Nest nest = nest_of(product(64, 20, 128), kWide);
  std::int64_t rows = 0, lanes = 0;
  for_each_loop(nest.body, [&](const Loop& loop) {
    if (loop.kind == LoopKind::vector) lanes = std::max(lanes, loop.extent);
    if (loop.kind == LoopKind::unroll) rows = std::max(rows, loop.extent);
  });
  EXPECT_EQ(lanes, 16);
  EXPECT_GE(nest.tasks() * rows * 32, 64 * 128);
}

TEST(Contraction, MakesALeftOperandOfBytesOncePerRowTile) {
  Graph g;
  const Tensor x = cast(g.input("x", {256, 100}, DType::u8), DType::f32) / 255.0;
  g.set_outputs({matmul(x, g.input("w", {100, 128}))});
  const Nest nest = nest_of(g, kWide);
  int made = 0;
  for_each_loop(nest.body, [&](const Loop& loop) {
    for (const Stmt& stmt : loop.body) {
      const auto* store = std::get_if<StoreTo>(&stmt.node);
      if (store && nest.buffers[static_cast<std::size_t>(store->store.buffer)].value < 0) ++made;
    }
  });
  EXPECT_EQ(made, 2) << to_text(nest);  // for whole tiles and for the last
  EXPECT_EQ(nest.grid.size(), 1u) << to_text(nest);
  EXPECT_NE(nest.note.find("left operand made here"), std::string::npos) << nest.note;
}

std::size_t prefetches(const Block& block) {
  std::size_t count = 0;
  for (const Stmt& stmt : block) {
    count += std::holds_alternative<Prefetch>(stmt.node);
    if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
      count += prefetches(loop->body) * static_cast<std::size_t>(loop->extent);
    } else if (const auto* branch = std::get_if<Branch>(&stmt.node)) {
      count += std::max(prefetches(branch->then), prefetches(branch->otherwise));
    }
  }
  return count;
}

TEST(Contraction, FetchesWhatTheNextTileOfALeftOperandIsMadeOf) {
  for (const bool gathered : {false, true}) {
    for (const bool transposed : {false, true}) {
      Graph g;
      const Tensor images = g.input("images", {gathered ? 5000 : 60, 640}, u8);
      const Tensor x = gathered ? gather_rows(images, g.input("rows", {60}, i32)) : images;
      g.set_outputs({matmul(cast(x, f32), g.input("b", {transposed ? 60 : 640, 256}), transposed, false)});
      const std::vector<loops::Kernel> kernels = loops::fuse(loops::prepare(passes::run_pipeline(g)), {});
      const Nest nest = schedule(kernels.front(), kWide);
      EXPECT_NE(nest.note.find("left operand made here"), std::string::npos) << nest.note;
      // Each step of the depth once; rows that lie apart line by line; what is contiguous comes by itself.
      const std::size_t count = prefetches(nest.body);
      if (transposed) {
        EXPECT_EQ(count, 60u) << to_text(nest);
      } else if (gathered) {
        EXPECT_GE(count, 640u / 64) << to_text(nest);
      } else {
        EXPECT_EQ(count, 0u) << to_text(nest);
      }
    }
  }
}

// A product of ten columns and what is computed from each element of it and from `other`.
Graph narrow_product(const Shape& other) {
  Graph g;
  const Tensor y = matmul(g.input("a", {64, 20}), g.input("b", {20, 10})), x = g.input("x", other);
  g.set_outputs({x - (y * 0.1 + x * 0.9) / (sqrt(square(y) * 0.01 + square(x) * 0.99) + 1e-3)});
  return g;
}

std::int64_t longest_vector_loop(const Nest& nest) {
  std::int64_t longest = 0;
  for_each_loop(nest.body, [&](const Loop& loop) {
    if (loop.kind == LoopKind::vector) longest = std::max(longest, loop.extent);
  });
  return longest;
}

TEST(Contraction, WalksNarrowRowsAsOneAfterThem) {
  const Nest nest = nest_of(narrow_product({64, 10}), kWide);
  EXPECT_EQ(longest_vector_loop(nest) * nest.tasks(), 64 * 10) << to_text(nest);
}

TEST(Contraction, WalksRowByRowWhatIsTheSameForEveryRow) {
  const Nest nest = nest_of(narrow_product({10}), kWide);
  EXPECT_LE(longest_vector_loop(nest), kWide.vector_bytes / 4) << to_text(nest);
}

TEST(Contraction, LeavesIdleLanesAlone) {
  const Nest nest = nest_of(product(64, 20, 10), kWide);
  for (const AccumulatorArray& array : nest.accumulators) EXPECT_EQ(array.lanes, Lanes::apart) << to_text(nest);
}

TEST(Rows, ALongReductionHasIndependentPartialSums) {
  Graph g;
  g.set_outputs({sum(g.input("x", {8, 1000}), {1})});
  const Nest nest = nest_of(g, kWide);
  bool partial = false;
  for (const AccumulatorArray& array : nest.accumulators)
    partial = partial || (array.lanes == Lanes::together && array.slots == 4);
  EXPECT_TRUE(partial) << to_text(nest);
}

TEST(Points, AreCutIntoTasksByTheProblemAlone) {
  Graph g;
  g.set_outputs({exp(g.input("x", {1000, 1000}))});
  const Nest nest = nest_of(g, kWide);
  EXPECT_GT(nest.tasks(), 16);
  EXPECT_GT(nest.task_cost, 500);
}

TEST(Points, OfALargeTranspositionFollowWhatIsRead) {
  const auto note_of = [](std::int64_t rows, std::int64_t columns) {
    Graph g;
    g.set_outputs({exp(transpose(g.input("x", {columns, rows})))});
    return nest_of(g, kWide).note;
  };
  for (const auto& [rows, columns] : {std::pair(1024, 1024), {512, 512}, {300, 700}, {128, 40}})
    EXPECT_NE(note_of(rows, columns).find("rows of a vector"), std::string::npos) << rows << " x " << columns;
  // Few lines, which stay in the cache until all of them has been read.
  for (const auto& [rows, columns] : {std::pair(49 * 16, 128), {10, 128}, {1024, 16}})
    EXPECT_EQ(note_of(rows, columns).find("rows of a vector"), std::string::npos) << rows << " x " << columns;
}

TEST(Verifier, RefusesToReduceLanesThatAreApart) {
  Graph g;
  g.set_outputs({sum(g.input("x", {8, 1000}), {1})});
  Nest nest = nest_of(g, kWide);
  for (AccumulatorArray& array : nest.accumulators) array.lanes = Lanes::apart;
  EXPECT_EQ(code_of([&] { verify(nest); }), ErrorCode::invalid_graph);
}

TEST(Sequences, LeaveOutTheVectorsOfANarrowedAxisThatHaveNoPart) {
  Graph g;
  g.set_outputs({g.apply("householder", {g.input("a", {200, 200})})});
  const Nest nest = nest_of(g, kWide);
  bool rows = false, groups = false;
  for_each_loop(nest.body, [&](const Loop& loop) {
    if (loop.begin == loops::kNoExpr) return;
    EXPECT_EQ(loop.kind, LoopKind::serial);
    rows = rows || loop.extent == 200;
    groups = groups || loop.extent == 400 / 16;
  });
  EXPECT_TRUE(rows && groups) << to_text(nest);
}

TEST(Sequences, MakeSumsOfSomeVectorsSideBySide) {
  Graph g;
  g.set_outputs({triangular_solve(g.input("a", {50, 50}), g.input("b", {50, 128}), true)});
  const Nest nest = nest_of(g, kWide);
  ASSERT_FALSE(nest.accumulators.empty());
  EXPECT_GT(nest.accumulators.front().slots, 1) << to_text(nest);
}

TEST(Verifier, RefusesAVectorLoopThatIsNarrowedAndABoundThatIsNoIndex) {
  Graph g;
  g.set_outputs({exp(g.input("x", {100}))});
  Nest nest = nest_of(g, kWide);
  Loop& loop = std::get<Loop>(nest.body.front().node);
  ASSERT_EQ(loop.kind, LoopKind::vector);
  loops::ExprBuilder exprs(nest.exprs);
  loop.end = exprs.index(Affine(4));
  EXPECT_EQ(code_of([&] { verify(nest); }), ErrorCode::invalid_graph);
  loop.kind = LoopKind::serial;
  verify(nest);
  loop.end = exprs.constant(4, DType::f32);
  EXPECT_EQ(code_of([&] { verify(nest); }), ErrorCode::invalid_graph);
}

TEST(Verifier, RefusesAVariableOutsideItsLoopAndAStoreToWhatIsNotWritten) {
  Graph g;
  g.set_outputs({exp(g.input("x", {100}))});
  Nest loose = nest_of(g, kWide);
  auto& outer = std::get<Loop>(loose.body.front().node);
  Block body = outer.body;
  loose.body = body;
  EXPECT_EQ(code_of([&] { verify(loose); }), ErrorCode::invalid_graph);
  Nest sealed = nest_of(g, kWide);
  for (loops::BufferUse& use : sealed.buffers) use.written = false;
  EXPECT_EQ(code_of([&] { verify(sealed); }), ErrorCode::invalid_graph);
}

TEST(Verifier, RefusesToPrefetchWhatIsNotInMemory) {
  Graph g;
  g.set_outputs({exp(g.input("x", {100}))});
  Nest nest = nest_of(g, kWide);
  const auto is = [&](loops::ExprKind kind) {
    const auto found = std::ranges::find(nest.exprs, kind, &loops::Expr::kind);
    return static_cast<ExprId>(found - nest.exprs.begin());
  };
  nest.body.push_back({Prefetch{is(loops::ExprKind::unary)}});
  EXPECT_EQ(code_of([&] { verify(nest); }), ErrorCode::invalid_graph);
}

TEST(Text, NamesLoopsRegistersAndStores) {
  const std::string text = to_text(nest_of(product(64, 20, 128), kWide));
  for (const char* part : {"nest matmul", "grid", "unroll", "vector", "acc0", "fma"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

}  // namespace
}  // namespace wholestep::schedule
