#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "graph/op.h"
#include "loops/fuse.h"
#include "plan/arena.h"
#include "plan/in_place.h"
#include "plan/plan.h"

namespace wholestep::plan {
namespace {

struct Fused {
  Graph graph;
  std::vector<loops::Kernel> kernels;
  InPlaceResult order;
  std::vector<std::string> notes;
};

// Fuses; where an update cannot overwrite its target, a kernel of its own copies it at the end.
Fused fuse_in_place(const Graph& graph, const PlanOptions& how) {
  Fused fused{loops::prepare(graph), {}, {}, {}};
  loops::FuseOptions options{.enabled = how.fuse, .pairs = how.target.multiplies_pairs};
  for (;;) {
    fused.kernels = loops::fuse(fused.graph, options);
    fused.order = order_kernels(fused.graph, fused.kernels);
    std::vector<Update> blocked;
    for (const InPlace& in_place : fused.order.updates)
      if (!in_place.possible) blocked.push_back(in_place.update);
    if (blocked.empty()) return fused;
    for (const Update& update : blocked) {
      Tensor value = fused.graph.tensor(update.value);
      Tensor copy = fused.graph.apply("reshape", {value}, {{"shape", std::vector<std::int64_t>(value.shape())}});
      fused.graph.set_update(fused.graph.tensor(update.target), copy);
      options.alone.push_back(copy.id());
      fused.notes.push_back(
          fmt::format("'{}' is updated through a copy: its old value is still read when the new one is known",
                      fused.graph.node(update.target).name));
    }
  }
}

class Planner {
 public:
  Planner(Fused fused, const PlanOptions& options) : fused_(std::move(fused)), options_(options) {}

  Plan run() {
    plan_.name = fused_.graph.name();
    plan_.notes = fused_.notes;
    overwrite_targets();
    make_buffers();
    make_phases();
    plan_.graph = std::move(fused_.graph);
    verify(plan_);
    return std::move(plan_);
  }

 private:
  const Graph& graph() const { return fused_.graph; }

  void overwrite_targets() {
    std::unordered_map<NodeId, NodeId> target_of;
    for (const InPlace& in_place : fused_.order.updates) target_of[in_place.update.value] = in_place.update.target;
    for (loops::Kernel& kernel : fused_.kernels) {
      std::vector<NodeId> values;
      for (const loops::BufferUse& use : kernel.buffers)
        if (target_of.count(use.value)) values.push_back(use.value);
      for (NodeId value : values) rename_buffer(kernel, value, target_of.at(value));
    }
    if (!target_of.empty())
      plan_.notes.push_back(fmt::format("{} parameters and states are updated in place", target_of.size()));
  }

  int add_buffer(Buffer buffer) {
    const NodeId value = buffer.value;
    plan_.buffers.push_back(std::move(buffer));
    return buffer_of_[value] = static_cast<int>(plan_.buffers.size()) - 1;
  }

  // Sources that the program's user sees first, then outputs, constants and scratch.
  void make_buffers() {
    for (std::size_t i = 0; i < graph().nodes().size(); ++i) {
      const Node& node = graph().nodes()[i];
      if (node.op->name == "input") add_buffer({BufferRole::input, node.name, node.type, static_cast<NodeId>(i)});
      if (node.op->name == "param" || node.op->name == "state") {
        add_buffer({BufferRole::resident, node.name, node.type, static_cast<NodeId>(i)});
      }
    }
    for (std::size_t i = 0; i < graph().outputs().size(); ++i) {
      const NodeId value = graph().outputs()[i];
      plan_.outputs.push_back(
          add_buffer({BufferRole::output, fmt::format("output{}", i), graph().node(value).type, value}));
    }
    for (const loops::Kernel& kernel : fused_.kernels) {
      for (const loops::BufferUse& use : kernel.buffers) {
        if (buffer_of_.count(use.value)) continue;
        const Node& node = graph().node(use.value);
        if (node.op->name == "constant") {
          add_buffer({BufferRole::constant, fmt::format("%{}", use.value), node.type, use.value, -1,
                      node.attrs.get<Literal>("value")});
        } else {
          scratch_.push_back(add_buffer({BufferRole::scratch, fmt::format("%{}", use.value), node.type, use.value}));
        }
      }
    }
  }

