#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench_peak.h"
#include "bench_workload.h"
#include "checks.h"
#include "command.h"
#include "json.h"
#include "median.h"
#include "options.h"
#include "wholestep/trainer.h"

namespace wholestep::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string workload;
  std::optional<std::string> optimizer;
  DeviceOptions device;
  std::optional<std::string> precision;
  std::int64_t accumulate = 1;
  std::optional<double> clip_norm, ema;
  double seconds = 2;
  bool json = false;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Something timed call by call, each with its number.
class Timed {
 public:
  explicit Timed(std::function<void(std::size_t)> call) : call_(std::move(call)) {}

  /// Calls for `seconds`, at least `least` times.
  void measure(double seconds, int least) {
    const Clock::time_point start = Clock::now();
    for (int n = 0; n < least || milliseconds_since(start) < seconds * 1e3; ++n) {
      const Clock::time_point begin = Clock::now();
      call_(number_++);
      us_.push_back(milliseconds_since(begin) * 1e3);
    }
  }
  void forget() { us_.clear(); }
  double median_us() const { return median(us_); }
  double min_us() const { return *std::min_element(us_.begin(), us_.end()); }

 private:
  std::function<void(std::size_t)> call_;
  std::size_t number_ = 0;
  std::vector<double> us_;
};

// What else the machine does changes between moments, so things that are compared take turns.
constexpr int kRounds = 10;

/// Medians of a step on a dataset of the trainer's device, and of a step on a host batch, its making included.
struct FedSteps {
  double dataset_us, host_us;
};

FedSteps measure_feeding(ResidentTrainer& trainer, const Workload& workload, double seconds) {
  constexpr std::int64_t kSteps = 16;  // of a call, on both sides
  constexpr std::int64_t kBatches = 256;
  const data::ImageSet examples = workload.examples(kBatches * workload.batch);
  const DeviceDataset dataset = trainer.upload({{"x", examples.images()}, {"y", examples.labels()}});
  HostBatches batches(examples, workload.batch);
  Timed on_dataset([&](std::size_t) { trainer.run(dataset, kSteps); });
  Timed on_host([&](std::size_t) {
    for (std::int64_t i = 0; i < kSteps; ++i) {
      const data::Batch& batch = batches.next();
      trainer.step({{"x", batch.images}, {"y", batch.labels}});
    }
  });
  for (int round = 0; round <= kRounds; ++round) {
    on_dataset.measure(seconds / 2 / kRounds, 2);
    on_host.measure(seconds / 2 / kRounds, 2);
    if (round == 0) {  // to warm up
      on_dataset.forget();
      on_host.forget();
    }
  }
  return {on_dataset.median_us() / kSteps, on_host.median_us() / kSteps};
}

nlohmann::ordered_json measure(const BenchOptions& options) {
  const int threads = options.device.threads_used();
  const std::optional<double> round_trip_ns = measure_core_round_trip_ns();
  const double peak_gflops = measure_peak_gflops(threads);

  const Workload workload = make_workload(options.workload);
  const Graph& graph = workload.graph;
  const Optimizer optimizer = optimizer_by_name(options.optimizer.value_or("adamw"));
  const Device device = options.device.device();
  const NamedArrays initial = initial_values(graph, 0);

  const CompileOptions compile{.precision = precision_by_name(options.precision.value_or("f32"))};

  constexpr std::int64_t kBatches = 16;  // different ones, so that a step does not find its batch in the cache
  std::vector<data::Batch> batches;
  for (const data::Batch& batch : workload.examples(kBatches * workload.batch).batches(workload.batch))
    batches.push_back(batch);

  const Clock::time_point start = Clock::now();
  ResidentTrainer trainer(graph, trainable(graph), initial, optimizer, device, compile,
                          {.clip_norm = options.clip_norm, .ema_decay = options.ema});
  const auto step = [&](std::size_t number) {
    const data::Batch& batch = batches[number % batches.size()];
    const Inputs inputs{{"x", batch.images}, {"y", batch.labels}};
    if (options.accumulate == 1) {
      trainer.step(inputs);
      return;
    }
    for (std::int64_t i = 0; i < options.accumulate; ++i) trainer.accumulate(inputs);
    trainer.step_accumulated();
  };
  step(0);
  const double first_step_ms = milliseconds_since(start);

  HostOptimizerStep host(graph, optimizer, device, compile.precision);
  Timed resident_steps(step);
  Timed gradient_runs([&](std::size_t number) { host.gradients_only(batches[number % batches.size()]); });
  Timed host_steps([&](std::size_t number) { host.step(batches[number % batches.size()]); });
  const auto take_turns = [&](double seconds, int least) {
    resident_steps.measure(seconds * 0.5, least);
    gradient_runs.measure(seconds * 0.3, least);
    host_steps.measure(seconds * 0.2, least);
  };
  take_turns(options.seconds / kRounds, 5);
  resident_steps.forget();
  gradient_runs.forget();
  host_steps.forget();
  for (int round = 0; round < kRounds; ++round) take_turns(options.seconds / kRounds, 2);

  const double peak_rss = static_cast<double>(peak_rss_bytes());
  std::optional<FedSteps> fed;
  if (options.accumulate == 1) fed = measure_feeding(trainer, workload, options.seconds / 2);

  const ProgramStats& stats = trainer.stats();
  const double flops = count_matmul_flops(host.gradient_graph()) * static_cast<double>(options.accumulate);
  const double gflops = flops / resident_steps.median_us() * 1e-3;
  return {
      {"workload", workload.name},
      {"device", device.name},
      {"threads", threads},
      {"precision", options.precision.value_or("f32")},
      {"optimizer", options.optimizer.value_or("adamw")},
      {"clip_norm", or_null(options.clip_norm)},
      {"ema", or_null(options.ema)},
      {"accumulate", options.accumulate},
      {"params", count_parameters(graph)},
      {"step_us_median", resident_steps.median_us()},
      {"step_us_min", resident_steps.min_us()},
      {"steps_per_launch", 1},
      {"compile_ms", stats.compile_ms},
      {"compiled_from_cache", stats.from_cache},
      {"first_step_ms", first_step_ms},
      {"resident", trainer.is_resident()},
      {"state_bytes", stats.resident_bytes},
      {"scratch_bytes", stats.scratch_bytes},
      {"largest_live_bytes", stats.largest_live_bytes},
      {"peak_rss_bytes", peak_rss},
      {"flops_per_step", flops},
      {"gflops", gflops},
      {"peak_gflops", peak_gflops},
      {"fraction_of_peak", gflops / peak_gflops},
      {"grads_only_us", gradient_runs.median_us()},
      {"host_optimizer_step_us", host_steps.median_us()},
      {"dataset_step_us", or_null(fed ? std::optional(fed->dataset_us) : std::nullopt)},
      {"host_batch_step_us", or_null(fed ? std::optional(fed->host_us) : std::nullopt)},
      {"kernels", stats.kernels},
      {"phases", stats.phases},
      {"barriers", stats.barriers},
      {"core_round_trip_ns", round_trip_ns ? nlohmann::ordered_json(*round_trip_ns) : nlohmann::ordered_json(nullptr)}};
}

