#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "backend/backend.h"
#include "checks.h"
#include "command.h"
#include "io/file.h"
#include "options.h"
#include "passes/passes.h"
#include "plan/plan.h"
#include "progress.h"
#include "train/step_graph.h"
#include "train/validate.h"
#include "wholestep/nn.h"
#include "wholestep/session.h"

namespace wholestep::cli {
namespace {

struct ShowOptions {
  std::string file;
  std::string workload;
  std::optional<std::string> optimizer;
  std::int64_t batch = 64;
  std::string after;
  bool graph = false;
  bool plan = false;
  bool nests = false;
  bool explain = false;
  DeviceOptions device;
};

Graph read_graph(const std::string& path) {
  if (path.ends_with(".onnx")) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: this version reads no ONNX; it shows the text form of graphs (.ws)", path));
  }
  const std::string text = io::read_text(path);
  try {
    return Graph::parse(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

void check_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::pipeline()) names.push_back(pass.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw Error(ErrorCode::unknown_name,
              fmt::format("no pass is called \"{}\"; there are: {}", name, fmt::join(names, ", ")));
}

/// The graph that a program is made from: a file's as it is, a workload's with gradients and update. An optimizer asked
/// for is appended to a file's graph too.
Graph subject(const ShowOptions& options) {
  const Graph forward =
      options.file.empty() ? models::by_name(options.workload)(options.batch) : read_graph(options.file);
  if (!options.file.empty() && !options.optimizer) return forward;
  const Optimizer optimizer = optimizer_by_name(options.optimizer.value_or("adamw"));
  const std::vector<std::string> names = trainable(forward);
  train::check_loss(forward);
  train::check_trainable(forward, names);
  return train::make_step_graph(forward, names, train::rules_of(*optimizer, forward, names));
}

/// One part of the output, and an empty line where another follows.
class Printer {
 public:
  void operator()(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    tell(stdout, "{}{}\n", first_ ? "" : "\n", text);
    first_ = false;
  }

 private:
  bool first_ = true;
};

int run_show(const ShowOptions& options) {
  const Graph graph = subject(options);
  Printer print;
  const bool by_default = options.after.empty() && !options.plan && !options.nests && !options.explain;
  if (options.graph || by_default) print(graph.to_text());
  if (!options.after.empty()) print(passes::run_pipeline(graph, options.after, true).to_text());
  if (options.plan || options.nests) {
    plan::PlanOptions plan_options;
    plan_options.target = backend::open(options.device.device())->target();
    const plan::Plan plan = plan::make_plan(passes::run_pipeline(graph), plan_options);
    if (options.plan) print(plan::to_text(plan));
    if (options.nests) {
      for (const schedule::Nest& nest : plan.nests) print(schedule::to_text(nest));
    }
  }
  if (options.explain) print(Session(options.device.device()).compile(graph).explain());
  return 0;
}

}  // namespace

void add_show(CLI::App& app, int& status) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "print a step at any stage of its compilation");
  CLI::Option* file = command->add_option("FILE", options->file, "text form of a graph (.ws)")->type_name("");
  CLI::Option* workload =
      command->add_option("--workload", options->workload, "built-in model, such as mlp, with its gradients and update")
          ->transform(known_to([](const std::string& name) { models::by_name(name); }))
          ->excludes(file);
  add_optimizer(*command, options->optimizer, "default for a workload: adamw; for a file: no update");
  command->add_option("--batch", options->batch, "examples in a step of the workload")
      ->transform(whole_number(1, kMostExamples))
      ->capture_default_str();
  std::string passes;
  for (const passes::Pass& pass : passes::pipeline()) passes += (passes.empty() ? "" : ", ") + pass.name;
  command->add_option("--after", options->after, "the graph after this pass: " + passes)
      ->transform(known_to(check_pass));
  command->add_flag("--graph", options->graph,
                    "the graph before any pass (what is printed where nothing else is asked for)");
  command->add_flag("--plan", options->plan, "phases, kernels and where every buffer is");
  command->add_flag("--nests", options->nests, "the loops of every kernel");
  command->add_flag("--explain", options->explain, "compile, and report what was decided");
  options->device.add_to(*command);
  command->callback([options, file, workload, &status] {
    if (file->count() + workload->count() == 0) throw CLI::RequiredError("FILE or --workload");
    status = run_show(*options);
  });
}

}  // namespace wholestep::cli
