#include "wholestep/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/convert.h"
#include "wholestep/error.h"

namespace wholestep {
namespace optim {
namespace {

// Every whole number up to here is a double.
constexpr double kMostSteps = 9007199254740992.0;
// Sequences within sequences: keeps the recursion of hostile text short.
constexpr int kDeepest = 64;

struct Parameter {
  std::string_view name;
  bool whole;
  double least;
  double otherwise;  // NaN: must be given
};

constexpr double kRequired = std::numeric_limits<double>::quiet_NaN();
constexpr Parameter steps_parameter(std::string_view name, double least = 1) { return {name, true, least, kRequired}; }
constexpr Parameter factor_parameter(std::string_view name, double otherwise) { return {name, false, 0, otherwise}; }

/// A kind of schedule: parameters in the order of its struct, what they must satisfy together, and its value.
struct Kind {
  std::string_view name;
  std::vector<Parameter> parameters;
  std::string (*fault)(const double* p);  // empty where nothing is wrong
  double (*value)(const double* p, double step);
};

std::string nothing(const double*) { return {}; }

double line(double from, double to, double fraction) { return from + (to - from) * fraction; }

/// Half a wave from `from` at 0 to `to` at 1.
double half_wave(double from, double to, double fraction) {
  return to + (from - to) * (0.5 * (1 + std::cos(std::numbers::pi * fraction)));
}

double linear(const double* p, double step) {
  const double steps = p[0];
  return step >= steps ? p[2] : line(p[1], p[2], step / steps);
}

std::string cosine_fault(const double* p) {
  return p[1] < p[0] ? "" : fmt::format("expected fewer steps of warmup than steps, got {} and {}", p[1], p[0]);
}

double cosine(const double* p, double step) {
  const double steps = p[0], warmup = p[1], final = p[2];
  if (step < warmup) return step / warmup;
  if (step >= steps) return final;
  return final + (1 - final) * (0.5 * (1 + std::cos(std::numbers::pi * (step - warmup) / (steps - warmup))));
}

std::string one_cycle_fault(const double* p) {
  const double peak = p[1] * p[0] - 1, last = p[0] - 1;
  if (peak >= 1 && peak < last) return {};
  return fmt::format("the peak is at step warmup * steps - 1 = {}, expected 1 to below {}", peak, last);
}

double one_cycle(const double* p, double step) {
  const double peak = p[1] * p[0] - 1, last = p[0] - 1, start = p[2], final = p[3];
  if (step >= last) return final;
  if (step <= peak) return half_wave(start, 1, step / peak);
  return half_wave(1, final, (step - peak) / (last - peak));
}

double staircase(const double* p, double step) { return std::pow(p[1], std::floor(step / p[0])); }

std::string stable_fault(const double* p) {
  return p[2] + p[1] <= p[0] ? ""
                             : fmt::format("expected warmup + decay <= steps, got {} + {} and {}", p[2], p[1], p[0]);
}

double warmup_stable_decay(const double* p, double step) {
  const double steps = p[0], decay = p[1], warmup = p[2], final = p[3];
  if (step < warmup) return step / warmup;
  if (step >= steps) return final;
  return step <= steps - decay ? 1 : line(1, final, (step - (steps - decay)) / decay);
}

const Kind& kind(std::string_view name);

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table{
      {"constant", {factor_parameter("value", 1)}, nothing, [](const double* p, double) { return p[0]; }},
      {"linear", {steps_parameter("steps"), factor_parameter("from", 0), factor_parameter("to", 1)}, nothing, linear},
      {"cosine",
       {steps_parameter("steps"), {"warmup", true, 0, 0}, factor_parameter("final", 0)},
       cosine_fault,
       cosine},
      {"onecycle",
       {steps_parameter("steps", 2), factor_parameter("warmup", 0.3), factor_parameter("start", 0.04),
        factor_parameter("final", 4e-6)},
       one_cycle_fault,
       one_cycle},
      {"step", {steps_parameter("every"), factor_parameter("factor", 0.1)}, nothing, staircase},
      {"wsd",
       {steps_parameter("steps"), steps_parameter("decay"), {"warmup", true, 0, 0}, factor_parameter("final", 0)},
       stable_fault,
       warmup_stable_decay}};
  return table;
}

constexpr std::string_view kSequence = "sequence";

}  // namespace

/// A schedule of the table, or, where `kind` is null, a sequence of others.
struct ScheduleNode {
  const Kind* kind = nullptr;
  std::vector<double> parameters;
  std::vector<Schedule> parts;
  std::vector<std::int64_t> boundaries;
};

namespace {

Schedule make(const Kind& kind, std::vector<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Parameter& parameter = kind.parameters[i];
    const double most = parameter.whole ? kMostSteps : std::numeric_limits<double>::max();
    const bool fits = values[i] >= parameter.least && values[i] <= most;
    if (fits && (!parameter.whole || values[i] == std::floor(values[i]))) continue;
    const std::string range = parameter.whole ? fmt::format("a whole number from {} to 2^53", parameter.least)
                                              : fmt::format("finite and at least {}", parameter.least);
    throw Error(ErrorCode::invalid_argument, fmt::format("schedule {}: {} must be {}, got {}", kind.name,
                                                         parameter.name, range, number_text(values[i])));
  }
  if (const std::string fault = kind.fault(values.data()); !fault.empty()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("schedule {}: {}", kind.name, fault));
  }
  return Schedule(std::make_shared<const ScheduleNode>(ScheduleNode{&kind, std::move(values), {}, {}}));
}

