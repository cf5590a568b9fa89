#pragma once
// The workloads of `bench`, and the three programs that it times on each.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "wholestep/data.h"
#include "wholestep/graph.h"
#include "wholestep/optim.h"
#include "wholestep/session.h"

namespace wholestep::cli {

/// A model at a batch size, and what makes random examples that fit it.
struct Workload {
  std::string name;
  Graph graph;
  std::int64_t batch;
  std::function<data::ImageSet(std::int64_t count)> examples;
};

/// Batches of shuffled examples without end, made by the library's loader while the step before runs. `examples` are
/// whole batches.
class HostBatches {
 public:
  HostBatches(data::ImageSet examples, std::int64_t batch);
  /// Valid until the next call.
  const data::Batch& next();

 private:
  data::ImageSet examples_;
  std::int64_t batch_;
  std::uint64_t epoch_ = 0;
  data::Batches batches_;
};

/// Throws `unknown_name` listing the names.
void check_workload(const std::string& name);
/// "mlp": 784-128-10, batch 64. Throws as `check_workload`.
Workload make_workload(const std::string& name);

std::int64_t count_parameters(const Graph& graph);

/// Floating-point operations of the matrix products that the outputs of `graph` need, a multiply-add counting as two.
double count_matmul_flops(const Graph& graph);

/// What a training step is without a resident update: a program computes the gradients, the host reads them back, and
/// a second program takes parameters, gradients and optimizer state in and gives them out.
class HostOptimizerStep {
 public:
  HostOptimizerStep(const Graph& graph, const Optimizer& optimizer, const Device& device, Precision precision);

  /// The gradient program alone; the gradients stay on the device. Returns the loss.
  double gradients_only(const data::Batch& batch);
  /// Gradients, read back, update on the host, upload. Returns the loss before the update.
  double step(const data::Batch& batch);
  /// The graph of the gradient program.
  const Graph& gradient_graph() const { return gradient_graph_; }

 private:
  Optimizer optimizer_;
  std::vector<std::string> names_;
  std::vector<ParameterRule> rules_;
  Graph gradient_graph_;
  CompiledGraph gradients_;
  CompiledGraph update_;
  NamedArrays state_;  // inputs of the update program that its outputs replace, in the order of those
  std::size_t first_gradient_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace wholestep::cli
