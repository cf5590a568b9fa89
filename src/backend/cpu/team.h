#pragma once
// A team of threads that runs short jobs together. The caller is worker 0; the others spin for a while after a job,
// then sleep.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace wholestep::cpu {

class Team {
 public:
  /// Threads start with the first job. `threads` >= 1.
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  /// The team of that many threads, shared by all who ask while one of them holds it.
  static std::shared_ptr<Team> shared(int threads);

  int size() const { return threads_; }

  /// `job(context, worker)` on every worker, which must not throw; returns when all are done. One caller at a time,
  /// others wait. Works in a forked child too. Throws `device_unavailable` where the system gives no thread; nothing
  /// has run then.
  using Job = void (*)(void* context, int worker);
  void run(Job job, void* context);

  /// Called by every worker of a running job: returns when all have called it.
  void barrier();

 private:
  struct Crew;
  Crew& crew();

  int threads_;
  std::atomic<Crew*> crew_{nullptr};
};

}  // namespace wholestep::cpu
