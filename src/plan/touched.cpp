#include "plan/touched.h"

#include <algorithm>
#include <map>

#include "expr/text.h"

namespace wholestep::plan {
namespace {

using loops::Affine;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;
using loops::Var;

struct Bounds {
  std::int64_t low, high;  // both included
};

class Walk {
 public:
  explicit Walk(const schedule::Nest& nest) : nest_(nest) {}

  std::vector<Touched> run(std::int64_t first, std::int64_t last) {
    if (first >= last) return {};
    bind_grid(first, last - 1);
    block(nest_.body);
    std::vector<Touched> result;
    for (const auto& [key, bounds] : found_) result.push_back({key.first, bounds.low, bounds.high + 1, key.second});
    return result;
  }

 private:
  // Tasks are a row-major product: an axis is bounded while all axes outside of it stand still.
  void bind_grid(std::int64_t first, std::int64_t last) {
    std::int64_t inner = 1;
    for (const loops::Axis& axis : nest_.grid) inner *= axis.extent;
    bool still = true;
    for (const loops::Axis& axis : nest_.grid) {
      inner /= axis.extent;
      const Bounds bounds{first / inner % axis.extent, last / inner % axis.extent};
      bounds_[axis.var] = still ? bounds : Bounds{0, axis.extent - 1};
      still = still && bounds.low == bounds.high;
    }
  }

  Bounds bounds_of(const Affine& affine) const {
    Bounds result{affine.offset, affine.offset};
    for (const auto& [var, factor] : affine.terms) {
      const Bounds& of = bounds_.at(var);
      result.low += factor * (factor > 0 ? of.low : of.high);
      result.high += factor * (factor > 0 ? of.high : of.low);
    }
    return result;
  }

  void block(const schedule::Block& statements) {
    for (const schedule::Stmt& statement : statements) {
      if (const auto* loop = std::get_if<schedule::Loop>(&statement.node)) {
        if (loop->extent <= 0) continue;
        for (const ExprId bound : {loop->begin, loop->end})
          if (bound != loops::kNoExpr) value(bound);
        bounds_[loop->var] = {0, loop->extent - 1};
        block(loop->body);
      } else if (const auto* branch = std::get_if<schedule::Branch>(&statement.node)) {
        this->branch(*branch);
      } else if (const auto* set = std::get_if<schedule::SetAccumulator>(&statement.node)) {
        value(set->value);
      } else if (const auto* soon = std::get_if<schedule::Prefetch>(&statement.node)) {
        value(soon->read);
      } else {
        store(std::get<schedule::StoreTo>(statement.node).store);
      }
    }
  }

  void branch(const schedule::Branch& branch) {
    const Bounds bounds = bounds_of(branch.value);
    // A condition on one variable bounds that variable on either side.
    const bool one = branch.value.terms.size() == 1 && branch.value.terms[0].second == 1;
    Bounds* const of = one ? &bounds_.at(branch.value.terms[0].first) : nullptr;
    const Bounds before = of ? *of : Bounds{};
    const std::int64_t limit = branch.limit - branch.value.offset;
    if (bounds.low < branch.limit) {
      if (of) of->high = std::min(of->high, limit - 1);
      block(branch.then);
      if (of) *of = before;
    }
    if (bounds.high >= branch.limit) {
      if (of) of->low = std::max(of->low, limit);
      block(branch.otherwise);
      if (of) *of = before;
    }
  }

  void value(ExprId id) {
    loops::for_each_below(nest_.exprs, id, [&](ExprId i) {
      const Expr& e = nest_.exprs[static_cast<std::size_t>(i)];
      if (e.kind == ExprKind::load) touch(e.buffer, bounds_of(e.index), false);
      if (e.kind == ExprKind::gather) touch_all(e.buffer, false);
    });
  }

  void store(const loops::Store& store) {
    value(store.value);
    if (store.row == loops::kNoExpr) {
      touch(store.buffer, bounds_of(store.index), true);
    } else {
      value(store.row);
      touch_all(store.buffer, false);
      touch_all(store.buffer, true);
    }
  }

  void touch_all(int buffer, bool written) {
    touch(buffer, {0, nest_.buffers[static_cast<std::size_t>(buffer)].elements - 1}, written);
  }

  // Guards keep every access inside of its buffer.
  void touch(int buffer, Bounds bounds, bool written) {
    const loops::BufferUse& use = nest_.buffers[static_cast<std::size_t>(buffer)];
    bounds = {std::max<std::int64_t>(bounds.low, 0), std::min(bounds.high, use.elements - 1)};
    if (use.value < 0 || bounds.low > bounds.high) return;
    const auto [entry, fresh] = found_.try_emplace({buffer, written}, bounds);
    if (fresh) return;
    entry->second = {std::min(entry->second.low, bounds.low), std::max(entry->second.high, bounds.high)};
  }

  const schedule::Nest& nest_;
  std::map<Var, Bounds> bounds_;
  std::map<std::pair<int, bool>, Bounds> found_;
};

}  // namespace

std::vector<Touched> touched(const schedule::Nest& nest, std::int64_t first, std::int64_t last) {
  return Walk(nest).run(first, last);
}

}  // namespace wholestep::plan
