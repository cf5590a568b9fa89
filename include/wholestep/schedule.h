#pragma once
// Quantities that change with the step: learning rates above all.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace wholestep {

namespace optim {
struct ScheduleNode;
}

/// A factor as a function of the number of steps taken; a value, cheap to copy. `trainer.set_lr(lr *
/// schedule.at(trainer.steps()))` before each step makes it a schedule of the learning rate: an input of the program,
/// so it costs no compilation.
///
/// It has a text form that parses back, "cosine(steps=1000, warmup=100, final=0.1)", to be kept in a configuration or a
/// checkpoint. The kinds, with the parameters that may be left out in [ ]:
///
///     constant([value=1])
///     linear(steps, [from=0], [to=1])                     then `to`; a warm-up as it stands
///     cosine(steps, [warmup=0], [final=0])                as CosineSchedule
///     onecycle(steps, [warmup=0.3], [start=0.04], [final=4e-06])
///     step(every, [factor=0.1])
///     wsd(steps, decay, [warmup=0], [final=0])
///     sequence(SCHEDULE, STEP, SCHEDULE, STEP, ..., SCHEDULE)   as `sequence`
class Schedule {
 public:
  /// The constant 1.
  Schedule();
  explicit Schedule(std::shared_ptr<const optim::ScheduleNode> node) : node_(std::move(node)) {}

  /// The factor of the step that follows `step` others. Throws `invalid_argument` for a negative one.
  double at(std::int64_t step) const;
  /// This schedule, counted from step `steps` on; before, a line from `from` to its first value (not reached before
  /// step `steps`). Throws `invalid_argument` where steps < 1 or `from` is negative or not finite.
  Schedule after_warmup(std::int64_t steps, double from = 0) const;

  /// Every parameter that has not its default, in the shortest form that reads back to the same value.
  std::string to_text() const;
  /// Reads the text form; "cosine" alone stands for "cosine()". `steps`: taken where `steps` is left out, which is an
  /// error where this is 0. Throws `parse_error` (with the column), `unknown_name` (no such kind or parameter; lists
  /// those there are), `invalid_argument` (a value out of range).
  static Schedule parse(std::string_view text, std::int64_t steps = 0);
  /// Names of the kinds.
  static const std::vector<std::string>& kinds();

  bool operator==(const Schedule& other) const;

 private:
  std::shared_ptr<const optim::ScheduleNode> node_;
};

// Numbers of steps are 1 to 2^53 unless said otherwise, factors are finite and at least 0. The conversions throw
// `invalid_argument` naming the parameter, its range and its value.

struct ConstantSchedule {
  double value = 1;
  operator Schedule() const;
};

/// `from` at step 0, `to` from step `steps` on, a line between.
struct LinearSchedule {
  std::int64_t steps = 0;
  double from = 0;
  double to = 1;
  operator Schedule() const;
};

/// A line from 0 to 1 over the first `warmup` steps, then half a cosine wave from 1 to `final`, which it has from step
/// `steps` on (Loshchilov and Hutter, 2017, without restarts). 0 <= warmup < steps.
struct CosineSchedule {
  std::int64_t steps = 0;
  std::int64_t warmup = 0;
  double final = 0;
  operator Schedule() const;
};

/// From `start` up to 1 over the fraction `warmup` of the steps, then down to `final`, both along half a cosine wave
/// (Smith and Topin, 2018; the corners are PyTorch's: the peak is at step warmup * steps - 1, the end at step steps -
/// 1). steps >= 2, 0 < warmup < 1 with 1 <= warmup * steps - 1 < steps - 1.
struct OneCycleSchedule {
  std::int64_t steps = 0;
  double warmup = 0.3;
  double start = 0.04;
  double final = 4e-6;
  operator Schedule() const;
};

/// 1, multiplied with `factor` at each multiple of `every`.
struct StepSchedule {
  std::int64_t every = 0;
  double factor = 0.1;
  operator Schedule() const;
};

/// A line from 0 to 1 over the first `warmup` steps, 1, then over the last `decay` of `steps` a line to `final` (Hu et
/// al., 2024). 0 <= warmup, 1 <= decay, warmup + decay <= steps.
struct WarmupStableDecay {
  std::int64_t steps = 0;
  std::int64_t decay = 0;
  std::int64_t warmup = 0;
  double final = 0;
  operator Schedule() const;
};

/// One schedule after another: `schedules[i + 1]` counts its steps from `boundaries[i]`, where it takes over. Throws
/// `invalid_argument` unless there is one boundary fewer than schedules, and they ascend from 1 on.
Schedule sequence(const std::vector<Schedule>& schedules, const std::vector<std::int64_t>& boundaries);

}  // namespace wholestep