const Kind& kind(std::string_view name) {
  for (const Kind& candidate : kinds()) {
    if (candidate.name == name) return candidate;
  }
  throw Error(ErrorCode::unknown_name,
              fmt::format("no schedule is called \"{}\"; known: {}", name, fmt::join(Schedule::kinds(), ", ")));
}

double of(std::int64_t steps) { return static_cast<double>(steps); }

class Reader {
 public:
  Reader(std::string_view text, std::int64_t steps) : text_(text), steps_(steps) {}

  Schedule whole() {
    Schedule result = schedule(0);
    if (peek() != '\0') fail("expected the end");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::parse_error, fmt::format("schedule \"{}\", column {}: {}", text_, at_ + 1, message));
  }
  /// The next character that is no space; 0 at the end.
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }
  std::string_view word() {
    peek();
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= 'a' && text_[at_] <= 'z') ++at_;
    if (at_ == start) fail("expected a word");
    return text_.substr(start, at_ - start);
  }
  template <class T>
  T number(const char* what) {
    peek();
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail(fmt::format("expected {}", what));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  Schedule schedule(int depth) {
    if (depth > kDeepest) fail(fmt::format("more than {} sequences within each other", kDeepest));
    const std::string_view name = word();
    if (name == kSequence) return parts(depth);
    const Kind& chosen = kind(name);
    std::vector<double> values;
    for (const Parameter& parameter : chosen.parameters) values.push_back(parameter.otherwise);
    std::vector<bool> given(values.size(), false);
    if (accept('(') && !accept(')')) {
      do {
        const std::size_t i = parameter(chosen, word());
        if (given[i]) fail(fmt::format("{} is given twice", chosen.parameters[i].name));
        given[i] = true;
        expect('=');
        values[i] = number<double>("a number");
      } while (accept(','));
      expect(')');
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Parameter& parameter = chosen.parameters[i];
      if (given[i] || !std::isnan(values[i])) continue;
      if (parameter.name != "steps" || steps_ == 0) fail(fmt::format("{} needs {}=", name, parameter.name));
      values[i] = of(steps_);
    }
    return make(chosen, std::move(values));
  }

  std::size_t parameter(const Kind& chosen, std::string_view name) const {
    std::vector<std::string_view> known;
    for (const Parameter& candidate : chosen.parameters) {
      if (candidate.name == name) return known.size();
      known.push_back(candidate.name);
    }
    throw Error(ErrorCode::unknown_name, fmt::format("schedule {} has no parameter \"{}\"; it has {}", chosen.name,
                                                     name, fmt::join(known, ", ")));
  }

  Schedule parts(int depth) {
    std::vector<Schedule> schedules;
    std::vector<std::int64_t> boundaries;
    expect('(');
    schedules.push_back(schedule(depth + 1));
    while (accept(',')) {
      boundaries.push_back(number<std::int64_t>("the step at which the next schedule begins"));
      expect(',');
      schedules.push_back(schedule(depth + 1));
    }
    expect(')');
    return sequence(schedules, boundaries);
  }

  std::string_view text_;
  std::int64_t steps_;
  std::size_t at_ = 0;
};

}  // namespace
}  // namespace optim

