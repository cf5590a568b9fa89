#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

/// `phases` phases over `count` counters: in each, every task adds the sum of its two neighbours of the phase before,
/// so that a missing barrier or a task run twice or never shows.
class Chain {
 public:
  static constexpr std::int64_t kCount = 97;

  Chain(backend::Backend& cpu, int phases, bool mixed = false) {
    Nest nest = step();
    plan::Plan plan;
    plan.name = "chain";
    plan.nests = {nest};
    for (int i = 0; i <= phases; ++i) {
      const bool end = i == 0 || i == phases;
      plan::Buffer buffer;
      buffer.role = i == 0 ? plan::BufferRole::input : end ? plan::BufferRole::output : plan::BufferRole::scratch;
      buffer.name = "b" + std::to_string(i);
      buffer.type = {i64, {kCount}};
      if (!end) {
        buffer.arena_offset = plan.arena_bytes;
        plan.arena_bytes += (kCount * 8 + 63) / 64 * 64;
      }
      plan.buffers.push_back(buffer);
    }
    for (int i = 0; i < phases; ++i) plan.phases.push_back({{{0, {i, i + 1}}}, mixed && i % 3 != 0});
    last_ = phases;
    program_ = cpu.build(plan, Graph("chain"), {});
  }

  bool run_is_right(std::int64_t seed) {
    std::vector<std::int64_t> in(kCount), out(kCount, -1);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = seed + static_cast<std::int64_t>(i * i);
    program_->bind_host(0, in.data());
    program_->bind_host(last_, out.data());
    program_->run();
    for (int phase = 0; phase < last_; ++phase) {
      std::vector<std::int64_t> next(kCount);
      for (std::int64_t i = 0; i < kCount; ++i) {
        const std::int64_t left = i > 0 ? in[static_cast<std::size_t>(i - 1)] : 0,
                           right = i + 1 < kCount ? in[static_cast<std::size_t>(i + 1)] : 0;
        next[static_cast<std::size_t>(i)] =
            static_cast<std::int64_t>(static_cast<std::uint64_t>(left) + static_cast<std::uint64_t>(right));
      }
      in = next;
    }
    return in == out;
  }

 private:
  static Nest step() {
    TestNest test;
    const int in = test.buffer(Array(i64, {kCount})), out = test.output(i64, kCount);
    ExprBuilder exprs = test.exprs();
    const ExprId left = load(exprs, test, in, var(0) + Affine(-1), {Guard{var(0), 1, kCount}});
    const ExprId right = load(exprs, test, in, var(0) + Affine(1), {Guard{var(0), 0, kCount - 1}});
    test.nest.grid = {{0, kCount}};
    test.nest.body = {store(out, var(0), exprs.binary(BinaryOp::add, left, right))};
    return test.nest;
  }

  std::unique_ptr<backend::Executable> program_;
  int last_ = 0;
};

TEST(CpuTeam, RunsEveryTaskOnceWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    const auto cpu = open_cpu("", threads);
    EXPECT_EQ(cpu->threads(), threads);
    Chain plain(*cpu, 20), mixed(*cpu, 20, true);
    for (int i = 0; i < 50; ++i) {
      EXPECT_TRUE(plain.run_is_right(i)) << threads;
      EXPECT_TRUE(mixed.run_is_right(i)) << threads;
    }
  }
}

TEST(CpuTeam, WakesAfterItHasGoneToSleep) {
  const auto cpu = open_cpu("", 2);
  Chain chain(*cpu, 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(chain.run_is_right(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(CpuTeam, ServesProgramsRunFromSeveralThreads) {
  const auto cpu = open_cpu("", 2);
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      Chain chain(*cpu, 7);
      for (int i = 0; i < 40; ++i) right += chain.run_is_right(100 * caller + i);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 120);
}

TEST(CpuTeam, RunsInAForkedChildAndStillInItsParent) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no threads in a child of a process with threads";
#endif
  const auto cpu = open_cpu("", 2);
  Chain chain(*cpu, 9);
  ASSERT_TRUE(chain.run_is_right(1));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(chain.run_is_right(2) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(chain.run_is_right(3));
}

TEST(CpuTeam, OutlivesItsBackend) {
  auto cpu = open_cpu("", 2);
  Chain chain(*cpu, 4);
  cpu.reset();
  EXPECT_TRUE(chain.run_is_right(1));
}

}  // namespace
}  // namespace wholestep::test