  void make_phases() {
    for (const loops::Kernel& kernel : fused_.kernels)
      plan_.nests.push_back(schedule::schedule(kernel, options_.target));
    const std::vector<int> phase_of = choose_phases();
    for (std::size_t k = 0; k < fused_.kernels.size(); ++k) {
      const auto phase = static_cast<std::size_t>(phase_of[k]);
      if (plan_.phases.size() <= phase) plan_.phases.resize(phase + 1);
      Launch launch{static_cast<int>(k), {}};
      for (const loops::BufferUse& use : fused_.kernels[k].buffers) launch.buffers.push_back(buffer_of_.at(use.value));
      plan_.phases[phase].launches.push_back(std::move(launch));
    }
    for (Phase& phase : plan_.phases) {
      double cost = 0;
      for (const Launch& launch : phase.launches) cost += cost_of(static_cast<std::size_t>(launch.nest));
      phase.serial = cost < options_.serial_below_ns;
    }
    const ArenaLayout layout = lay_out(lifetimes(phase_of));
    for (std::size_t b = 0; b < scratch_.size(); ++b)
      plan_.buffers[static_cast<std::size_t>(scratch_[b])].arena_offset = layout.offsets[b];
    plan_.arena_bytes = layout.bytes;
    plan_.largest_live_bytes = layout.largest_live_bytes;
  }

  double cost_of(std::size_t kernel) const {
    const schedule::Nest& nest = plan_.nests[kernel];
    return nest.task_cost * static_cast<double>(nest.tasks());
  }

  // As early as dependences allow. But what nothing waits for, updates of small weights above all, would only hold up
  // the chain of kernels that lead to the end, so it is done there, where all workers have enough to do.
  std::vector<int> choose_phases() const {
    const std::vector<int>& early = fused_.order.order.level;
    const int last = early.empty() ? 0 : *std::max_element(early.begin(), early.end());
    std::vector<int> late = early;
    for (std::size_t k = 0; k < late.size(); ++k) {
      if (fused_.order.order.after[k].empty() && cost_of(k) < options_.late_below_ns) late[k] = last;
    }
    const auto most = static_cast<double>(largest_live_bytes(lifetimes(early))) * (1 + kSpareMemory);
    return static_cast<double>(largest_live_bytes(lifetimes(late))) <= most ? late : early;
  }

  // Of each buffer of `scratch_`.
  std::vector<Lifetime> lifetimes(const std::vector<int>& phase_of) const {
    std::vector<Lifetime> result;
    std::vector<Lifetime*> of(plan_.buffers.size(), nullptr);
    result.reserve(scratch_.size());
    for (const int b : scratch_) {
      const auto index = static_cast<std::size_t>(b);
      const auto bytes = static_cast<std::int64_t>(num_bytes(plan_.buffers[index].type));
      of[index] = &result.emplace_back(Lifetime{bytes, std::numeric_limits<int>::max(), -1});
    }
    for (std::size_t k = 0; k < fused_.kernels.size(); ++k) {
      for (const loops::BufferUse& use : fused_.kernels[k].buffers) {
        Lifetime* const life = of[static_cast<std::size_t>(buffer_of_.at(use.value))];
        if (!life) continue;
        life->first = std::min(life->first, phase_of[k]);
        life->last = std::max(life->last, phase_of[k]);
      }
    }
    return result;
  }

  Fused fused_;
  const PlanOptions& options_;
  Plan plan_;
  std::unordered_map<NodeId, int> buffer_of_;
  std::vector<int> scratch_;
};

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) {
  return Planner(fuse_in_place(graph, options), options).run();
}

}  // namespace wholestep::plan
