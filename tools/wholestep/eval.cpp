#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "checks.h"
#include "command.h"
#include "core/convert.h"
#include "finite.h"
#include "json.h"
#include "median.h"
#include "options.h"
#include "wholestep/io.h"
#include "wholestep/nn.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep::cli {
namespace {

struct EvalOptions {
  std::string model = "mlp";
  std::string data;
  std::string load;
  bool average = false;
  std::int64_t batch = 64;
  DeviceOptions device;
  bool json = false;
};

/// Values of all parameters of `graph`, or their averages, out of a checkpoint, which may hold more: optimizer state.
NamedArrays values_from(const std::string& path, const io::SafeTensors& file, const Graph& graph, bool average) {
  NamedArrays values;
  for (const NodeId id : graph.nodes_of("param")) {
    const Node& node = graph.node(id);
    const std::string name = average ? "average/" + node.name : node.name;
    const Array* found = find(file.tensors, name);
    if (!found) {
      throw Error(ErrorCode::checkpoint_mismatch,
                  fmt::format("{}: no tensor \"{}\", which model \"{}\" needs", path, name, graph.name()));
    }
    if (found->type() != node.type) {
      throw Error(ErrorCode::checkpoint_mismatch,
                  fmt::format("{}: tensor \"{}\": model \"{}\" expects {}, the file has {}", path, name, graph.name(),
                              to_string(node.type), to_string(found->type())));
    }
    values.emplace_back(node.name, *found);
  }
  return values;
}

/// The entry `key` of a file's metadata; none where it has no such.
std::optional<std::string> metadata_of(const io::SafeTensors& file, std::string_view key) {
  for (const auto& [name, text] : file.metadata) {
    if (name == key) return text;
  }
  return std::nullopt;
}

/// Puts in place of the weights of a checkpoint what its optimizer says to evaluate instead, as training did.
void move_to_evaluation_point(const std::string& path, const io::SafeTensors& file, const Session& session,
                              NamedArrays& values) {
  const std::optional<std::string> name = metadata_of(file, "optimizer");
  const std::vector<std::string> known = optimizer_names();
  if (!name || std::find(known.begin(), known.end(), *name) == known.end()) return;
  const Optimizer optimizer = optimizer_by_name(*name);
  for (auto& [param, value] : values) {
    const OptimizerRule& rule = *optimizer->rule_for(param, value.type()).rule;
    Graph graph("evaluation point");
    const Tensor weight = graph.param(param, value.shape(), value.dtype());
    std::vector<Tensor> slots;
    for (const OptimizerSlot& slot : rule.slots(value.type())) {
      slots.push_back(graph.state(fmt::format("optimizer/{}/{}", param, slot.name), slot.type.shape, slot.type.dtype));
    }
    const Tensor point = rule.evaluation_value(graph, weight, slots);
    if (point.id() == weight.id()) continue;
    graph.set_outputs({point});
    CompiledGraph program = session.compile(graph);
    program.set_param(param, value);
    for (const NodeId id : graph.nodes_of("state")) {
      const std::string& slot = graph.node(id).name;
      const Array* found = find(file.tensors, slot);
      if (!found) {
        throw Error(
            ErrorCode::checkpoint_mismatch,
            fmt::format("{}: no tensor \"{}\", without which {} says no weights to evaluate", path, slot, *name));
      }
      program.set_param(slot, *found);
    }
    value = program.run({}).front();
  }
}

/// Weights that are not finite have no loss worth reporting.
[[noreturn]] void fail_non_finite(const std::string& path, const NamedArrays& weights, bool average, double loss) {
  check_finite(path, weights, average ? "average/" : "");
  throw Error(ErrorCode::non_finite, fmt::format("the loss over the test examples is {}", number_text(loss)));
}

/// The step count of a checkpoint; none for another file.
std::optional<std::int64_t> steps_of(const io::SafeTensors& file) {
  const std::string text = metadata_of(file, "steps").value_or("");
  std::int64_t steps = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), steps).ec != std::errc()) return std::nullopt;
  return steps;
}

/// One forward program for full batches and one for the final partial batch, on the same weights.
class Forward {
 public:
  Forward(const EvalOptions& options, std::function<Graph(std::int64_t)> build, std::int64_t batch)
      : session_(options.device.device()),
        build_(std::move(build)),
        batch_(batch),
        full_(session_.compile(build_(batch))) {}

