#include "train/validate.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "graph/names.h"
#include "graph/op.h"
#include "optim/rule.h"
#include "runtime/check.h"
#include "train/gradient_rules.h"
#include "train/step_graph.h"

namespace wholestep::train {
namespace {

[[noreturn]] void fail(ErrorCode code, const Graph& graph, const std::string& message) {
  throw Error(code, fmt::format("{}: {}", graph.name(), message));
}

void check_same_signature(const Graph& graph, const Graph& other, std::string_view kind) {
  const std::vector<NodeId> ours = graph.nodes_of(kind), theirs = other.nodes_of(kind);
  const auto mismatch = [&](const std::string& message) {
    fail(ErrorCode::checkpoint_mismatch, other, fmt::format("not the same model: {}", message));
  };
  for (NodeId id : ours) {
    const Node& node = graph.node(id);
    const NodeId found = other.find_id(node.name);
    if (found < 0 || other.node(found).op->name != kind) mismatch(fmt::format("it has no {} \"{}\"", kind, node.name));
    if (other.node(found).type == node.type) continue;
    mismatch(fmt::format("{} \"{}\" is {}, expected {}", kind, node.name, to_string(other.node(found).type),
                         to_string(node.type)));
  }
  for (NodeId id : theirs) {
    const NodeId found = graph.find_id(other.node(id).name);
    if (found < 0 || graph.node(found).op->name != kind) {
      mismatch(fmt::format("{} \"{}\" is not in the first graph", kind, other.node(id).name));
    }
  }
}

}  // namespace

void check_loss(const Graph& graph) {
  if (graph.outputs().empty()) {
    fail(ErrorCode::no_outputs, graph, "the graph has no outputs, so there is no loss to train on; call set_outputs");
  }
  const TensorType& loss = graph.node(graph.outputs()[0]).type;
  if (!loss.shape.empty() || !is_float(loss.dtype)) {
    fail(ErrorCode::loss_not_scalar, graph,
         fmt::format("the first output is the loss: expected a floating-point scalar, got {}", to_string(loss)));
  }
}

void check_trainable(const Graph& graph, const std::vector<std::string>& train) {
  if (train.empty()) fail(ErrorCode::nothing_to_train, graph, "the list of trainable parameters is empty");
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : train) {
    const NodeId id = graph.find_id(name);
    if (!is_param(graph, name)) {
      fail(ErrorCode::not_a_parameter, graph,
           fmt::format("\"{}\" is to be trained, but it is no parameter ({}); parameters: {}", name,
                       id < 0 ? "unknown" : graph.node(id).op->name, list_names(graph, "param")));
    }
    if (!seen.insert(name).second) {
      fail(ErrorCode::duplicate_name, graph, fmt::format("parameter \"{}\" is twice in the trainable ones", name));
    }
    if (!is_float(graph.node(id).type.dtype)) {
      fail(ErrorCode::dtype_mismatch, graph,
           fmt::format("parameter \"{}\" is {}: only floating-point ones can be trained", name,
                       to_string(graph.node(id).type)));
    }
  }
}

void check_initial(const Graph& graph, const NamedArrays& initial) {
  std::unordered_set<std::string_view> given;
  for (const auto& [name, value] : initial) {
    const NodeId id = graph.find_id(name);
    if (!is_param(graph, name)) {
      fail(ErrorCode::unknown_name, graph,
           fmt::format("an initial value for \"{}\", which is not a parameter; parameters: {}", name,
                       list_names(graph, "param")));
    }
    if (!given.insert(name).second) {
      fail(ErrorCode::duplicate_name, graph, fmt::format("two initial values for parameter \"{}\"", name));
    }
    runtime::check_data(fmt::format("initial value of parameter \"{}\"", name), graph.node(id).type, value);
  }
  for (NodeId id : graph.nodes_of("param")) {
    const Node& node = graph.node(id);
    if (given.contains(node.name)) continue;
    fail(ErrorCode::missing_initial_value, graph,
         fmt::format("no initial value for parameter \"{}\", expected {}", node.name, to_string(node.type)));
  }
}

std::vector<ParameterRule> check_and_choose_rules(const Graph& graph, const std::vector<std::string>& train,
                                                  const NamedArrays& initial, const Optimizer& optimizer) {
  check_loss(graph);
  check_trainable(graph, train);
  check_initial(graph, initial);
  if (!optimizer) fail(ErrorCode::invalid_argument, graph, "no optimizer given");
  return rules_of(*optimizer, graph, train);
}

UpdateOptions complete(UpdateOptions given, Precision precision) {
  constexpr std::string_view kWho = "UpdateOptions";
  if (precision == Precision::mixed_f16 || precision == Precision::f16) {
    if (!given.loss_scaling) given.loss_scaling.emplace();
  }
  if (const auto& scaling = given.loss_scaling) {
    optim::require(scaling->least >= kLeastLossScale && scaling->least <= kMostLossScale, kWho, "loss_scaling.least",
                   "in [2^-120, 2^120]", scaling->least);
    optim::require(scaling->initial >= scaling->least && scaling->initial <= kMostLossScale, kWho,
                   "loss_scaling.initial", "in [loss_scaling.least, 2^120]", scaling->initial);
    optim::require(std::isfinite(scaling->factor) && scaling->factor > 1, kWho, "loss_scaling.factor",
                   "finite and above 1", scaling->factor);
    optim::require(scaling->interval >= 1 && scaling->interval < std::int64_t{1} << 31, kWho, "loss_scaling.interval",
                   "in [1, 2^31)", static_cast<double>(scaling->interval));
  }
  optim::require(given.most_skips >= 1, kWho, "most_skips", "at least 1", static_cast<double>(given.most_skips));
  if (given.clip_value) optim::require_positive(kWho, "clip_value", *given.clip_value);
  if (given.clip_norm) optim::require_positive(kWho, "clip_norm", *given.clip_norm);
  if (given.ema_decay) {
    optim::require(*given.ema_decay > 0 && *given.ema_decay < 1, kWho, "ema_decay", "in (0, 1)", *given.ema_decay);
  }
  return given;
}

std::string describe(const UpdateOptions& update) {
  std::string text;
  if (const auto& scaling = update.loss_scaling) {
    text += fmt::format(", loss scaled by {} at first, by {} more or less, by {} at least", scaling->initial,
                        scaling->factor, scaling->least);
  }
  if (update.loss_scaling || update.skip_non_finite) text += ", steps skipped where a gradient is not finite";
  if (update.clip_value) text += fmt::format(", gradients clipped to {} each", *update.clip_value);
  if (update.clip_norm) text += fmt::format(", gradients clipped to norm {}", *update.clip_norm);
  if (update.ema_decay) text += fmt::format(", averages of decay {}", *update.ema_decay);
  return text;
}

void require_averages(const UpdateOptions& update) {
  if (update.ema_decay) return;
  throw Error(ErrorCode::invalid_argument,
              "no averages of the parameters are kept: UpdateOptions::ema_decay is not set");
}

void check_nothing_pending(std::int64_t pending) {
  if (pending == 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} micro-batches are pending: step_accumulated takes their step, "
                          "drop_accumulation forgets them",
                          pending));
}

void check_same_model(const Graph& graph, const Graph& other) {
  check_same_signature(graph, other, "param");
  check_same_signature(graph, other, "state");
  if (graph.outputs().size() != other.outputs().size()) {
    fail(ErrorCode::checkpoint_mismatch, other,
         fmt::format("not the same model: {} outputs, expected {}", other.outputs().size(), graph.outputs().size()));
  }
}

}  // namespace wholestep::train
