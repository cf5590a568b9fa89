#include "plan/shares.h"

#include <gtest/gtest.h>

#include <map>

#include "passes/passes.h"
#include "plan/touched.h"
#include "train/step_graph.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"
#include "wholestep/optim.h"

namespace wholestep::plan {
namespace {

const schedule::Target kTarget{"test", 64, 32, true};

Plan plan_of(const Graph& graph) { return make_plan(passes::run_pipeline(graph), {.target = kTarget}); }

Graph mlp_step() {
  const Graph forward = models::mlp(64);
  const Optimizer adamw = AdamW{};
  return train::make_step_graph(forward, trainable(forward), train::rules_of(*adamw, forward, trainable(forward)));
}

TEST(Shares, CoverEveryTaskOnce) {
  const Plan plan = plan_of(mlp_step());
  for (const int workers : {1, 2, 3, 4, 7, 64}) {
    std::map<const Launch*, std::vector<std::pair<std::int64_t, std::int64_t>>> done;
    for (const Segment& segment : share_out(plan, workers)) {
      for (const Share& share : segment) {
        ASSERT_GE(share.worker, 0);
        ASSERT_LT(share.worker, workers);
        done[share.launch].emplace_back(share.first, share.last);
      }
    }
    for (const Phase& phase : plan.phases) {
      for (const Launch& launch : phase.launches) {
        std::int64_t next = 0;
        for (const auto& [first, last] : done[&launch]) {
          EXPECT_EQ(first, next);
          next = last;
        }
        EXPECT_EQ(next, plan.nests[static_cast<std::size_t>(launch.nest)].tasks());
      }
    }
  }
}

TEST(Shares, OfOneWorkerNeedNoBarrier) { EXPECT_EQ(share_out(plan_of(mlp_step()), 1).size(), 1u); }

TEST(Shares, KeepRowsWithTheirWorkerThroughTheKernelsThatWorkOnRows) {
  const Plan plan = plan_of(mlp_step());
  EXPECT_LT(share_out(plan, 2).size(), plan.phases.size()) << to_text(plan);
}

// A worker then finds the weight's rows, which it updated, in its own cache.
TEST(Shares, CutTheProductsWithAWeightAlike) {
  const Plan plan = plan_of(mlp_step());
  std::map<const Launch*, std::int64_t> first_workers;
  for (const Segment& segment : share_out(plan, 2))
    for (const Share& share : segment)
      if (share.worker == 0) first_workers[share.launch] += share.last - share.first;
  int products = 0;
  for (const auto& [launch, tasks] : first_workers) {
    const schedule::Nest& nest = plan.nests[static_cast<std::size_t>(launch->nest)];
    if (nest.tasks() < 8) continue;
    EXPECT_EQ(2 * tasks, nest.tasks()) << nest.name;
    ++products;
  }
  EXPECT_GE(products, 3);
}

TEST(Shares, WaitWhereAColumnNeedsEveryRow) {
  Graph g;
  const Tensor x = g.input("x", {256, 512});
  const Tensor y = exp(x);
  g.set_outputs({matmul(y, y, true, false), y});
  const Plan plan = plan_of(g);
  ASSERT_GE(plan.phases.size(), 2u);
  EXPECT_GE(share_out(plan, 2).size(), 2u) << to_text(plan);
}

// Tasks of one phase are independent. Those of different phases between two barriers may not touch the same memory from
// two workers, unless both read.
TEST(Shares, NeverRaceWithinASegment) {
  struct Bytes {
    std::size_t phase;
    int worker;
    int memory;
    std::int64_t first, last;
    bool written;
  };
  const Plan plan = plan_of(mlp_step());
  std::map<const Launch*, std::size_t> phase_of;
  for (std::size_t i = 0; i < plan.phases.size(); ++i)
    for (const Launch& launch : plan.phases[i].launches) phase_of[&launch] = i;
  for (const int workers : {2, 3, 4}) {
    for (const Segment& segment : share_out(plan, workers)) {
      std::vector<Bytes> all;
      for (const Share& share : segment) {
        const schedule::Nest& nest = plan.nests[static_cast<std::size_t>(share.launch->nest)];
        for (std::int64_t task = share.first; task < share.last; ++task) {
          for (const Touched& part : touched(nest, task, task + 1)) {
            const int index = share.launch->buffers[static_cast<std::size_t>(part.buffer)];
            const Buffer& buffer = plan.buffers[static_cast<std::size_t>(index)];
            const bool scratch = buffer.role == BufferRole::scratch;
            const std::int64_t start = scratch ? buffer.arena_offset : 0;
            const auto size = static_cast<std::int64_t>(size_of(buffer.type.dtype));
            all.push_back({phase_of.at(share.launch), share.worker, scratch ? -1 : index, start + part.first * size,
                           start + part.last * size, part.written});
          }
        }
      }
      for (const Bytes& a : all) {
        for (const Bytes& b : all) {
          const bool meet = a.memory == b.memory && a.first < b.last && b.first < a.last;
          EXPECT_FALSE(meet && a.written && a.phase != b.phase && a.worker != b.worker)
              << workers << " workers: phases " << a.phase << " and " << b.phase << " at byte " << a.first;
        }
      }
    }
  }
}

}  // namespace
}  // namespace wholestep::plan
