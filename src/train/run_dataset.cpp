// Steps and evaluations over datasets on the device.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "passes/passes.h"
#include "train/state.h"
#include "train/step_graph.h"
#include "train/validate.h"

namespace wholestep {
namespace {

using train::Batching;
using train::RowsProgram;

void copy_rows(const std::vector<std::int64_t>& order, std::int64_t first, RowsProgram& to) {
  const auto from = order.begin() + first;
  std::transform(from, from + std::ssize(to.rows), to.rows.begin(),
                 [](std::int64_t row) { return static_cast<std::int32_t>(row); });
}

}  // namespace

Batching ResidentTrainer::State::check(const DeviceDataset& dataset, std::int64_t batch) {
  const Graph& forward = programs.front()->forward;
  if (batch < 0) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: batches of {} examples", forward.name(), batch));
  }
  if (!checked || &checked->data() != &dataset.data()) {
    train::check_dataset(forward, dataset.data(), device);
    checked = dataset;
  }
  const std::int64_t size = batch > 0 ? batch : train::batch_of(forward);
  if (size > 0) return {dataset.size(), size};
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: batches of no examples", forward.name()));
}

Graph ResidentTrainer::State::forward_for(const DeviceDataset& dataset, std::int64_t batch) const {
  const Graph& base = programs.front()->forward;
  for (const auto& program : programs) {
    if (train::batch_of(program->forward) == batch) return program->forward;
  }
  if (!builder) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: no program for batches of {} examples; set_graph_builder or specialise gives one",
                            base.name(), batch));
  }
  Graph graph = builder(batch);
  train::check_loss(graph);
  train::check_same_model(base, graph);
  train::check_dataset(graph, dataset.data(), device);
  if (train::batch_of(graph) == batch) return graph;
  throw Error(ErrorCode::shape_mismatch, fmt::format("{}: built for batches of {} examples, it takes {}", graph.name(),
                                                     batch, train::batch_of(graph)));
}

RowsProgram& ResidentTrainer::State::step_program(const DeviceDataset& dataset, std::int64_t batch,
                                                  train::RefreshKinds refreshes) {
  return train::program_for(dataset_steps[refreshes], dataset, batch, [&] {
    Graph forward = forward_for(dataset, batch);
    forward.set_outputs({forward.tensor(forward.outputs()[0])});
    const Graph in_place = train::take_rows(passes::apply_precision(forward, options.precision), dataset.data());
    return compile(step_graph(in_place, refreshes));
  });
}

std::vector<float> ResidentTrainer::State::run(const DeviceDataset& dataset, std::int64_t n, const RunOptions& how) {
  if (n < 0) throw Error(ErrorCode::invalid_argument, fmt::format("run: {} steps", n));
  train::check_nothing_pending(pending);
  std::vector<double> rates;
  for (std::int64_t i = 0; how.lr && i < n; ++i) {
    train::StepBlock::check_lr(rates.emplace_back(how.lr(block.steps + i)));
  }
  const Batching batching = check(dataset, how.batch);
  const std::optional<std::uint64_t> seed = how.shuffle ? std::optional(how.shuffle_seed) : std::nullopt;
  const auto number = [&] { return block.steps % batching.count(); };
  // Both sizes that will be needed are there before the first step.
  RowsProgram* full = nullptr;
  RowsProgram* rest = nullptr;
  const std::int64_t left = batching.count() - number();  // in this epoch
  if ((n > 0 && number() < batching.full()) || (n > left && batching.full() > 0)) {
    full = &step_program(dataset, batching.size);
  }
  if (n >= left && batching.rest() > 0) rest = &step_program(dataset, batching.rest());

  std::vector<float> losses;
  for (std::int64_t i = 0; i < n; ++i) {
    if (how.lr) block.set_lr(rates[static_cast<std::size_t>(i)]);
    block.write();
    const bool is_full = number() < batching.full();
    RowsProgram* const made = is_full ? full : rest;
    RowsProgram& chosen = made && block.due() == 0
                              ? *made
                              : step_program(dataset, is_full ? batching.size : batching.rest(), block.due());
    const auto& order = epoch_order.of(batching.examples, seed, block.steps / batching.count());
    copy_rows(order, number() * batching.size, chosen);
    const StepResult result = take_step(*chosen.program, {});
    losses.push_back(result.loss());
    if (result.skipped && how.on_skip) how.on_skip(block.steps - 1);
  }
  return losses;
}