  void set(const NamedArrays& values) {
    for (const auto& [name, value] : values) full_.set_param(name, value);
  }

  std::vector<Array> operator()(const Inputs& inputs) {
    const std::int64_t count = inputs.front().second.type.shape.front();
    if (count == batch_) return full_.run(inputs);
    if (!partial_) {
      partial_.emplace(session_.compile(build_(count)));
      partial_->share_state_of(full_);
    }
    return partial_->run(inputs);
  }

  bool is_resident() const { return full_.is_resident(); }

 private:
  Session session_;
  std::function<Graph(std::int64_t)> build_;
  std::int64_t batch_;
  CompiledGraph full_;
  std::optional<CompiledGraph> partial_;
};

/// How a classifier does on a whole set, the final partial batch included.
struct Result {
  double loss = 0;      // mean over examples
  double accuracy = 0;  // fraction of labels that the largest logit names
  std::vector<double> batch_us;
};

Result evaluate(Forward& forward, const data::ImageSet& set, std::int64_t batch) {
  Result result;
  for (const data::Batch& examples : set.batches(batch)) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Array> values = forward({{"x", examples.images}, {"y", examples.labels}});
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    result.loss += values[0].item() * static_cast<double>(examples.count);
    result.accuracy += values[1].item();
    result.batch_us.push_back(elapsed.count());
  }
  result.loss /= static_cast<double>(set.size());
  result.accuracy /= static_cast<double>(set.size());
  return result;
}

int run_eval(const EvalOptions& options) {
  const auto build = models::by_name(options.model);
  const Graph graph = build(options.batch);
  NamedArrays values;
  std::optional<std::int64_t> steps;
  if (options.load.empty()) {
    values = initial_values(graph, 0);
  } else {
    const io::SafeTensors file = io::read_safetensors(options.load);
    values = values_from(options.load, file, graph, options.average);
    steps = steps_of(file);
    if (!options.average) {
      move_to_evaluation_point(options.load, file, Session(options.device.device()), values);
    }
  }
  const data::ImageSet test = data::read_idx(options.data, data::Split::test);
  if (test.size() == 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: a test set without examples", options.data));

  Forward forward(options, build, std::min(options.batch, test.size()));
  forward.set(values);
  const Result result = evaluate(forward, test, options.batch);
  if (!std::isfinite(result.loss)) fail_non_finite(options.load, values, options.average, result.loss);
  if (options.json) {
    const nlohmann::ordered_json object = {
        {"model", options.model},
        {"device", options.device.name},
        {"threads", options.device.threads_used()},
        {"examples", test.size()},
        {"steps", steps ? nlohmann::ordered_json(*steps) : nlohmann::ordered_json(nullptr)},
        {"final_loss", result.loss},
        {"test_accuracy", result.accuracy},
        {"step_us_median", median(result.batch_us)},
        {"resident", forward.is_resident()},
        {"checkpoint", options.load.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(options.load)}};
    fmt::print("{}\n", one_line(object));
  } else {
    fmt::print("{} test images: loss {:.4f}, accuracy {:.2f} %, {:.1f} us per batch of {}\n", test.size(), result.loss,
               100 * result.accuracy, median(result.batch_us), std::min(options.batch, test.size()));
    if (options.load.empty())
      fmt::print("weights: initial values of seed 0 (--load FILE reads a checkpoint)\n");
    else
      fmt::print("weights: {}\n", options.load);
  }
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, int& status) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = app.add_subcommand("eval", "loss and accuracy of a model on a test set");
  command->add_option("MODEL", options->model, "built-in model")
      ->transform(known_to([](const std::string& name) { models::by_name(name); }))
      ->capture_default_str();
  command->add_option("--data", options->data, "folder with the IDX files of a data set like MNIST, plain or .gz")
      ->type_name("FOLDER")
      ->required()
      ->transform(not_empty());
  CLI::Option* load =
      command
          ->add_option("--load", options->load,
                       "checkpoint or other safetensors file with the weights (default: initial values)")
          ->type_name("FILE")
          ->transform(not_empty());
  command->add_flag("--average", options->average, "evaluate the averages that `train --ema` keeps")->needs(load);
  command->add_option("--batch", options->batch, "examples at a time")
      ->transform(whole_number(1, kMostExamples))
      ->capture_default_str();
  options->device.add_to(*command);
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &status] { status = run_eval(*options); });
}

}  // namespace wholestep::cli
