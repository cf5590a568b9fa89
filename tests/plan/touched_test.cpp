#include "plan/touched.h"

#include <gtest/gtest.h>

#include <set>

#include "loops/fuse.h"
#include "passes/passes.h"
#include "schedule/nest.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::plan {
namespace {

const schedule::Target kTarget{"test", 64, 32, true};

std::vector<schedule::Nest> nests_of(const Graph& graph) {
  std::vector<schedule::Nest> nests;
  for (const loops::Kernel& kernel : loops::fuse(loops::prepare(passes::run_pipeline(graph)), {}))
    nests.push_back(schedule::schedule(kernel, kTarget));
  return nests;
}

std::vector<Touched> of(const std::vector<Touched>& all, bool written) {
  std::vector<Touched> result;
  for (const Touched& touched : all)
    if (touched.written == written) result.push_back(touched);
  return result;
}

TEST(Touched, TasksOfAnElementwiseKernelWriteRangesThatMeetButDoNotOverlap) {
  Graph g;
  g.set_outputs({exp(g.input("x", {64, 1000}))});
  const schedule::Nest nest = nests_of(g).front();
  ASSERT_GT(nest.tasks(), 1);
  std::int64_t end = 0;
  for (std::int64_t task = 0; task < nest.tasks(); ++task) {
    const std::vector<Touched> writes = of(touched(nest, task, task + 1), true);
    const std::vector<Touched> reads = of(touched(nest, task, task + 1), false);
    ASSERT_EQ(writes.size(), 1u);
    ASSERT_EQ(reads.size(), 1u);
    EXPECT_EQ(writes[0].first, end);
    EXPECT_EQ(reads[0].first, end);
    EXPECT_EQ(reads[0].last, writes[0].last);
    end = writes[0].last;
  }
  EXPECT_EQ(end, 64'000);
}

TEST(Touched, RowTilesOfAProductReadTheirRowsAndTheWholeWeight) {
  Graph g;
  g.set_outputs({matmul(g.input("x", {61, 20}), g.input("w", {20, 16}))});  // the last tile has fewer rows
  const schedule::Nest nest = nests_of(g).front();
  const std::int64_t half = nest.tasks() / 2;
  const auto first = touched(nest, 0, half), second = touched(nest, half, nest.tasks());
  const Touched a = of(first, true).at(0), b = of(second, true).at(0);
  EXPECT_EQ(a.first, 0);
  EXPECT_EQ(a.last, b.first);
  EXPECT_EQ(b.last, 61 * 16);
  for (const Touched& read : of(second, false)) {
    if (nest.buffers[static_cast<std::size_t>(read.buffer)].elements == 20 * 16) {
      EXPECT_EQ(read.first, 0);
      EXPECT_EQ(read.last, 20 * 16);
    } else {
      EXPECT_EQ(read.first, a.last / 16 * 20);
      EXPECT_EQ(read.last, 61 * 20);
    }
  }
}

TEST(Touched, AnIndexThatIsOnlyKnownInARunMayReadAnything) {
  Graph g;
  g.set_outputs({gather_rows(g.input("table", {50, 8}), g.input("rows", {4000}, DType::i32))});
  const schedule::Nest nest = nests_of(g).front();
  ASSERT_GT(nest.tasks(), 1);
  bool whole = false;
  for (const Touched& read : of(touched(nest, 0, 1), false)) whole = whole || (read.first == 0 && read.last == 400);
  EXPECT_TRUE(whole);
}

TEST(Touched, AFactorisationWhoseLoopsEndWhenItsDataSaySoKeepsToItsOwnMatrix) {
  Graph g;
  g.set_outputs({g.apply("tridiagonal_qr", {g.input("q", {3, 20, 20}), g.input("t", {3, 2, 20})})});
  const schedule::Nest nest = nests_of(g).front();
  ASSERT_EQ(nest.tasks(), 3);
  std::int64_t elements = 0;
  for (const loops::BufferUse& use : nest.buffers) elements = std::max(elements, use.elements);
  for (std::int64_t task = 0; task < 3; ++task) {
    const std::vector<Touched> writes = of(touched(nest, task, task + 1), true);
    ASSERT_EQ(writes.size(), 1u);
    EXPECT_EQ(writes[0].first, elements / 3 * task);
    EXPECT_EQ(writes[0].last, elements / 3 * (task + 1));
  }
}

TEST(Touched, NoTasksTouchNothing) {
  Graph g;
  g.set_outputs({exp(g.input("x", {10}))});
  EXPECT_TRUE(touched(nests_of(g).front(), 1, 1).empty());
}

}  // namespace
}  // namespace wholestep::plan
