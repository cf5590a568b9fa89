// The report of a program: what was made of the graph, and what it costs in memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "graph/op.h"
#include "runtime/program.h"

namespace wholestep::runtime {
namespace {

std::string_view role_name(plan::BufferRole role) {
  switch (role) {
    case plan::BufferRole::input:
      return "input";
    case plan::BufferRole::resident:
      return "resident";
    case plan::BufferRole::constant:
      return "constant";
    case plan::BufferRole::output:
      return "output";
    case plan::BufferRole::scratch:
      return "scratch";
  }
  return "";
}

// Words in the order in which they first occur, with how many there are.
class Tally {
 public:
  void add(std::string word) {
    const auto known = std::ranges::find(counts_, word, &std::pair<std::string, int>::first);
    if (known == counts_.end()) {
      counts_.emplace_back(std::move(word), 1);
    } else {
      ++known->second;
    }
  }
  std::string text() const {
    if (counts_.empty()) return "none";
    std::vector<std::string> words;
    for (const auto& [word, count] : counts_) words.push_back(count == 1 ? word : fmt::format("{} x{}", word, count));
    return fmt::format("{}", fmt::join(words, ", "));
  }

 private:
  std::vector<std::pair<std::string, int>> counts_;
};

std::string ops_of(const schedule::Nest& nest, const Graph& graph) {
  Tally ops;
  for (NodeId id : nest.nodes) ops.add(graph.node(id).op->name);
  return ops.text();
}

// Which ops are computed in which float type: that of their operands, or of the result where no operand is a float.
void append_float_types(std::string& out, const Graph& graph) {
  std::map<DType, Tally> ops;
  Tally casts;
  for (const Node& node : graph.nodes()) {
    if (node.op->kind == OpKind::source) continue;
    DType dtype = node.type.dtype;
    for (NodeId operand : node.operands) {
      if (is_float(graph.node(operand).type.dtype)) dtype = graph.node(operand).type.dtype;
    }
    if (!is_float(dtype)) continue;
    if (node.op->name == "cast") {
      const DType from = graph.node(node.operands[0]).type.dtype;
      casts.add(fmt::format("{} to {}", to_string(from), to_string(node.type.dtype)));
    } else {
      ops[dtype].add(node.op->name);
    }
  }
  out += "computed in\n";
  for (const auto& [dtype, tally] : ops) out += fmt::format("  {}: {}\n", to_string(dtype), tally.text());
  out += fmt::format("  casts: {}\n", casts.text());
}

void append_kernels(std::string& out, const plan::Plan& plan) {
  out +=
      fmt::format("kernels ({}) in phases ({}), {} barriers\n", plan.nests.size(), plan.phases.size(), plan.barriers());
  for (std::size_t i = 0; i < plan.phases.size(); ++i) {
    out += fmt::format("  phase {}{}\n", i, plan.phases[i].serial ? " (one worker)" : "");
    for (const plan::Launch& launch : plan.phases[i].launches) {
      const schedule::Nest& nest = plan.nests[static_cast<std::size_t>(launch.nest)];
      out += fmt::format("    {}: {}\n", nest.name, ops_of(nest, plan.graph));
      if (!nest.note.empty()) out += fmt::format("      {}\n", nest.note);
    }
  }
}

void append_buffers(std::string& out, const plan::Plan& plan) {
  out += fmt::format("buffers ({})\n  {:<9} {:<38} {:<18} {:>12} {:>12}\n", plan.buffers.size(), "role", "name", "type",
                     "bytes", "arena offset");
  for (const plan::Buffer& buffer : plan.buffers) {
    const std::string offset = buffer.arena_offset < 0 ? "-" : fmt::format("{}", buffer.arena_offset);
    out += fmt::format("  {:<9} {:<38} {:<18} {:>12} {:>12}\n", role_name(buffer.role),
                       buffer.name.empty() ? "-" : buffer.name, to_string(buffer.type), num_bytes(buffer.type), offset);
  }
}

void append_lines(std::string& out, std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  out += fmt::format("{}\n", title);
  for (const std::string& line : lines) out += fmt::format("  {}\n", line);
}

}  // namespace

std::string Program::explain() const {
  const plan::Plan& plan = lowered_->plan;
  const DeviceInfo info = backend_->info();
  std::string out = fmt::format("program {}\n", lowered_->source.name());
  out += fmt::format("device {}: {}, {} threads\n", info.name, info.description, backend_->threads());
  out += fmt::format("resident: {}\n", is_resident() ? "yes" : "no, values pass in and out at each run");
  if (backend_->consumes() == backend::Consumes::plan) {
    Tally composites;
    for (const std::string& op : lowered_->report.decomposed) composites.add(op);
    out += fmt::format("decomposed: {}\n", composites.text());
    append_kernels(out, plan);
  } else {
    out += fmt::format("runs the graph as written, {} nodes\n", lowered_->graph.nodes().size());
  }
  append_float_types(out, lowered_->source);
  append_buffers(out, plan);
  out += fmt::format("bytes: {} resident, {} scratch (largest live set {})\n", stats_.resident_bytes,
                     stats_.scratch_bytes, stats_.largest_live_bytes);

  std::size_t given = 0, attached = 0, bound = 0;
  for (const Input& input : inputs_) {
    (input.expected() ? given : input.handle ? bound : attached) += num_bytes(input.type);
  }
  out += fmt::format(
      "uploaded per run: {} bytes of inputs, {} bytes of the step block; {} bytes of inputs stay on the device\n",
      given, attached, bound);

  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs.push_back(
        fmt::format("output {}: {}, {} bytes", i, to_string(outputs_[i].type), num_bytes(outputs_[i].type)));
  }
  append_lines(out, "read back per run, where asked for", outputs);
  append_lines(out, "plan", plan.notes);
  append_lines(out, "code", executable_->notes());
  out += fmt::format("compile: {:.2f} ms{}\n", stats_.compile_ms, stats_.from_cache ? ", code from cache" : "");
  for (const StageTime& stage : stages_) out += fmt::format("  {:<20} {:8.2f} ms\n", stage.name, stage.ms);
  return out;
}

}  // namespace wholestep::runtime