void print_table(const nlohmann::ordered_json& r) {
  const auto number = [&](const char* key) { return r.at(key).get<double>(); };
  const auto text = [&](const char* key) { return r.at(key).get<std::string>(); };
  const auto row = [](const char* what, const std::string& value) { fmt::print("  {:<34}{}\n", what, value); };
  fmt::print("{} on {}, {:.0f} threads, {}, {}, {:.0f} parameters\n", text("workload"), text("device"),
             number("threads"), text("precision"), text("optimizer"), number("params"));
  row("step, median", fmt::format("{:.1f} us", number("step_us_median")));
  row("step, fastest", fmt::format("{:.1f} us", number("step_us_min")));
  row("gradients only", fmt::format("{:.1f} us (step / this: {:.2f})", number("grads_only_us"),
                                    number("step_us_median") / number("grads_only_us")));
  row("with the update on the host", fmt::format("{:.1f} us", number("host_optimizer_step_us")));
  if (!r.at("dataset_step_us").is_null()) {
    row("on a dataset of the device",
        fmt::format("{:.1f} us (with shuffled host batches: {:.1f}, {:.2f} times)", number("dataset_step_us"),
                    number("host_batch_step_us"), number("host_batch_step_us") / number("dataset_step_us")));
  }
  row("compile", fmt::format("{:.1f} ms{}", number("compile_ms"),
                             r.at("compiled_from_cache").get<bool>() ? " (code from the cache)" : ""));
  row("first step from a standing start", fmt::format("{:.1f} ms", number("first_step_ms")));
  row("matrix products", fmt::format("{:.1f} GFLOP/s, {:.0f} % of the {:.1f} of an FMA loop", number("gflops"),
                                     100 * number("fraction_of_peak"), number("peak_gflops")));
  row("resident", r.at("resident").get<bool>() ? "yes" : "no");
  row("state, scratch", fmt::format("{:.0f}, {:.0f} bytes (largest live set {:.0f})", number("state_bytes"),
                                    number("scratch_bytes"), number("largest_live_bytes")));
  row("peak resident set of the process", fmt::format("{:.1f} MiB", number("peak_rss_bytes") / (1 << 20)));
  row("kernels, phases, barriers",
      fmt::format("{:.0f}, {:.0f}, {:.0f}", number("kernels"), number("phases"), number("barriers")));
  if (!r.at("core_round_trip_ns").is_null())
    row("round trip between two cores", fmt::format("{:.0f} ns", number("core_round_trip_ns")));
}

int run_bench(const BenchOptions& options) {
  const nlohmann::ordered_json result = measure(options);
  if (options.json)
    fmt::print("{}\n", result.dump());
  else
    print_table(result);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, int& status) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "time training steps of a workload");
  command->add_option("WORKLOAD", options->workload, "mlp: 784-128-10, batch 64")
      ->required()
      ->transform(known_to([](const std::string& name) { check_workload(name); }));
  options->device.add_to(*command);
  add_optimizer(*command, options->optimizer, "default: adamw");
  add_precision(*command, options->precision);
  command
      ->add_option("--accumulate", options->accumulate,
                   "a step is the mean gradient of this many batches; its time is that of all of them (default: 1)")
      ->transform(whole_number(1, kMostExamples));
  command
      ->add_option("--clip-norm", options->clip_norm, "scale gradients down together to this norm where it is larger")
      ->transform(normal_number());
  command->add_option("--ema", options->ema, "keep averages of the weights that decay by this factor each step")
      ->transform(number_from(0, false, std::nextafter(1.0, 0.0)));
  command->add_option("--seconds", options->seconds, "how long to measure")
      ->transform(number_from(0, false, 3600))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &status] { status = run_bench(*options); });
}

}  // namespace wholestep::cli