// Evaluation.

void ResidentTrainer::State::clear_sums() {
  const Graph& forward = programs.front()->forward;
  for (std::size_t i = 0; i < forward.outputs().size(); ++i) {
    const TensorType& type = forward.node(forward.outputs()[i]).type;
    if (type.shape.empty()) memory.upload(train::output_sum(i), Array(is_float(type.dtype) ? f64 : i64, {}));
  }
}

Evaluation ResidentTrainer::State::read_sums(std::int64_t examples) const {
  const Graph& forward = programs.front()->forward;
  Evaluation result;
  result.examples = examples;
  for (std::size_t i = 0; i < forward.outputs().size(); ++i) {
    const TensorType& type = forward.node(forward.outputs()[i]).type;
    Array& value = result.values.emplace_back();
    if (!type.shape.empty()) continue;
    value = memory.download(train::output_sum(i));
    if (is_float(type.dtype)) value = Array::scalar(value.item() / static_cast<double>(examples));
  }
  result.loss = result.values[0].item();
  return result;
}

Evaluation ResidentTrainer::State::evaluate(const DeviceDataset& dataset, Weights weights, std::int64_t batch) {
  const Batching batching = check(dataset, batch);
  auto& made = dataset_evaluations[static_cast<std::size_t>(weights)];
  const auto program_of = [&](std::int64_t size) {
    return &train::program_for(made, dataset, size, [&] {
      const Graph forward = evaluation_graph(forward_for(dataset, size), weights);
      return compile(train::sum_outputs(train::take_rows(forward, dataset.data()), size));
    });
  };
  RowsProgram* full = batching.full() > 0 ? program_of(batching.size) : nullptr;
  RowsProgram* rest = batching.rest() > 0 ? program_of(batching.rest()) : nullptr;
  block.write();
  clear_sums();
  for (std::int64_t number = 0; number < batching.count(); ++number) {
    RowsProgram& chosen = number < batching.full() ? *full : *rest;
    std::iota(chosen.rows.begin(), chosen.rows.end(), static_cast<std::int32_t>(number * batching.size));
    chosen.program->run({});
  }
  return read_sums(batching.examples);
}

Evaluation ResidentTrainer::State::evaluate(std::span<const Inputs> batches, Weights weights) {
  if (batches.empty()) throw Error(ErrorCode::invalid_argument, "evaluate: no batches");
  std::vector<std::pair<runtime::Program*, std::int64_t>> chosen;
  std::int64_t examples = 0;
  for (const Inputs& batch : batches) {
    train::Specialisation& program = program_for(batch);
    const std::int64_t size = train::batch_of(program.forward);
    std::unique_ptr<runtime::Program>& summing = program.evaluate_sums[static_cast<std::size_t>(weights)];
    if (!summing) summing = compile(train::sum_outputs(evaluation_graph(program.forward, weights), size));
    summing->check(batch);
    chosen.emplace_back(summing.get(), size);
    examples += size;
  }
  block.write();
  clear_sums();
  for (std::size_t i = 0; i < batches.size(); ++i) chosen[i].first->run(batches[i]);
  return read_sums(examples);
}

std::vector<float> ResidentTrainer::run(const DeviceDataset& dataset, std::int64_t n, const RunOptions& options) {
  return state_->run(dataset, n, options);
}
DeviceDataset ResidentTrainer::upload(const Inputs& arrays) const {
  const Graph& forward = state_->programs.front()->forward;
  std::vector<std::pair<std::string, TensorType>> types;
  for (const auto& [name, view] : arrays) types.emplace_back(name, view.type);
  train::check_arrays(forward, types);  // it knows shapes that a dataset by itself does not
  DeviceDataset dataset(arrays, state_->device);
  train::check_dataset(forward, dataset.data(), state_->device);
  return dataset;
}
Evaluation ResidentTrainer::evaluate(const DeviceDataset& dataset, Weights weights, std::int64_t batch) {
  return state_->evaluate(dataset, weights, batch);
}
Evaluation ResidentTrainer::evaluate(std::span<const Inputs> batches, Weights weights) {
  return state_->evaluate(batches, weights);
}

}  // namespace wholestep
