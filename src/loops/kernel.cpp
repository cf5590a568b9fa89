#include "loops/kernel.h"

#include <fmt/format.h>

#include <set>

#include "expr/text.h"
#include "graph/op.h"

namespace wholestep::loops {
namespace {

std::string_view form_name(Form form) {
  switch (form) {
    case Form::point:
      return "point";
    case Form::rows:
      return "rows";
    case Form::contraction:
      return "contraction";
    case Form::sequence:
      return "sequence";
  }
  return "";
}

std::string axes_text(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis& axis : axes) text += fmt::format("{}v{} < {}", text.empty() ? "" : ", ", axis.var, axis.extent);
  return text;
}

}  // namespace

std::string to_text(const Kernel& kernel, const Graph& graph) {
  std::vector<std::string> names;
  for (const BufferUse& use : kernel.buffers) {
    const std::string& name = graph.node(use.value).name;
    names.push_back(name.empty() ? fmt::format("%{}", use.value) : name);
  }
  std::string text =
      fmt::format("kernel {} {} [{}] {{\n", kernel.name, form_name(kernel.form), axes_text(kernel.parallel));
  for (std::size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    std::string indent = "  ";
    if (!kernel.repetition.axes.empty() && i >= kernel.repetition.first) {
      const std::optional<Affine>& negative = kernel.repetition.negative;
      if (i == kernel.repetition.first) {
        text += fmt::format("  for {} in order{}\n", axes_text(kernel.repetition.axes),
                            negative ? fmt::format(" where {} < 0", to_string(*negative)) : "");
      }
      indent += "  ";
    }
    if (!stage.map_axes.empty()) {
      text += fmt::format("{}for {}{}\n", indent, axes_text(stage.map_axes), stage.in_order ? " in order" : "");
      indent += "  ";
    }
    if (stage.reduce) {
      text += fmt::format("{}result{} = {} over {} of {}\n", indent, i, to_string(*stage.reduce),
                          axes_text(stage.reduce_axes), to_text(kernel.exprs, stage.reduce_body, names));
    }
    for (const Store& store : stage.stores) {
      const std::string at = store.row == kNoExpr ? to_string(store.index)
                                                  : fmt::format("{} + {} * {}", to_string(store.index), store.scale,
                                                                to_text(kernel.exprs, store.row, names));
      text += fmt::format("{}{}[{}] {} {}\n", indent, names[static_cast<std::size_t>(store.buffer)], at,
                          store.row == kNoExpr ? "=" : "+=", to_text(kernel.exprs, store.value, names));
    }
  }
  return text + "}\n";
}

void verify(const Kernel& kernel) {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_graph, fmt::format("kernel {}: {}", kernel.name, what));
  };
  std::set<Var> parallel;
  auto declare = [&](const std::vector<Axis>& axes, std::set<Var>& scope) {
    for (const Axis& axis : axes) {
      if (axis.extent < 0) fail(fmt::format("axis v{} has extent {}", axis.var, axis.extent));
      if (!scope.insert(axis.var).second) fail(fmt::format("axis v{} is declared twice", axis.var));
    }
  };
  declare(kernel.parallel, parallel);
  for (std::size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage& stage = kernel.stages[i];
    std::set<Var> outer = parallel;
    if (i >= kernel.repetition.first) declare(kernel.repetition.axes, outer);
    declare(stage.map_axes, outer);
    std::set<Var> inner = outer;
    declare(stage.reduce_axes, inner);
    auto check_affine = [&](const Affine& affine, const std::set<Var>& scope) {
      for (const auto& [var, coefficient] : affine.terms)
        if (!scope.count(var)) fail(fmt::format("stage {} uses v{} outside its loop", i, var));
    };
    auto check = [&](ExprId id, const std::set<Var>& scope, std::size_t results) {
      verify_expr(kernel.exprs, id, kernel.buffers.size(), fmt::format("kernel {}", kernel.name));
      for_each_below(kernel.exprs, id, [&](ExprId e) {
        const Expr& expr = kernel.exprs[static_cast<std::size_t>(e)];
        check_affine(expr.index, scope);
        for (const Guard& guard : expr.guards) check_affine(guard.value, scope);
        if (expr.kind == ExprKind::stage_result && (expr.slot < 0 || static_cast<std::size_t>(expr.slot) >= results)) {
          fail(fmt::format("stage {} uses result {} too early", i, expr.slot));
        }
      });
    };
    if (stage.reduce) check(stage.reduce_body, inner, i);
    if (!stage.reduce && !stage.reduce_axes.empty())
      fail(fmt::format("stage {} has reduction axes and no reduction", i));
    for (const Store& store : stage.stores) {
      check_affine(store.index, outer);
      check(store.value, outer, i + 1);
      if (store.row != kNoExpr) check(store.row, outer, i + 1);
      if (store.buffer < 0 || static_cast<std::size_t>(store.buffer) >= kernel.buffers.size())
        fail(fmt::format("no buffer {}", store.buffer));
      const BufferUse& use = kernel.buffers[static_cast<std::size_t>(store.buffer)];
      if (!use.written) fail(fmt::format("stage {} stores to %{}, which is not declared written", i, use.value));
      if (kernel.exprs[static_cast<std::size_t>(store.value)].dtype != use.dtype) {
        fail(fmt::format("stage {} stores {} to %{} of {}", i,
                         to_string(kernel.exprs[static_cast<std::size_t>(store.value)].dtype), use.value,
                         to_string(use.dtype)));
      }
    }
  }
  if (!kernel.repetition.axes.empty() && kernel.form != Form::sequence) fail("only a sequence repeats stages");
  if (kernel.form == Form::contraction && (kernel.stages.empty() || kernel.stages[0].reduce != ReduceOp::sum)) {
    fail("a contraction whose first stage is not a sum");
  }
}

}  // namespace wholestep::loops
