#include "schedule/nest.h"

#include <fmt/format.h>

#include <set>

#include "expr/text.h"
#include "wholestep/error.h"

namespace wholestep::schedule {
namespace {

std::string_view kind_name(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial:
      return "for";
    case LoopKind::unroll:
      return "unroll";
    case LoopKind::vector:
      return "vector";
  }
  return "";
}

std::vector<std::string> buffer_names(const Nest& nest) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < nest.buffers.size(); ++i) {
    const loops::BufferUse& use = nest.buffers[i];
    names.push_back(use.value < 0 ? fmt::format("local{}", i) : fmt::format("%{}", use.value));
  }
  return names;
}

void write(std::string& out, const Nest& nest, const Block& block, const std::string& indent,
           const std::vector<std::string>& names) {
  for (const Stmt& stmt : block) {
    if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
      out += fmt::format("{}{} v{} < {}", indent, kind_name(loop->kind), loop->var, loop->extent);
      if (loop->begin != loops::kNoExpr) out += " from " + loops::to_text(nest.exprs, loop->begin, names);
      if (loop->end != loops::kNoExpr) out += " to " + loops::to_text(nest.exprs, loop->end, names);
      out += " {\n";
      write(out, nest, loop->body, indent + "  ", names);
      out += indent + "}\n";
    } else if (const auto* branch = std::get_if<Branch>(&stmt.node)) {
      out += fmt::format("{}if {} < {} {{\n", indent, to_string(branch->value), branch->limit);
      write(out, nest, branch->then, indent + "  ", names);
      if (!branch->otherwise.empty()) {
        out += indent + "} else {\n";
        write(out, nest, branch->otherwise, indent + "  ", names);
      }
      out += indent + "}\n";
    } else if (const auto* set = std::get_if<SetAccumulator>(&stmt.node)) {
      out += fmt::format("{}acc{}[{}] = {}\n", indent, set->array, to_string(set->slot),
                         loops::to_text(nest.exprs, set->value, names));
    } else if (const auto* soon = std::get_if<Prefetch>(&stmt.node)) {
      out += fmt::format("{}prefetch {}\n", indent, loops::to_text(nest.exprs, soon->read, names));
    } else if (const auto* to = std::get_if<StoreTo>(&stmt.node)) {
      const loops::Store& store = to->store;
      const std::string& name = names[static_cast<std::size_t>(store.buffer)];
      const std::string value = loops::to_text(nest.exprs, store.value, names);
      if (store.row == loops::kNoExpr) {
        out += fmt::format("{}{}[{}] = {}\n", indent, name, to_string(store.index), value);
      } else {
        out += fmt::format("{}{}[{} + {} * {}] += {}\n", indent, name, to_string(store.index), store.scale,
                           loops::to_text(nest.exprs, store.row, names), value);
      }
    }
  }
}

class Verifier {
 public:
  explicit Verifier(const Nest& nest) : nest_(nest) {}

