#include "schedule/use.h"

#include "expr/text.h"

namespace wholestep::schedule {

using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::Var;

Use use_of(const std::vector<Expr>& exprs, ExprId id, Var var) {
  Use use;
  loops::for_each_below(exprs, id, [&](ExprId i) {
    const Expr& e = exprs[static_cast<std::size_t>(i)];
    const std::int64_t stride = e.index.coefficient(var);
    bool guarded = false;
    for (const loops::Guard& guard : e.guards) guarded = guarded || guard.value.coefficient(var) != 0;
    if (stride != 0 || guarded) use.any = true;
    if (e.kind == ExprKind::load && stride != 0 && stride != 1) use.unit_stride = false;
    if (e.kind == ExprKind::gather && stride != 0) use.unit_stride = false;
  });
  return use;
}

bool is_contiguous(const std::vector<Expr>& exprs, ExprId id, Var var) {
  bool contiguous = true;
  loops::for_each_below(exprs, id, [&](ExprId i) {
    const Expr& e = exprs[static_cast<std::size_t>(i)];
    if (e.kind != ExprKind::load && e.kind != ExprKind::gather) return;
    const std::int64_t stride = e.index.coefficient(var);
    if (stride != 0 && stride != 1) contiguous = false;
    if (e.kind == ExprKind::gather && use_of(exprs, e.operands[0], var).any) contiguous = false;
  });
  return contiguous;
}

std::int64_t depth_of(const loops::Stage& sum) {
  std::int64_t depth = 1;
  for (const loops::Axis& axis : sum.reduce_axes) depth *= axis.extent;
  return depth;
}

}  // namespace wholestep::schedule
