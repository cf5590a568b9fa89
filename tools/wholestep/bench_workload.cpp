#include "bench_workload.h"

#include <fmt/format.h>

#include <random>

#include "passes/passes.h"
#include "train/step_graph.h"
#include "wholestep/error.h"
#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::cli {
namespace {

constexpr std::int64_t kPixels = 784;

data::ImageSet random_images(std::int64_t count) {
  std::mt19937 random(0);
  std::vector<std::uint8_t> images(static_cast<std::size_t>(count * kPixels));
  for (std::uint8_t& pixel : images) pixel = static_cast<std::uint8_t>(random() & 255u);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(count));
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random() % 10u);
  return {Array::from(images, {count, kPixels}), Array::from(labels)};
}

std::string slot_input(const std::string& param, const std::string& slot) { return "slot." + param + "." + slot; }
std::string scalar_input(const std::string& param, const std::string& name) { return "scalar." + param + "." + name; }

/// Inputs: `param.X`, `grad.X`, `slot.X.S` and `scalar.X.S` for each parameter X, `lr`. Outputs: new values of each
/// parameter and its slots.
Graph update_graph(const Graph& model, const std::vector<std::string>& names, const std::vector<ParameterRule>& rules) {
  Graph graph("host update");
  const Tensor lr = graph.input("lr", {});
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const OptimizerRule& rule = *rules[i].rule;
    const TensorType type = model.node(model.find_id(name)).type;
    std::vector<Tensor> scalars;
    for (const StepScalar& scalar : rule.scalars()) scalars.push_back(graph.input(scalar_input(name, scalar.name), {}));
    const Tensor param = graph.input("param." + name, type.shape, type.dtype);
    const Tensor grad = graph.input("grad." + name, type.shape, type.dtype);
    std::vector<Tensor> slots;
    for (const OptimizerSlot& slot : rule.slots(type)) {
      slots.push_back(graph.input(slot_input(name, slot.name), slot.type.shape, slot.type.dtype));
    }
    const OptimizerResult result = rule.append({graph, param, grad, slots, lr * rules[i].lr_scale, scalars});
    outputs.push_back(result.param);
    outputs.insert(outputs.end(), result.slots.begin(), result.slots.end());
  }
  graph.set_outputs(outputs);
  return graph;
}

}  // namespace

void check_workload(const std::string& name) {
  if (name == "mlp") return;
  throw Error(ErrorCode::unknown_name, fmt::format("no workload is called \"{}\"; this version has: mlp", name));
}

Workload make_workload(const std::string& name) {
  check_workload(name);
  constexpr std::int64_t kBatch = 64;
  return {name, models::mlp(kBatch), kBatch, random_images};
}

HostBatches::HostBatches(data::ImageSet examples, std::int64_t batch)
    : examples_(std::move(examples)), batch_(batch), batches_(examples_.shuffled(0, epoch_).batches(batch_)) {}

const data::Batch& HostBatches::next() {
  if (const data::Batch* batch = batches_.next()) return *batch;
  batches_ = examples_.shuffled(0, ++epoch_).batches(batch_);
  return *batches_.next();
}

std::int64_t count_parameters(const Graph& graph) {
  std::int64_t count = 0;
  for (const NodeId id : graph.nodes_of("param")) count += num_elements(graph.node(id).type.shape);
  return count;
}

double count_matmul_flops(const Graph& graph) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const NodeId id : graph.outputs()) needed[static_cast<std::size_t>(id)] = true;
  for (std::size_t id = needed.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const NodeId operand : graph.nodes()[id].operands) needed[static_cast<std::size_t>(operand)] = true;
  }
  double flops = 0;
  for (const NodeId id : graph.nodes_of("matmul")) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    const Node& node = graph.node(id);
    const Shape& left = graph.node(node.operands[0]).type.shape;
    const bool transposed = node.attrs.get<bool>("transpose_a");
    const std::int64_t contracted = left[left.size() - (transposed ? 2 : 1)];
    flops += 2.0 * static_cast<double>(num_elements(node.type.shape)) * static_cast<double>(contracted);
  }
  return flops;
}

HostOptimizerStep::HostOptimizerStep(const Graph& graph, const Optimizer& optimizer, const Device& device,
                                     Precision precision)
    : optimizer_(optimizer),
      names_(trainable(graph)),
      rules_(train::rules_of(*optimizer, graph, names_)),
      gradient_graph_(gradients_with_loss(passes::apply_precision(graph, precision), names_)),
      gradients_(Session(device).compile(gradient_graph_)),
      update_(Session(device).compile(update_graph(graph, names_, rules_))),
      first_gradient_(graph.outputs().size()) {
  const NamedArrays initial = initial_values(graph, 0);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    const Array& value = *find(initial, name);
    gradients_.set_param(name, value);
    state_.emplace_back("param." + name, value);
    for (const OptimizerSlot& slot : rules_[i].rule->slots(value.type())) {
      state_.emplace_back(slot_input(name, slot.name), Array(slot.type));
    }
  }
}

double HostOptimizerStep::gradients_only(const data::Batch& batch) {
  const Array cotangent = Array::scalar(1.0f);
  return gradients_.run_read_outputs({{"x", batch.images}, {"y", batch.labels}, {"d_output", cotangent}}, {0})
      .front()
      .item();
}

double HostOptimizerStep::step(const data::Batch& batch) {
  const Array cotangent = Array::scalar(1.0f);
  const std::vector<Array> results =
      gradients_.run({{"x", batch.images}, {"y", batch.labels}, {"d_output", cotangent}});
  ++steps_;

  const Array lr = Array::scalar(static_cast<float>(optimizer_->lr()));
  NamedArrays scalars;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    for (const StepScalar& scalar : rules_[i].rule->scalars()) {
      scalars.emplace_back(scalar_input(names_[i], scalar.name),
                           Array::scalar(static_cast<float>(scalar.value(steps_))));
    }
  }
  Inputs inputs{{"lr", lr}};
  for (const auto& [name, value] : scalars) inputs.emplace_back(name, value);
  for (std::size_t i = 0; i < names_.size(); ++i)
    inputs.emplace_back("grad." + names_[i], results[first_gradient_ + i]);
  for (const auto& [name, value] : state_) inputs.emplace_back(name, value);

  std::vector<Array> updated = update_.run(inputs);
  for (std::size_t i = 0; i < state_.size(); ++i) {
    auto& [name, value] = state_[i];
    value = std::move(updated[i]);
    if (name.starts_with("param.")) gradients_.set_param(name.substr(6), value);
  }
  return results.front().item();
}

}  // namespace wholestep::cli
