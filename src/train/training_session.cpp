#include "wholestep/training_session.h"

#include <fmt/format.h>

#include "graph/names.h"
#include "graph/op.h"
#include "train/gradient_path.h"
#include "train/update_task.h"

namespace wholestep {

namespace {

UpdateTaskEligibility eligibility_of(const Graph& graph, const std::vector<std::string>& train,
                                     const TrainConfig& config) {
  if (auto reason = train::why_no_update_task(graph, train, *config.optimizer)) return Unsupported{*reason};
  if (config.compile.precision != Precision::f32) {
    return Unsupported{fmt::format("precision {}: an update task trains in f32", to_string(config.compile.precision))};
  }
  const UpdateOptions& update = config.update;
  if (update.clip_norm || update.clip_value || update.ema_decay || update.loss_scaling || update.skip_non_finite) {
    return Unsupported{
        "update options: an update task knows neither clipping, averages, loss scaling nor skipped steps"};
  }
  return Unsupported{"no Core ML runtime on this system"};
}

}  // namespace

struct TrainingSession::State {
  State(const Graph& model, std::vector<std::string> names, const NamedArrays& values, TrainConfig how, Device on)
      : graph(model), train(std::move(names)), initial(values), config(std::move(how)), device(std::move(on)) {
    build();
  }

  template <class Visitor>
  auto visit(Visitor&& visitor) {
    return resident ? visitor(*resident) : visitor(*split);
  }

  /// What runs steps, from the initial values.
  void build() {
    std::unique_ptr<train::GradientPath> on_host;
    std::unique_ptr<ResidentTrainer> on_device;
    if (fused) {
      on_device = std::make_unique<ResidentTrainer>(graph, train, initial, config.optimizer, device, config.compile,
                                                    config.update);
    } else {
      on_host = std::make_unique<train::GradientPath>(graph, train, initial, config.optimizer, device, config.compile,
                                                      config.update);
    }
    if (!config.lr) config.lr = config.optimizer->lr();
    if (on_device) on_device->set_lr(*config.lr);
    if (on_host) on_host->set_lr(*config.lr);
    resident = std::move(on_device);
    split = std::move(on_host);
    eligibility = eligibility_of(graph, train, config);
  }

  void rebuild_with(Precision precision, bool fuse) {
    if (settled) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: how a session computes is chosen before its first step", graph.name()));
    }
    const double lr = visit([](const auto& path) { return path.lr(); });
    const bool was_fused = std::exchange(fused, fuse);
    const Precision was = std::exchange(config.compile.precision, precision);
    try {
      build();
    } catch (...) {
      fused = was_fused;
      config.compile.precision = was;
      throw;
    }
    visit([&](auto& path) { return path.set_lr(lr); });
  }

  /// The initial values are needed no more: how a session computes is settled.
  void begun() {
    settled = true;
    NamedArrays().swap(initial);
  }

  Graph graph;
  std::vector<std::string> train;
  NamedArrays initial;
  TrainConfig config;
  Device device;
  bool fused = false;
  bool settled = false;
  UpdateTaskEligibility eligibility;
  // One of the two.
  std::unique_ptr<ResidentTrainer> resident;
  std::unique_ptr<train::GradientPath> split;
};

TrainingSession::TrainingSession(const Graph& graph, std::vector<std::string> train, const NamedArrays& initial,
                                 TrainConfig config, Device device)
    : state_(std::make_unique<State>(graph, std::move(train), initial, std::move(config), std::move(device))) {}
TrainingSession::TrainingSession(TrainingSession&&) noexcept = default;
TrainingSession& TrainingSession::operator=(TrainingSession&&) noexcept = default;
TrainingSession::~TrainingSession() = default;

TrainingSession& TrainingSession::with_precision_policy(Precision precision) {
  state_->rebuild_with(precision, state_->fused);
  return *this;
}

TrainingSession& TrainingSession::with_fused_optimizer() {
  state_->rebuild_with(state_->config.compile.precision, true);
  return *this;
}

bool TrainingSession::fused_active() const { return state_->fused; }

StepReport TrainingSession::step(const Inputs& inputs) {
  const StepResult result = state_->visit([&](auto& path) { return path.step(inputs); });
  state_->begun();
  return {result.loss(), update_path(), state_->fused, result.skipped};
}

float TrainingSession::accumulate(const Inputs& inputs) {
  const float loss = state_->visit([&](auto& path) { return path.accumulate(inputs); });
  state_->begun();
  return loss;
}

std::int64_t TrainingSession::step_accumulated() {
  return state_->visit([](auto& path) { return path.step_accumulated(); });
}

std::int64_t TrainingSession::drop_accumulation() {
  return state_->visit([](auto& path) { return path.drop_accumulation(); });
}

std::int64_t TrainingSession::pending_accumulation() const {
  return state_->visit([](const auto& path) { return path.pending_accumulation(); });
}

std::int64_t TrainingSession::skipped_steps() const {
  return state_->visit([](const auto& path) { return path.skipped_steps(); });
}

double TrainingSession::loss_scale() const {
  return state_->visit([](const auto& path) { return path.loss_scale(); });
}

void TrainingSession::set_lr(double lr) {
  state_->visit([&](auto& path) { path.set_lr(lr); });
}

double TrainingSession::lr() const {
  return state_->visit([](const auto& path) { return path.lr(); });
}

UpdatePath TrainingSession::update_path() const {
  return std::holds_alternative<Eligible>(state_->eligibility) ? UpdatePath::update_task : UpdatePath::gradient;
}

UpdateTaskEligibility TrainingSession::update_task_eligibility() const { return state_->eligibility; }

Array TrainingSession::param(const std::string& name) const {
  check_param(state_->graph, name);
  return state_->visit([&](const auto& path) { return path.param(name); });
}

NamedArrays TrainingSession::params() const {
  NamedArrays values;
  for (NodeId id : state_->graph.nodes_of("param")) {
    const std::string& name = state_->graph.node(id).name;
    values.emplace_back(name, param(name));
  }
  return values;
}

NamedArrays TrainingSession::averages() const {
  return state_->visit([](const auto& path) { return path.averages(); });
}

OptimizerState TrainingSession::optimizer_state() const {
  return state_->visit([](const auto& path) { return path.optimizer_state(); });
}

std::int64_t TrainingSession::steps() const {
  return state_->visit([](const auto& path) { return path.steps(); });
}

const TrainConfig& TrainingSession::config() const { return state_->config; }
const Device& TrainingSession::device() const { return state_->device; }

std::string TrainingSession::explain() const {
  return state_->visit([](const auto& path) { return path.explain(); });
}

}  // namespace wholestep
