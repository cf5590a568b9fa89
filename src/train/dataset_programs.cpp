#include "train/dataset_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "data/order.h"
#include "wholestep/ops.h"

namespace wholestep::train {

void RowsProgram::bind(const DeviceDataset& dataset) {
  if (bound && &bound->data() == &dataset.data()) return;
  for (const DeviceDataset::Data::Entry& entry : dataset.data().entries) {
    program->bind_memory(dataset_input(entry.name), entry.memory);
  }
  bound = dataset;
}

RowsProgram& program_for(RowsPrograms& programs, const DeviceDataset& dataset, std::int64_t batch,
                         const std::function<std::unique_ptr<runtime::Program>()>& make) {
  const auto arrays = dataset.arrays();
  auto known = std::ranges::find_if(programs, [&](const std::unique_ptr<RowsProgram>& made) {
    return std::ssize(made->rows) == batch && made->arrays == arrays;
  });
  if (known == programs.end()) {
    auto made = std::make_unique<RowsProgram>();
    made->arrays = arrays;
    made->rows.resize(static_cast<std::size_t>(batch));
    made->program = make();
    made->program->attach(std::string(kRows), made->rows.data());
    known = programs.insert(known, std::move(made));
  }
  (*known)->bind(dataset);
  return **known;
}

const std::vector<std::int64_t>& EpochOrder::of(std::int64_t examples, std::optional<std::uint64_t> seed,
                                                std::int64_t epoch) {
  if (std::ssize(order_) == examples && seed_ == seed && (epoch_ == epoch || !seed)) return order_;
  order_.resize(static_cast<std::size_t>(examples));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  if (seed) data::shuffle(order_, *seed, static_cast<std::uint64_t>(epoch));
  seed_ = seed;
  epoch_ = epoch;
  return order_;
}

std::string output_sum(std::size_t output) { return fmt::format("evaluation/output{}", output); }

Graph sum_outputs(Graph graph, std::int64_t examples) {
  const std::vector<NodeId> outputs = graph.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor value = graph.tensor(outputs[i]);
    if (value.rank() != 0) continue;
    const DType dtype = is_float(value.dtype()) ? DType::f64 : DType::i64;
    const Tensor sum = graph.state(output_sum(i), {}, dtype), added = cast(value, dtype);
    graph.set_update(sum, sum + (dtype == DType::f64 ? added * static_cast<double>(examples) : added));
  }
  graph.set_outputs({});
  return graph;
}

}  // namespace wholestep::train
