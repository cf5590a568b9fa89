#include "plan/shares.h"

#include <algorithm>
#include <cmath>

#include "plan/touched.h"

namespace wholestep::plan {
namespace {

using schedule::Nest;

// Bytes that a worker touches, in the arena or in a buffer of its own.
struct Access {
  int worker;
  int memory;
  std::int64_t first, last;
  bool written;
};
constexpr int kArena = -1;
// Everything is compared with everything: a program so large that it would take longer keeps its barrier.
constexpr std::size_t kMostComparisons = std::size_t{1} << 22;
// How much longer a phase may take whose kernels are all cut alike: what a worker finds in its own cache is worth that.
constexpr double kMostUneven = 1.05;

bool conflict(const Access& a, const Access& b) {
  return a.worker != b.worker && (a.written || b.written) && a.memory == b.memory && a.first < b.last &&
         b.first < a.last;
}

class Sharing {
 public:
  Sharing(const Plan& plan, int workers) : plan_(plan), workers_(workers) {}

  std::vector<Segment> run() {
    for (std::size_t i = 0; i < plan_.phases.size(); ++i) {
      const Phase& phase = plan_.phases[i];
      place(phase, phase.serial && i + 1 < plan_.phases.size() && plan_.phases[i + 1].serial);
    }
    return std::move(segments_);
  }

 private:
  const Nest& nest(const Launch& launch) const { return plan_.nests[static_cast<std::size_t>(launch.nest)]; }
  static double cost_of(const Nest& nest) { return nest.task_cost > 0 ? nest.task_cost : 1.0; }

  // `alone`: so little work, here and in the next phase, that a barrier between the two would cost more.
  void place(const Phase& phase, bool alone) {
    if (add_to_last(evenly(phase)) || (phase.serial && add_to_last(by_one(phase)))) return;
    segments_.push_back(alone ? by_one(phase) : shared(phase));
    open_ = accesses(segments_.back());
  }

  // Each kernel cut among all, so that the same part of every kernel's result is the same worker's.
  Segment evenly(const Phase& phase) const {
    Segment shares;
    for (const Launch& launch : phase.launches) {
      const std::int64_t tasks = nest(launch).tasks();
      for (int worker = 0; worker < workers_; ++worker) {
        add(shares, worker, launch, tasks * worker / workers_, tasks * (worker + 1) / workers_);
      }
    }
    return shares;
  }

  // Evenly too, but each of the tasks that are fewer than workers is for who has least to do; by cost alone where that
  // is much faster.
  Segment shared(const Phase& phase) const {
    Segment shares;
    std::vector<double> loads(static_cast<std::size_t>(workers_), 0.0);
    auto give = [&](int worker, const Launch& launch, std::int64_t first, std::int64_t last) {
      loads[static_cast<std::size_t>(worker)] += cost_of(nest(launch)) * static_cast<double>(last - first);
      add(shares, worker, launch, first, last);
    };
    for (const Launch& launch : phase.launches) {
      const std::int64_t tasks = nest(launch).tasks();
      if (tasks < workers_) continue;
      for (int worker = 0; worker < workers_; ++worker)
        give(worker, launch, tasks * worker / workers_, tasks * (worker + 1) / workers_);
    }
    for (const Launch& launch : phase.launches) {
      const std::int64_t tasks = nest(launch).tasks();
      if (tasks >= workers_) continue;
      for (std::int64_t task = 0; task < tasks; ++task) {
        const auto least = std::min_element(loads.begin(), loads.end()) - loads.begin();
        give(static_cast<int>(least), launch, task, task + 1);
      }
    }
    Segment other = by_cost(phase);
    return *std::max_element(loads.begin(), loads.end()) > kMostUneven * longest(other) ? other : shares;
  }

  double longest(const Segment& shares) const {
    std::vector<double> loads(static_cast<std::size_t>(workers_), 0.0);
    for (const Share& share : shares) {
      loads[static_cast<std::size_t>(share.worker)] +=
          cost_of(nest(*share.launch)) * static_cast<double>(share.last - share.first);
    }
    return *std::max_element(loads.begin(), loads.end());
  }

  Segment by_one(const Phase& phase) const {
    Segment shares;
    for (const Launch& launch : phase.launches) add(shares, 0, launch, 0, nest(launch).tasks());
    return shares;
  }

  // The tasks of all kernels in a row, cut into pieces of equal estimated cost.
  Segment by_cost(const Phase& phase) const {
    double total = 0;
    for (const Launch& launch : phase.launches) {
      total += cost_of(nest(launch)) * static_cast<double>(nest(launch).tasks());
    }
    Segment shares;
    double before = 0;
    for (const Launch& launch : phase.launches) {
      const double cost = cost_of(nest(launch));
      const std::int64_t tasks = nest(launch).tasks();
      std::int64_t first = 0;
      for (int worker = 0; worker < workers_ && first < tasks; ++worker) {
        const double end = total * (worker + 1) / workers_;
        const double fit = std::nearbyint((end - before) / cost);
        const std::int64_t last = worker + 1 == workers_
                                      ? tasks
                                      : static_cast<std::int64_t>(std::clamp(fit, 0.0, static_cast<double>(tasks)));
        add(shares, worker, launch, first, last);
        first = std::max(first, last);
      }
      before += cost * static_cast<double>(tasks);
    }
    return shares;
  }

  static void add(Segment& shares, int worker, const Launch& launch, std::int64_t first, std::int64_t last) {
    if (first < last) shares.push_back({worker, &launch, first, last});
  }

  bool add_to_last(const Segment& shares) {
    if (segments_.empty()) return false;
    const std::vector<Access> more = workers_ > 1 ? accesses(shares) : std::vector<Access>{};
    if (more.size() * open_.size() > kMostComparisons) return false;
    for (const Access& a : more) {
      if (std::any_of(open_.begin(), open_.end(), [&](const Access& b) { return conflict(a, b); })) return false;
    }
    open_.insert(open_.end(), more.begin(), more.end());
    segments_.back().insert(segments_.back().end(), shares.begin(), shares.end());
    return true;
  }

  std::vector<Access> accesses(const Segment& shares) const {
    std::vector<Access> result;
    for (const Share& share : shares) {
      const Nest& of = nest(*share.launch);
      for (const Touched& part : touched(of, share.first, share.last)) {
        const int index = share.launch->buffers[static_cast<std::size_t>(part.buffer)];
        const Buffer& buffer = plan_.buffers[static_cast<std::size_t>(index)];
        const auto size = static_cast<std::int64_t>(size_of(buffer.type.dtype));
        const bool scratch = buffer.role == BufferRole::scratch;
        const std::int64_t start = scratch ? buffer.arena_offset : 0;
        result.push_back({share.worker, scratch ? kArena : index, start + part.first * size, start + part.last * size,
                          part.written});
      }
    }
    return result;
  }

  const Plan& plan_;
  const int workers_;
  std::vector<Segment> segments_;
  std::vector<Access> open_;  // of the last segment
};

}  // namespace

std::vector<Segment> share_out(const Plan& plan, int workers) { return Sharing(plan, workers).run(); }

}  // namespace wholestep::plan
