#include "schedule/left_operand.h"

#include "expr/text.h"
#include "schedule/use.h"

namespace wholestep::schedule {
namespace {

using loops::Axis;
using loops::Expr;
using loops::ExprKind;

// What is made for a tile's rows, at most.
constexpr std::int64_t kMostBytes = 65536;
constexpr std::int64_t kLineBytes = 64;
// Steps that are written out, since a loop would cost more than they do.
constexpr std::int64_t kMostWrittenOut = 128;

Affine halved(Affine even) {
  even.offset /= 2;
  for (auto& term : even.terms) term.second /= 2;
  return even;
}

}  // namespace

ExprId pair_of(NestBuilder& builder, NestBuilder::Substitution& with, const std::function<ExprId()>& make) {
  Affine& innermost = with[builder.kernel().stages[0].reduce_axes.back().var];
  const ExprId high = make();
  innermost = innermost + Affine(1);
  const ExprId low = make();
  innermost = innermost - Affine(1);
  return builder.exprs().pair(high, low);
}

LeftOperand::LeftOperand(NestBuilder& builder, ExprId value, Axis row, Var row_tile, int tile_rows, bool pairs)
    : builder_(builder), value_(value), row_(row), row_tile_(row_tile), tile_rows_(tile_rows), pairs_(pairs) {
  if (!sum().reduce_axes.empty()) choose();
}

void LeftOperand::choose() {
  const std::vector<Expr>& exprs = builder_.kernel().exprs;
  const Expr& value = exprs[static_cast<std::size_t>(value_)];
  const bool by_depth = is_contiguous(exprs, value_, sum().reduce_axes.back().var);
  if (value.kind == ExprKind::constant || (value.kind == ExprKind::load && (!pairs_ || by_depth))) return;
  const std::int64_t depth = depth_of(sum());
  if (depth * tile_rows_ * static_cast<std::int64_t>(size_of(value.dtype)) > kMostBytes) return;
  made_ = true;
  along_depth_ = by_depth || !is_contiguous(exprs, value_, row_.var);
  holds_pairs_ = pairs_ && !along_depth_;
  const std::int64_t lanes = builder_.nest.lanes;
  pitch_ = along_depth_ ? depth : (tile_rows_ + lanes - 1) / lanes * lanes;
  dtype_ = holds_pairs_ ? DType::i32 : value.dtype;
  buffer_ = static_cast<int>(builder_.nest.buffers.size());
  const std::int64_t pitches = along_depth_ ? tile_rows_ : holds_pairs_ ? depth / 2 : depth;
  builder_.nest.buffers.push_back({-1, dtype_, pitch_ * pitches, true, true});
}

Affine LeftOperand::place(Var row, const NestBuilder::Substitution& with) const {
  Affine depth;
  for (const Axis& axis : sum().reduce_axes)
    depth = depth * axis.extent + builder_.translate(Affine::of(axis.var), with);
  if (holds_pairs_) depth = halved(std::move(depth));
  return along_depth_ ? Affine::of(row, pitch_) + depth : depth * pitch_ + Affine::of(row);
}

Block LeftOperand::make(std::int64_t rows) {
  if (!made_) return {};
  NestBuilder::Substitution with;
  const Axis row{builder_.new_var(), rows};
  with[row_.var] = Affine::of(row_tile_, tile_rows_) + Affine::of(row.var);
  std::vector<Axis> order;
  for (const Axis& axis : sum().reduce_axes) {
    order.push_back({builder_.new_var(), axis.extent});
    with[axis.var] = Affine::of(order.back().var);
  }
  if (holds_pairs_) {
    order.back().extent /= 2;
    with[sum().reduce_axes.back().var] = Affine::of(order.back().var, 2);
  }
  order.insert(along_depth_ ? order.begin() : order.end(), row);
  const auto one = [&] { return builder_.translate(value_, with, {}); };
  const ExprId value = holds_pairs_ ? pair_of(builder_, with, one) : one();
  Block block;
  block.push_back(schedule::store({buffer_, place(row.var, with), value}));
  return around(order, LoopKind::vector, std::move(block));
}

// Parts of rows lie apart, which no processor foresees: those of the next tile come while this one is multiplied.
Block LeftOperand::fetch_next() {
  const std::vector<Axis>& depth = sum().reduce_axes;
  const std::int64_t full_rows = row_.extent / tile_rows_;
  if (!made_ || depth.size() != 1 || full_rows < 2) return {};
  const Affine next = Affine::of(row_tile_, tile_rows_) + Affine(tile_rows_);
  Block lines = along_depth_ ? fetch_rows(next) : fetch_columns(next);
  if (lines.empty()) return {};
  Block block;
  block.push_back({Branch{Affine::of(row_tile_), full_rows - 1, std::move(lines), {}}});
  return block;
}

// Rows of the tile that begins at row `first`, which are gathered.
Block LeftOperand::fetch_rows(const Affine& first) {
  const Axis &depth = sum().reduce_axes[0], row{builder_.new_var(), tile_rows_};
  NestBuilder::Substitution with{{row_.var, first + Affine::of(row.var)}};
  Block lines;
  for_each_read([&](ExprId i, const Expr& e) {
    if (e.kind != ExprKind::gather || e.index.coefficient(depth.var) != 1) return;
    const std::int64_t step = kLineBytes / static_cast<std::int64_t>(size_of(e.dtype));
    for (std::int64_t at = 0; at < depth.extent + step - 1; at += step) {
      with[depth.var] = Affine(at);
      lines.push_back({Prefetch{builder_.translate(i, with, {})}});
    }
  });
  return lines.empty() ? Block{} : around({row}, LoopKind::serial, std::move(lines));
}

// The tile that begins at row `first` is a few neighbours at each step of the depth, most of which came with those of
// the tile before: the last is fetched.
Block LeftOperand::fetch_columns(const Affine& first) {
  const Axis &depth = sum().reduce_axes[0], step{builder_.new_var(), depth.extent};
  const NestBuilder::Substitution with{{row_.var, first + Affine(tile_rows_ - 1)}, {depth.var, Affine::of(step.var)}};
  Block lines;
  for_each_read([&](ExprId i, const Expr& e) {
    if (e.index.coefficient(row_.var) == 1) lines.push_back({Prefetch{builder_.translate(i, with, {})}});
  });
  const LoopKind kind = step.extent <= kMostWrittenOut ? LoopKind::unroll : LoopKind::serial;
  return lines.empty() ? Block{} : around({step}, kind, std::move(lines));
}

void LeftOperand::for_each_read(const std::function<void(ExprId, const Expr&)>& visit) const {
  loops::for_each_below(builder_.kernel().exprs, value_, [&](ExprId i) {
    const Expr& e = builder_.kernel().exprs[static_cast<std::size_t>(i)];
    if ((e.kind == ExprKind::load || e.kind == ExprKind::gather) && e.guards.empty()) visit(i, e);
  });
}

ExprId LeftOperand::factor(Var row, NestBuilder::Substitution& with) {
  const auto one = [&] {
    return made_ ? builder_.exprs().load(buffer_, dtype_, place(row, with), {}) : builder_.translate(value_, with, {});
  };
  return pairs_ && !holds_pairs_ ? pair_of(builder_, with, one) : one();
}

}  // namespace wholestep::schedule
