#include "loops/merge_axes.h"

namespace wholestep::loops {
namespace {

// Applies `visit` to every affine of the kernel.
template <class Visit>
void for_each_affine(Kernel& kernel, Visit visit) {
  for (Expr& expr : kernel.exprs) {
    visit(expr.index);
    for (Guard& guard : expr.guards) visit(guard.value);
  }
  for (Stage& stage : kernel.stages)
    for (Store& store : stage.stores) visit(store.index);
}

void merge(Kernel& kernel, std::vector<Axis>& axes) {
  for (std::size_t i = axes.size(); i-- > 1;) {
    const Axis outer = axes[i - 1], inner = axes[i];
    bool together = true;
    for_each_affine(kernel, [&](Affine& affine) {
      together = together && affine.coefficient(outer.var) == affine.coefficient(inner.var) * inner.extent;
    });
    if (!together) continue;
    const Affine gone(0);
    for_each_affine(kernel, [&](Affine& affine) {
      if (affine.coefficient(outer.var) != 0)
        affine = affine.substitute([&](Var var) { return var == outer.var ? &gone : nullptr; });
    });
    axes[i - 1] = {inner.var, outer.extent * inner.extent};
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace

void merge_axes(Kernel& kernel) {
  if (kernel.form != Form::contraction) merge(kernel, kernel.parallel);
  for (Stage& stage : kernel.stages)
    if (!stage.in_order) merge(kernel, stage.map_axes);
}

}  // namespace wholestep::loops
