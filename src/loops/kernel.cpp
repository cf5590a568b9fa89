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

// " from a to b", for axes that are narrowed.
std::string narrowed_text(const Kernel& kernel, const std::vector<Axis>& axes, const std::vector<std::string>& names) {
  std::string text;
  for (const Axis& axis : axes) {
    if (axis.from == kNoExpr && axis.to == kNoExpr) continue;
    text += fmt::format(", v{}", axis.var);
    if (axis.from != kNoExpr) text += " from " + to_text(kernel.exprs, axis.from, names);
    if (axis.to != kNoExpr) text += " to " + to_text(kernel.exprs, axis.to, names);
  }
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
    for (const Repetition& repetition : kernel.repetitions) {
      if (i < repetition.first || i >= repetition.last) continue;
      if (i == repetition.first) {
        text += fmt::format("{}for {} in order{}\n", indent, axes_text({repetition.axis}),
                            narrowed_text(kernel, {repetition.axis}, names));
      }
      indent += "  ";
    }
    if (!stage.map_axes.empty()) {
      text += fmt::format("{}for {}{}{}\n", indent, axes_text(stage.map_axes), stage.in_order ? " in order" : "",
                          narrowed_text(kernel, stage.map_axes, names));
      indent += "  ";
    }
    if (stage.reduce) {
      text += fmt::format("{}result{} = {} over {}{} of {}\n", indent, i, to_string(*stage.reduce),
                          axes_text(stage.reduce_axes), narrowed_text(kernel, stage.reduce_axes, names),
                          to_text(kernel.exprs, stage.reduce_body, names));
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
    // What narrows an axis is known outside of the stage.
    auto enter = [&](const std::vector<Axis>& axes, const std::set<Var>& known, std::set<Var>& scope,
                     std::size_t results) {
      for (const Axis& axis : axes) {
        for (const ExprId bound : {axis.from, axis.to}) {
          if (bound == kNoExpr) continue;
          if (kernel.form != Form::sequence) fail("only axes of a sequence are narrowed");
          check(bound, known, results);
          if (kernel.exprs[static_cast<std::size_t>(bound)].dtype != DType::i64) {
            fail(fmt::format("axis v{} is narrowed by a value that is no i64", axis.var));
          }
        }
      }
      declare(axes, scope);
    };
    for (const Repetition& repetition : kernel.repetitions) {
      if (i >= repetition.first && i < repetition.last) enter({repetition.axis}, outer, outer, repetition.first);
    }
    const std::set<Var> known = outer;
    enter(stage.map_axes, known, outer, i);
    std::set<Var> inner = outer;
    enter(stage.reduce_axes, known, inner, i);
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
  if (!kernel.repetitions.empty() && kernel.form != Form::sequence) fail("only a sequence repeats stages");
  if (kernel.form == Form::contraction && (kernel.stages.empty() || kernel.stages[0].reduce != ReduceOp::sum)) {
    fail("a contraction whose first stage is not a sum");
  }
}

}  // namespace wholestep::loops