Schedule::Schedule() : Schedule(ConstantSchedule{}) {}

double Schedule::at(std::int64_t step) const {
  if (step < 0) throw Error(ErrorCode::invalid_argument, fmt::format("schedule: expected a step >= 0, got {}", step));
  const optim::ScheduleNode& node = *node_;
  if (node.kind) return node.kind->value(node.parameters.data(), optim::of(step));
  const auto next = std::upper_bound(node.boundaries.begin(), node.boundaries.end(), step);
  const std::int64_t begin = next == node.boundaries.begin() ? 0 : *(next - 1);
  return node.parts[static_cast<std::size_t>(next - node.boundaries.begin())].at(step - begin);
}

Schedule Schedule::after_warmup(std::int64_t steps, double from) const {
  return sequence({LinearSchedule{.steps = steps, .from = from, .to = at(0)}, *this}, {steps});
}

std::string Schedule::to_text() const {
  const optim::ScheduleNode& node = *node_;
  std::vector<std::string> arguments;
  if (!node.kind) {
    for (std::size_t i = 0; i < node.parts.size(); ++i) {
      if (i > 0) arguments.push_back(fmt::format("{}", node.boundaries[i - 1]));
      arguments.push_back(node.parts[i].to_text());
    }
    return fmt::format("{}({})", optim::kSequence, fmt::join(arguments, ", "));
  }
  for (std::size_t i = 0; i < node.parameters.size(); ++i) {
    const optim::Parameter& parameter = node.kind->parameters[i];
    const double value = node.parameters[i];
    if (value == parameter.otherwise) continue;
    const std::string text = parameter.whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
    arguments.push_back(fmt::format("{}={}", parameter.name, text));
  }
  if (arguments.empty()) return std::string(node.kind->name);
  return fmt::format("{}({})", node.kind->name, fmt::join(arguments, ", "));
}

Schedule Schedule::parse(std::string_view text, std::int64_t steps) { return optim::Reader(text, steps).whole(); }

const std::vector<std::string>& Schedule::kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const optim::Kind& kind : optim::kinds()) all.emplace_back(kind.name);
    all.emplace_back(optim::kSequence);
    return all;
  }();
  return names;
}

bool Schedule::operator==(const Schedule& other) const {
  const optim::ScheduleNode& a = *node_;
  const optim::ScheduleNode& b = *other.node_;
  return a.kind == b.kind && a.parameters == b.parameters && a.parts == b.parts && a.boundaries == b.boundaries;
}

ConstantSchedule::operator Schedule() const { return optim::make(optim::kind("constant"), {value}); }
LinearSchedule::operator Schedule() const { return optim::make(optim::kind("linear"), {optim::of(steps), from, to}); }
CosineSchedule::operator Schedule() const {
  return optim::make(optim::kind("cosine"), {optim::of(steps), optim::of(warmup), final});
}
OneCycleSchedule::operator Schedule() const {
  return optim::make(optim::kind("onecycle"), {optim::of(steps), warmup, start, final});
}
StepSchedule::operator Schedule() const { return optim::make(optim::kind("step"), {optim::of(every), factor}); }
WarmupStableDecay::operator Schedule() const {
  return optim::make(optim::kind("wsd"), {optim::of(steps), optim::of(decay), optim::of(warmup), final});
}

Schedule sequence(const std::vector<Schedule>& schedules, const std::vector<std::int64_t>& boundaries) {
  if (schedules.empty()) throw Error(ErrorCode::invalid_argument, "schedule sequence: no schedules");
  if (schedules.size() != boundaries.size() + 1) {
    throw Error(ErrorCode::invalid_argument, fmt::format("schedule sequence: {} schedules need {} boundaries, got {}",
                                                         schedules.size(), schedules.size() - 1, boundaries.size()));
  }
  std::int64_t last = 0;
  for (const std::int64_t boundary : boundaries) {
    if (boundary <= last) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("schedule sequence: expected boundaries that ascend from 1 on, got {}",
                              fmt::join(boundaries, ", ")));
    }
    last = boundary;
  }
  return Schedule(std::make_shared<const optim::ScheduleNode>(optim::ScheduleNode{nullptr, {}, schedules, boundaries}));
}

}  // namespace wholestep