  void run() {
    for (const loops::Axis& axis : nest_.grid) enter(axis.var);
    block(nest_.body, false);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_graph, fmt::format("nest {}: {}", nest_.name, what));
  }
  void enter(Var var) {
    if (!scope_.insert(var).second) fail(fmt::format("v{} is declared twice", var));
  }
  void affine(const Affine& a) const {
    for (const auto& [var, coefficient] : a.terms)
      if (!scope_.count(var)) fail(fmt::format("v{} is used outside its loop", var));
  }
  void accumulator(int array) const {
    if (array < 0 || static_cast<std::size_t>(array) >= nest_.accumulators.size())
      fail(fmt::format("no accumulators {}", array));
  }
  void expr(ExprId id) const {
    loops::verify_expr(nest_.exprs, id, nest_.buffers.size(), "nest " + nest_.name);
    loops::for_each_below(nest_.exprs, id, [&](ExprId i) {
      const loops::Expr& e = nest_.exprs[static_cast<std::size_t>(i)];
      affine(e.index);
      for (const loops::Guard& guard : e.guards) affine(guard.value);
      if (e.kind == loops::ExprKind::accumulator || e.kind == loops::ExprKind::horizontal) accumulator(e.buffer);
      if (e.kind == loops::ExprKind::horizontal &&
          nest_.accumulators[static_cast<std::size_t>(e.buffer)].lanes != Lanes::together)
        fail(fmt::format("accumulators {} are reduced, but their lanes are not together", e.buffer));
      if (e.kind == loops::ExprKind::stage_result) fail("holds a result of the kernel level");
    });
  }
  void block(const Block& statements, bool in_vector) {
    for (const Stmt& stmt : statements) {
      if (const auto* loop = std::get_if<Loop>(&stmt.node)) {
        if (loop->extent < 0) fail(fmt::format("loop v{} has extent {}", loop->var, loop->extent));
        if (in_vector && loop->kind == LoopKind::vector) fail(fmt::format("vector loop v{} inside another", loop->var));
        for (const ExprId bound : {loop->begin, loop->end}) {
          if (bound == loops::kNoExpr) continue;
          expr(bound);
          if (loop->kind != LoopKind::serial) fail(fmt::format("loop v{} is narrowed and not serial", loop->var));
          if (nest_.exprs[static_cast<std::size_t>(bound)].dtype != DType::i64)
            fail(fmt::format("loop v{} is narrowed by a value that is no i64", loop->var));
        }
        enter(loop->var);
        block(loop->body, in_vector || loop->kind == LoopKind::vector);
        scope_.erase(loop->var);
      } else if (const auto* branch = std::get_if<Branch>(&stmt.node)) {
        affine(branch->value);
        block(branch->then, in_vector);
        block(branch->otherwise, in_vector);
      } else if (const auto* set = std::get_if<SetAccumulator>(&stmt.node)) {
        accumulator(set->array);
        affine(set->slot);
        expr(set->value);
        if (nest_.exprs[static_cast<std::size_t>(set->value)].dtype !=
            nest_.accumulators[static_cast<std::size_t>(set->array)].dtype) {
          fail(fmt::format("accumulators {} are of another dtype than their value", set->array));
        }
      } else if (const auto* soon = std::get_if<Prefetch>(&stmt.node)) {
        expr(soon->read);
        const loops::ExprKind kind = nest_.exprs[static_cast<std::size_t>(soon->read)].kind;
        if (kind != loops::ExprKind::load && kind != loops::ExprKind::gather) fail("prefetches what is not in memory");
        if (in_vector) fail("prefetches in a vector loop");
      } else if (const auto* to = std::get_if<StoreTo>(&stmt.node)) {
        const loops::Store& store = to->store;
        affine(store.index);
        expr(store.value);
        if (store.row != loops::kNoExpr) expr(store.row);
        if (store.buffer < 0 || static_cast<std::size_t>(store.buffer) >= nest_.buffers.size())
          fail(fmt::format("no buffer {}", store.buffer));
        const loops::BufferUse& use = nest_.buffers[static_cast<std::size_t>(store.buffer)];
        if (!use.written) fail(fmt::format("stores to buffer {}, which is not declared written", store.buffer));
        if (use.dtype != nest_.exprs[static_cast<std::size_t>(store.value)].dtype)
          fail(fmt::format("stores another dtype to buffer {}", store.buffer));
      }
    }
  }

  const Nest& nest_;
  std::set<Var> scope_;
};

}  // namespace

std::int64_t Nest::tasks() const {
  std::int64_t result = 1;
  for (const loops::Axis& axis : grid) result *= axis.extent;
  return result;
}

std::string to_text(const Nest& nest) {
  std::string out = fmt::format("nest {} lanes {} grid [", nest.name, nest.lanes);
  for (std::size_t i = 0; i < nest.grid.size(); ++i) {
    out += fmt::format("{}v{} < {}", i == 0 ? "" : ", ", nest.grid[i].var, nest.grid[i].extent);
  }
  out += fmt::format("] {:.0f} ns a task\n", nest.task_cost);
  if (!nest.note.empty()) out += "  # " + nest.note + "\n";
  write(out, nest, nest.body, "  ", buffer_names(nest));
  return out;
}

void verify(const Nest& nest) { Verifier(nest).run(); }

}  // namespace wholestep::schedule
