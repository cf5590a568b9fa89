#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
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

std::vector<pid_t> threads_of_this_process() {
  std::vector<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.push_back(static_cast<pid_t>(std::stol(entry.path().filename())));
  return threads;
}

/// The core that a thread ran on last: field 39 of its line, the second being a name in parentheses.
int core_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string field;
  std::getline(file, field, ')');
  for (int i = 3; i <= 39; ++i) file >> field;
  return std::stoi(field);
}

// The system may leave two threads on one core that wait for each other, each of which then delays the other at every
// barrier.
TEST(CpuTeam, LeavesTheCoreOfItsCaller) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one core";
  const std::vector<pid_t> before = threads_of_this_process();
  const auto cpu = open_cpu("", 2);
  Chain chain(*cpu, 20);
  ASSERT_TRUE(chain.run_is_right(0));
  std::vector<pid_t> workers = threads_of_this_process();
  std::erase_if(workers, [&](pid_t thread) { return std::ranges::find(before, thread) != before.end(); });
  ASSERT_EQ(workers.size(), 1u);

  const int core = sched_getcpu();
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  sched_setaffinity(0, sizeof one, &one);
  sched_setaffinity(workers[0], sizeof one, &one);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(chain.run_is_right(1));
  EXPECT_EQ(core_of(workers[0]), core);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  sched_setaffinity(workers[0], sizeof all, &all);
  bool left = false;
  for (int i = 0; i < 10 && !left; ++i) {
    EXPECT_TRUE(chain.run_is_right(i));
    left = core_of(workers[0]) != core;
  }
  sched_setaffinity(0, sizeof all, &all);
  EXPECT_TRUE(left);
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
