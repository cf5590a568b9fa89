#include "backend/cpu/team.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <vector>

#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

constexpr std::chrono::microseconds kSpinTime(50);
// To move costs some ten microseconds, and other processes may be why two threads share a core.
constexpr std::chrono::milliseconds kBetweenMoves(1);

using Clock = std::chrono::steady_clock;

void pause_briefly() { __builtin_ia32_pause(); }

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// A number that one thread changes and others wait on: spinning first, then asleep.
class Signal {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  /// Publishes everything written before to those who see the new value.
  void advance() {
    value_.fetch_add(1);
    // Sequentially consistent with `wait`: either the sleeper is seen here, or it sees the new value.
    if (sleepers_.load() > 0) value_.notify_all();
  }

  /// Returns when the value is no longer `old`. `crowded`: more threads than cores, so that others need this core.
  void wait(std::uint32_t old, bool crowded) {
    const auto start = Clock::now();
    for (int spins = 1; value() == old; ++spins) {
      if (crowded) {
        std::this_thread::yield();
      } else {
        pause_briefly();
      }
      if (spins % 64 == 0 && Clock::now() - start > kSpinTime) break;
    }
    if (value() != old) return;
    sleepers_.fetch_add(1);
    while (value_.load() == old) value_.wait(old);
    sleepers_.fetch_sub(1);
  }

 private:
  alignas(64) std::atomic<std::uint32_t> value_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace

/// The threads of one process.
struct Team::Crew {
  const int threads;
  const pid_t process = getpid();
  const bool crowded;
  std::mutex one_caller;
  std::vector<std::thread> workers;

  Job job = nullptr;
  void* context = nullptr;
  bool stop = false;
  /// Where each thread was when its last job began.
  std::vector<std::atomic<int>> cpus;
  Signal start;
  Signal passed;
  alignas(64) std::atomic<int> arrived{0};

  explicit Crew(int count) : threads(count), crowded(count > cores()), cpus(static_cast<std::size_t>(count)) {
    // Signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int worker = 1; worker < threads; ++worker) workers.emplace_back([this, worker] { work(worker); });
    } catch (const std::system_error& error) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      dismiss();
      throw Error(ErrorCode::device_unavailable,
                  fmt::format("cpu: cannot start {} threads: {}", threads, error.what()));
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void dismiss() {
    stop = true;
    start.advance();
    for (std::thread& worker : workers) worker.join();
  }

  void work(int worker) {
    Clock::time_point moved;
    for (std::uint32_t seen = 0;; ++seen) {
      start.wait(seen, crowded);
      if (stop) return;
      if (!is_alone(worker) && Clock::now() - moved > kBetweenMoves) {
        move_away(worker);
        moved = Clock::now();
      }
      job(context, worker);
      barrier();
    }
  }

  // Says where this thread is, and whether no other of lower number was there.
  bool is_alone(int worker) {
    const int cpu = sched_getcpu();
    std::atomic<int>& own = cpus[static_cast<std::size_t>(worker)];
    if (own.load(std::memory_order_relaxed) != cpu) own.store(cpu, std::memory_order_relaxed);
    if (crowded) return true;
    return std::none_of(cpus.begin(), cpus.begin() + worker,
                        [&](const auto& other) { return other.load(std::memory_order_relaxed) == cpu; });
  }

  // Two threads on one core wait for each other in turn, spinning first, which the system takes for two tasks that use
  // their caches well: it may leave them there for good. A look at the other cores only, then at all again.
  void move_away(int worker) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    cpu_set_t free = allowed;
    for (int other = 0; other < threads; ++other) {
      const int cpu = cpus[static_cast<std::size_t>(other)].load(std::memory_order_relaxed);
      if (cpu >= 0) CPU_CLR(static_cast<unsigned>(cpu), &free);
    }
    if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof free, &free) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
    cpus[static_cast<std::size_t>(worker)].store(sched_getcpu(), std::memory_order_relaxed);
  }

  void barrier() {
    const std::uint32_t round = passed.value();
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == threads) {
      arrived.store(0, std::memory_order_relaxed);
      passed.advance();
    } else {
      passed.wait(round, crowded);
    }
  }

  void run(Job what, void* with) {
    const std::lock_guard lock(one_caller);
    job = what;
    context = with;
    is_alone(0);
    start.advance();
    what(with, 0);
    barrier();
  }
};

Team::Team(int threads) : threads_(threads) {}

Team::~Team() {
  Crew* crew = crew_.load();
  // In a forked child the threads do not exist: there is nothing to join, and the memory is the parent's.
  if (!crew || crew->process != getpid()) return;
  crew->dismiss();
  delete crew;
}

std::shared_ptr<Team> Team::shared(int threads) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Team>> teams;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Team> team = teams[threads].lock();
  if (!team) {
    team = std::make_shared<Team>(threads);
    teams[threads] = team;
  }
  return team;
}

Team::Crew& Team::crew() {
  Crew* current = crew_.load(std::memory_order_acquire);
  const pid_t process = getpid();
  while (!current || current->process != process) {
    // A crew of the parent process is left alone: its mutex may be held by a thread that does not exist here.
    auto fresh = std::make_unique<Crew>(threads_);
    if (crew_.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
    fresh->dismiss();
  }
  return *current;
}

void Team::run(Job job, void* context) {
  if (threads_ == 1) return job(context, 0);
  crew().run(job, context);
}

void Team::barrier() {
  if (threads_ > 1) crew_.load(std::memory_order_acquire)->barrier();
}

}  // namespace wholestep::cpu
