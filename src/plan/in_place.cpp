#include "plan/in_place.h"

#include <algorithm>
#include <unordered_map>

#include "expr/text.h"
#include "wholestep/error.h"

namespace wholestep::plan {
namespace {

using loops::Expr;
using loops::Kernel;
using loops::Stage;

int buffer_of(const Kernel& kernel, NodeId value) {
  for (std::size_t i = 0; i < kernel.buffers.size(); ++i)
    if (kernel.buffers[i].value == value) return static_cast<int>(i);
  return -1;
}

// Whether `kernel`, which computes `value`, may store it over `target`.
bool overwrites_safely(const Kernel& kernel, NodeId value, NodeId target) {
  const int read = buffer_of(kernel, target), written = buffer_of(kernel, value);
  if (read < 0) return true;
  int storing_stage = -1;
  const loops::Affine* index = nullptr;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    for (const loops::Store& store : kernel.stages[s].stores) {
      if (store.buffer != written) continue;
      if (storing_stage >= 0 || store.row != loops::kNoExpr) return false;
      storing_stage = static_cast<int>(s);
      index = &store.index;
    }
  }
  if (storing_stage < 0) return false;
  for (std::size_t s = 0; s < kernel.stages.size(); ++s) {
    bool safe = true;
    auto check = [&](loops::ExprId id) {
      loops::for_each_below(kernel.exprs, id, [&](loops::ExprId i) {
        const Expr& e = kernel.exprs[static_cast<std::size_t>(i)];
        const bool memory = e.kind == loops::ExprKind::load || e.kind == loops::ExprKind::gather;
        if (!memory || e.buffer != read) return;
        safe = safe && e.kind == loops::ExprKind::load && e.index == *index && static_cast<int>(s) <= storing_stage;
      });
    };
    const Stage& stage = kernel.stages[s];
    if (stage.reduce) check(stage.reduce_body);
    for (const loops::Store& store : stage.stores) {
      check(store.value);
      if (store.row != loops::kNoExpr) check(store.row);
    }
    if (!safe) return false;
  }
  return true;
}

// Whether `to` can be reached from `from`, `from` itself excepted.
bool reaches(const std::vector<std::vector<int>>& after, int from, const std::vector<int>& to) {
  std::vector<int> pending{from}, seen;
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    for (int next : after[static_cast<std::size_t>(at)]) {
      if (std::find(seen.begin(), seen.end(), next) != seen.end()) continue;
      if (std::find(to.begin(), to.end(), next) != to.end()) return true;
      seen.push_back(next);
      pending.push_back(next);
    }
  }
  return false;
}

}  // namespace

InPlaceResult order_kernels(const Graph& graph, const std::vector<Kernel>& kernels) {
  InPlaceResult result;
  std::vector<std::vector<int>>& after = result.order.after;
  after.resize(kernels.size());
  std::unordered_map<NodeId, int> producer;
  std::unordered_map<NodeId, std::vector<int>> readers;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    for (const loops::BufferUse& use : kernels[k].buffers) {
      if (use.written) producer[use.value] = static_cast<int>(k);
      if (use.read) readers[use.value].push_back(static_cast<int>(k));
    }
  }
  auto before = [&](int first, int second) {
    std::vector<int>& list = after[static_cast<std::size_t>(first)];
    if (std::find(list.begin(), list.end(), second) == list.end()) list.push_back(second);
  };
  for (const auto& [value, who] : readers) {
    auto made = producer.find(value);
    if (made == producer.end()) continue;
    for (int reader : who)
      if (reader != made->second) before(made->second, reader);
  }
  for (const Update& update : graph.updates()) {
    InPlace in_place{update};
    const int writer = producer.at(update.value);
    std::vector<int> others;
    for (int reader : readers[update.target])
      if (reader != writer) others.push_back(reader);
    if (overwrites_safely(kernels[static_cast<std::size_t>(writer)], update.value, update.target) &&
        (others.empty() || !reaches(after, writer, others))) {
      in_place.possible = true;
      for (int reader : others) before(reader, writer);
    }
    result.updates.push_back(in_place);
  }
  // Longest paths, by Kahn's order.
  std::vector<int> waiting(kernels.size(), 0);
  for (const std::vector<int>& list : after)
    for (int next : list) ++waiting[static_cast<std::size_t>(next)];
  std::vector<int> ready;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (waiting[k] == 0) ready.push_back(static_cast<int>(k));
  result.order.level.assign(kernels.size(), 0);
  std::size_t done = 0;
  for (; done < ready.size(); ++done) {
    const int at = ready[done];
    for (int next : after[static_cast<std::size_t>(at)]) {
      int& level = result.order.level[static_cast<std::size_t>(next)];
      level = std::max(level, result.order.level[static_cast<std::size_t>(at)] + 1);
      if (--waiting[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
  }
  if (done != kernels.size()) throw Error(ErrorCode::internal, "kernels depend on each other in a circle");
  return result;
}

void rename_buffer(Kernel& kernel, NodeId from, NodeId to) {
  const int gone = buffer_of(kernel, from), kept = buffer_of(kernel, to);
  if (gone < 0) return;
  if (kept < 0) {
    kernel.buffers[static_cast<std::size_t>(gone)].value = to;
    return;
  }
  kernel.buffers[static_cast<std::size_t>(kept)].read |= kernel.buffers[static_cast<std::size_t>(gone)].read;
  kernel.buffers[static_cast<std::size_t>(kept)].written |= kernel.buffers[static_cast<std::size_t>(gone)].written;
  kernel.buffers.erase(kernel.buffers.begin() + gone);
  auto moved = [&](int buffer) {
    if (buffer == gone) buffer = kept;
    return buffer > gone ? buffer - 1 : buffer;
  };
  for (Expr& e : kernel.exprs)
    if (e.kind == loops::ExprKind::load || e.kind == loops::ExprKind::gather) e.buffer = moved(e.buffer);
  for (Stage& stage : kernel.stages)
    for (loops::Store& store : stage.stores) store.buffer = moved(store.buffer);
}

}  // namespace wholestep::plan
