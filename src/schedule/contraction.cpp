#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "expr/text.h"
#include "schedule/builder.h"
#include "schedule/left_operand.h"
#include "schedule/tile.h"
#include "schedule/use.h"

namespace wholestep::schedule {
namespace {

using loops::Axis;
using loops::Expr;
using loops::ExprKind;
using loops::Stage;

// An epilogue of this many expressions is written out for every register; a longer one is a loop over the tile.
constexpr int kDirectEpilogue = 8;
// A long sum is made of sums of about so many products, since the error of one running sum grows with its length.
constexpr std::int64_t kBlockDepth = 512;

// A vector of pairs is made of two, one of which is shifted.
constexpr int kRegistersToPair = 2;

// How many tasks a kernel should have.
constexpr std::int64_t kEnoughTasks = 16;

// Products in a kernel that is over in a few microseconds.
constexpr double kSmall = 1e6;

bool is_widened_bf16(const loops::Kernel& kernel, ExprId id) {
  const Expr& e = kernel.exprs[static_cast<std::size_t>(id)];
  return e.kind == ExprKind::cast && e.dtype == DType::f32 &&
         kernel.exprs[static_cast<std::size_t>(e.operands[0])].dtype == DType::bf16;
}

// Whether what is stored at (row, column) of a result of `columns` columns, and all that it is computed from, is a
// function of row * columns + column.
bool is_flat(const loops::Kernel& kernel, Var row, Var column, std::int64_t columns) {
  auto flat = [&](const Affine& index) { return index.coefficient(row) == index.coefficient(column) * columns; };
  bool all = true;
  for (const Stage& stage : kernel.stages) {
    for (const loops::Store& store : stage.stores) {
      all = all && flat(store.index) && store.row == loops::kNoExpr;
      loops::for_each_below(kernel.exprs, store.value, [&](ExprId i) {
        const Expr& e = kernel.exprs[static_cast<std::size_t>(i)];
        all = all && flat(e.index);
        for (const loops::Guard& guard : e.guards) all = all && flat(guard.value);
      });
    }
  }
  return all;
}

class Contraction {
 public:
  Contraction(NestBuilder& builder, const Target& target)
      : builder_(builder), kernel_(builder.kernel()), target_(target) {}

  bool run() {
    const Stage& sum = kernel_.stages[0];
    const Expr& product = kernel_.exprs[static_cast<std::size_t>(sum.reduce_body)];
    if (product.kind != ExprKind::binary || product.binary != loops::BinaryOp::mul || kernel_.parallel.empty())
      return false;
    left_ = product.operands[0];
    right_ = product.operands[1];
    column_ = kernel_.parallel.back();
    if (use_of(kernel_.exprs, left_, column_.var).any) std::swap(left_, right_);
    const Use columns = use_of(kernel_.exprs, right_, column_.var);
    if (use_of(kernel_.exprs, left_, column_.var).any || !columns.any || !columns.unit_stride) return false;
    choose_pairs(sum);
    std::vector<Axis> batch(kernel_.parallel.begin(), kernel_.parallel.end() - 1);
    row_ = {builder_.new_var(), 1};
    for (std::size_t i = batch.size(); i-- > 0;) {
      if (use_of(kernel_.exprs, right_, batch[i].var).any || !use_of(kernel_.exprs, left_, batch[i].var).any) continue;
      row_ = batch[i];
      batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    lanes_ = builder_.nest.lanes;
    const int registers_per_vector =
        std::max<int>(1, lanes_ * static_cast<int>(size_of(sum.accumulate)) / target_.vector_bytes);
    const double products =
        static_cast<double>(row_.extent) * static_cast<double>(column_.extent) * static_cast<double>(depth_of(sum));
    const bool small = products < kSmall;
    Target room = target_;
    if (pairs_) room.vector_registers -= kRegistersToPair;
    tile_ = choose_tile(row_.extent, column_.extent, small, lanes_, registers_per_vector, room);

    cut_ = is_float(sum.accumulate) ? cut_of(sum.reduce_axes, kBlockDepth) : Cut{};
    flat_ = column_.extent <= width() && column_.extent % lanes_ != 0 && cut_.block == 0 &&
            is_flat(kernel_, row_.var, column_.var, column_.extent);

    row_tile_ = builder_.new_var();
    column_tile_ = builder_.new_var();
    builder_.nest.grid = batch;
    builder_.nest.grid.push_back({row_tile_, (row_.extent + tile_.rows - 1) / tile_.rows});
    left_rows_.emplace(builder_, left_, row_, row_tile_, tile_.rows, pairs_);
    const std::int64_t full_rows = row_.extent / tile_.rows, rest_rows = row_.extent % tile_.rows;
    auto rows_of = [&](auto make) { return split(row_tile_, full_rows, rest_rows, tile_.rows, make); };
    const Axis column_tiles{column_tile_, (column_.extent + width() - 1) / width()};
    auto columns_of = [&](auto make) {
      return split(column_tile_, column_.extent / width(), column_.extent % width(), width(), make);
    };
    // What was packed serves all column tiles, where the rows alone are enough tasks.
    const bool all_columns = left_rows_->is_made() && builder_.nest.tasks() >= kEnoughTasks;
    if (all_columns) {
      builder_.nest.body = rows_of([&](std::int64_t rows) {
        Block block = left_rows_->make(rows);
        append(block, left_rows_->fetch_next());
        Block tiles = columns_of([&](std::int64_t columns) { return tile(rows, columns); });
        block.push_back(loop(column_tiles.var, column_tiles.extent, LoopKind::serial, std::move(tiles)));
        return block;
      });
    } else {
      builder_.nest.grid.push_back(column_tiles);
      builder_.nest.body = columns_of([&](std::int64_t columns) {
        return rows_of([&](std::int64_t rows) {
          Block block = left_rows_->make(rows);
          append(block, left_rows_->fetch_next());
          append(block, tile(rows, columns));
          return block;
        });
      });
    }

    estimate(sum, registers_per_vector, all_columns ? column_tiles.extent : 1);
    return true;
  }

 private:
  // Time of a task of `tiles` tiles.
  void estimate(const Stage& sum, int registers_per_vector, std::int64_t tiles) {
    const auto depth = static_cast<double>(depth_of(sum));
    std::vector<ExprId> stored;
    for (const Stage& stage : kernel_.stages)
      for (const loops::Store& store : stage.stores) stored.push_back(store.value);
    const double work = depth * (tile_.rows * tile_.vectors * registers_per_vector / (pairs_ ? 4.0 : 2.0) + 1);
    // Rows narrower than a vector share lines: each waits for the store of the one before.
    const double wait = column_.extent < lanes_ && !flat_ ? 40 : 0;
    const double vectors = flat_ && !direct_ ? static_cast<double>(column_.extent) / lanes_ : tile_.vectors;
    const double after = tile_.rows * (vectors * (2 + cycles(kernel_.exprs, stored, column_.var, lanes_)) + wait);
    const double before = left_rows_->is_made() ? depth * tile_.rows / lanes_ * 4 : 0;
    builder_.nest.task_cost = ((work + after + 20) * static_cast<double>(tiles) + before) * kNanosecondsPerCycle;
    builder_.nest.note =
        fmt::format("register tile {}x{}, {} epilogue{}{}", tile_.rows, width(), direct_ ? "direct" : "looped",
                    left_rows_->is_made() ? ", left operand made here" : "", pairs_ ? ", bf16 in pairs" : "");
  }

  // Factors that are widened bf16 are multiplied two at a time where the device does that faster. The sums are the
  // same: products of bf16 are exact in f32, and they are added in the same order.
  void choose_pairs(const Stage& sum) {
    pairs_ = target_.multiplies_pairs && sum.accumulate == DType::f32 && !sum.reduce_axes.empty() &&
             sum.reduce_axes.back().extent % 2 == 0 && is_widened_bf16(kernel_, left_) &&
             is_widened_bf16(kernel_, right_);
    if (!pairs_) return;
    left_ = kernel_.exprs[static_cast<std::size_t>(left_)].operands[0];
    right_ = kernel_.exprs[static_cast<std::size_t>(right_)].operands[0];
  }

  Block tile(std::int64_t rows, std::int64_t columns) {
    const Stage& sum = kernel_.stages[0];
    const std::int64_t vectors = (columns + lanes_ - 1) / lanes_;
    const int registers = builder_.new_accumulators(sum.accumulate, rows * vectors, Lanes::apart);
    NestBuilder::Substitution with;
    Block block;
    // For each row and each vector of columns, unrolled. A row's factor is then needed only while its vectors are
    // multiplied: all registers but a few are free for the sums.
    auto each = [&](auto make, bool whole_vectors = false) {
      const Var i = builder_.new_var();
      Block row;
      for (std::int64_t j = 0; j < vectors; ++j) {
        const Var lane = builder_.new_var();
        with[row_.var] = Affine::of(row_tile_, tile_.rows) + Affine::of(i);
        with[column_.var] = Affine::of(column_tile_, width()) + Affine(j * lanes_) + Affine::of(lane);
        const std::int64_t extent = whole_vectors ? lanes_ : std::min<std::int64_t>(lanes_, columns - j * lanes_);
        row.push_back(loop(lane, extent, LoopKind::vector, make(j, lane, i, Affine::of(i, vectors) + Affine(j))));
      }
      Block made;
      made.push_back(loop(i, rows, LoopKind::unroll, std::move(row)));
      return made;
    };

    std::vector<Axis> depth;
    for (const Axis& axis : sum.reduce_axes) {
      depth.push_back({builder_.new_var(), axis.extent});
      with[axis.var] = Affine::of(depth.back().var);
    }
    if (cut_.block == 0) {
      append(block, clear(registers, rows * vectors));
      append(block, steps(registers, sum, depth, with, each));
      append(block, epilogue_is_short() ? direct_epilogue(registers, with, each)
                                        : looped_epilogue(rows, columns, with, spill(registers, each)));
      return block;
    }

    // Sums of blocks are added up in task-local memory.
    append(block, clear_local(rows, columns));
    append(block, builder_.in_blocks(depth, sum.reduce_axes, cut_, with, [&](const std::vector<Axis>& axes) {
      Block one = clear(registers, rows * vectors);
      append(one, steps(registers, sum, axes, with, each));
      append(one, add_to_local(registers, each));
      return one;
    }));
    append(block, looped_epilogue(rows, columns, with, {}));
    return block;
  }

  Block clear(int registers, std::int64_t count) {
    const Var slot = builder_.new_var();
    Block zero;
    zero.push_back(
        set(registers, Affine::of(slot), builder_.identity(loops::ReduceOp::sum, kernel_.stages[0].accumulate)));
    Block block;
    block.push_back(loop(slot, count, LoopKind::unroll, std::move(zero)));
    return block;
  }

  // The multiply-adds, in loops over `depth`.
  template <class Each>
  Block steps(int registers, const Stage& sum, std::vector<Axis> depth, NestBuilder::Substitution& with, Each& each) {
    loops::ExprBuilder& exprs = builder_.exprs();
    const NestBuilder::Substitution by_single_steps = with;
    if (pairs_) {
      const Axis single = depth.back();
      depth.back() = {builder_.new_var(), single.extent / 2};
      const Affine doubled = Affine::of(depth.back().var, 2);
      Affine& innermost = with[sum.reduce_axes.back().var];
      innermost = innermost.substitute([&](Var var) { return var == single.var ? &doubled : nullptr; });
    }
    Block block = each([&](std::int64_t, Var, Var row, const Affine& at) {
      const ExprId left = left_rows_->factor(row, with);
      const auto right = [&] { return builder_.translate(right_, with, {}); };
      const ExprId before = builder_.accumulator(registers, at);
      ExprId after = loops::kNoExpr;
      if (pairs_) {
        after = exprs.dot_pairs(left, pair_of(builder_, with, right), before);
      } else if (is_float(sum.accumulate)) {
        after = exprs.fma(left, right(), before);
      } else {
        after = exprs.binary(loops::BinaryOp::add, exprs.binary(loops::BinaryOp::mul, left, right()), before);
      }
      Block step;
      step.push_back(set(registers, at, after));
      return step;
    });
    with = by_single_steps;
    return around(depth, LoopKind::serial, std::move(block));
  }

  bool epilogue_is_short() {
    std::size_t count = 0;
    std::vector<bool> seen(kernel_.exprs.size(), false);
    for (const Stage& stage : kernel_.stages) {
      for (const loops::Store& store : stage.stores) {
        loops::for_each_below(kernel_.exprs, store.value, [&](ExprId i) {
          if (kernel_.exprs[static_cast<std::size_t>(i)].kind != ExprKind::constant &&
              !seen[static_cast<std::size_t>(i)])
            ++count;
          seen[static_cast<std::size_t>(i)] = true;
        });
      }
    }
    direct_ = count <= kDirectEpilogue;
    return direct_;
  }

  Block stores(const NestBuilder::Substitution& with, ExprId result) {
    std::vector<ExprId> results(kernel_.stages.size(), loops::kNoExpr);
    results[0] = result;
    Block block;
    for (const Stage& stage : kernel_.stages)
      for (const loops::Store& store : stage.stores)
        block.push_back(schedule::store(builder_.translate(store, with, results)));
    return block;
  }

  template <class Each>
  Block direct_epilogue(int registers, NestBuilder::Substitution& with, Each& each) {
    return each(
        [&](std::int64_t, Var, Var, const Affine& at) { return stores(with, builder_.accumulator(registers, at)); });
  }

  // Task-local memory of a tile, which exists once.
  int local() {
    if (local_ < 0) {
      local_ = static_cast<int>(builder_.nest.buffers.size());
      // Whole vectors are written, also beyond the columns.
      const std::int64_t elements = (tile_.rows - 1) * pitch() + width();
      builder_.nest.buffers.push_back({-1, kernel_.stages[0].accumulate, elements, true, true});
    }
    return local_;
  }
  std::int64_t pitch() const { return flat_ ? column_.extent : width(); }
  std::int64_t width() const { return static_cast<std::int64_t>(tile_.vectors) * lanes_; }
  ExprId local_value(const Affine& at) { return builder_.exprs().load(local(), kernel_.stages[0].accumulate, at, {}); }

  // Whole vectors, where nothing is added: a masked store delays the load that follows.
  template <class Each>
  Block to_local(int registers, Each& each, bool add) {
    return each(
        [&](std::int64_t j, Var lane, Var i, const Affine& slot) {
          const Affine at = Affine::of(i, pitch()) + Affine(j * lanes_) + Affine::of(lane);
          const ExprId value = builder_.accumulator(registers, slot);
          Block body;
          body.push_back(schedule::store(
              {local(), at, add ? builder_.exprs().binary(loops::BinaryOp::add, local_value(at), value) : value}));
          return body;
        },
        !add);
  }
  template <class Each>
  Block spill(int registers, Each& each) {
    return to_local(registers, each, false);
  }
  template <class Each>
  Block add_to_local(int registers, Each& each) {
    return to_local(registers, each, true);
  }

  Block clear_local(std::int64_t rows, std::int64_t columns) {
    const Var i = builder_.new_var(), lane = builder_.new_var();
    Block zero;
    zero.push_back(schedule::store({local(), Affine::of(i, width()) + Affine::of(lane),
                                    builder_.identity(loops::ReduceOp::sum, kernel_.stages[0].accumulate)}));
    Block row;
    row.push_back(loop(lane, columns, LoopKind::vector, std::move(zero)));
    Block block;
    block.push_back(loop(i, rows, LoopKind::serial, std::move(row)));
    return block;
  }

  // The sums are laid out in task-local memory (by `before`), so that the epilogue's code exists once.
  Block looped_epilogue(std::int64_t rows, std::int64_t columns, NestBuilder::Substitution& with, Block before) {
    Block block = std::move(before);
    const Var i = builder_.new_var(), lane = builder_.new_var();
    with[column_.var] = Affine::of(column_tile_, width()) + Affine::of(lane);
    if (flat_) {  // one row of all
      with[row_.var] = Affine::of(row_tile_, tile_.rows);
      block.push_back(loop(lane, rows * columns, LoopKind::vector, stores(with, local_value(Affine::of(lane)))));
      return block;
    }
    with[row_.var] = Affine::of(row_tile_, tile_.rows) + Affine::of(i);
    const ExprId result = local_value(Affine::of(i, width()) + Affine::of(lane));
    Block row;
    row.push_back(loop(lane, columns, LoopKind::vector, stores(with, result)));
    block.push_back(loop(i, rows, LoopKind::serial, std::move(row)));
    return block;
  }

  NestBuilder& builder_;
  const loops::Kernel& kernel_;
  const Target& target_;
  ExprId left_ = loops::kNoExpr, right_ = loops::kNoExpr;
  std::optional<LeftOperand> left_rows_;
  Axis row_{}, column_{};
  Var row_tile_ = 0, column_tile_ = 0;
  int lanes_ = 1;
  Tile tile_{1, 1};
  bool direct_ = false;
  bool flat_ = false;   // narrow rows one after another in memory: a looped epilogue walks them as one
  bool pairs_ = false;  // the factors are bf16, multiplied two steps of the depth at a time
  Cut cut_;             // of a long sum
  int local_ = -1;
};

}  // namespace

bool schedule_contraction(NestBuilder& builder, const Target& target) { return Contraction(builder, target).run(); }

}  // namespace wholestep::schedule
