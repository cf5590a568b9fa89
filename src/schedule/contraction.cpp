#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "expr/text.h"
#include "schedule/builder.h"
#include "schedule/tile.h"

namespace wholestep::schedule {
namespace {

using loops::Axis;
using loops::Expr;
using loops::ExprKind;
using loops::Stage;

// What a side of the product does with a variable.
struct Use {
  bool any = false;
  bool unit_stride = true;
};

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

// Whether a vector along `var` is computed from vectors in memory.
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

// An epilogue of this many expressions is written out for every register; a longer one is a loop over the tile.
constexpr int kDirectEpilogue = 8;
// A long sum is made of sums of about so many products, since the error of one running sum grows with its length.
constexpr std::int64_t kBlockDepth = 512;

// Elements of a left operand that is computed for a tile's rows, at most; and how many tasks a kernel should have.
constexpr std::int64_t kMostPacked = 16384;
constexpr std::int64_t kEnoughTasks = 16;

constexpr std::int64_t kLineBytes = 64;

// Products in a kernel that is over in a few microseconds.
constexpr double kSmall = 1e6;

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
    tile_ = choose_tile(row_.extent, column_.extent, small, lanes_, registers_per_vector, target_);

    cut_ = is_float(sum.accumulate) ? cut_of(sum.reduce_axes, kBlockDepth) : Cut{};
    flat_ = column_.extent <= width() && column_.extent % lanes_ != 0 && cut_.block == 0 &&
            is_flat(kernel_, row_.var, column_.var, column_.extent);

    row_tile_ = builder_.new_var();
    column_tile_ = builder_.new_var();
    builder_.nest.grid = batch;
    builder_.nest.grid.push_back({row_tile_, (row_.extent + tile_.rows - 1) / tile_.rows});
    choose_packing(sum);
    const std::int64_t full_rows = row_.extent / tile_.rows, rest_rows = row_.extent % tile_.rows;
    auto rows_of = [&](auto make) { return split(row_tile_, full_rows, rest_rows, tile_.rows, make); };
    const Axis column_tiles{column_tile_, (column_.extent + width() - 1) / width()};
    auto columns_of = [&](auto make) {
      return split(column_tile_, column_.extent / width(), column_.extent % width(), width(), make);
    };
    // What was packed serves all column tiles, where the rows alone are enough tasks.
    const bool all_columns = packing_.any && builder_.nest.tasks() >= kEnoughTasks;
    if (all_columns) {
      builder_.nest.body = rows_of([&](std::int64_t rows) {
        Block block = pack(rows);
        append(block, fetch_next());
        Block tiles = columns_of([&](std::int64_t columns) { return tile(rows, columns); });
        block.push_back(loop(column_tiles.var, column_tiles.extent, LoopKind::serial, std::move(tiles)));
        return block;
      });
    } else {
      builder_.nest.grid.push_back(column_tiles);
      builder_.nest.body = columns_of([&](std::int64_t columns) {
        return rows_of([&](std::int64_t rows) {
          Block block = pack(rows);
          append(block, fetch_next());
          append(block, tile(rows, columns));
          return block;
        });
      });
    }

    estimate(sum, registers_per_vector, all_columns ? column_tiles.extent : 1);
    return true;
  }

 private:
  // The body for whole tiles, for the rest, or a branch between the two.
  template <class Make>
  Block split(Var var, std::int64_t full, std::int64_t rest, std::int64_t size, Make make) {
    if (rest == 0) return make(size);
    if (full == 0) return make(rest);
    Block block;
    block.push_back({Branch{Affine::of(var), full, make(size), make(rest)}});
    return block;
  }

  // Time of a task of `tiles` tiles.
  void estimate(const Stage& sum, int registers_per_vector, std::int64_t tiles) {
    const auto depth = static_cast<double>(depth_of(sum));
    std::vector<ExprId> stored;
    for (const Stage& stage : kernel_.stages)
      for (const loops::Store& store : stage.stores) stored.push_back(store.value);
    const double work = depth * (tile_.rows * tile_.vectors * registers_per_vector / 2.0 + 1);
    // Rows narrower than a vector share lines: each waits for the store of the one before.
    const double wait = column_.extent < lanes_ && !flat_ ? 40 : 0;
    const double vectors = flat_ && !direct_ ? static_cast<double>(column_.extent) / lanes_ : tile_.vectors;
    const double after = tile_.rows * (vectors * (2 + cycles(kernel_.exprs, stored, column_.var, lanes_)) + wait);
    const double before = packing_.any ? depth * tile_.rows / lanes_ * 4 : 0;
    builder_.nest.task_cost = ((work + after + 20) * static_cast<double>(tiles) + before) * kNanosecondsPerCycle;
    builder_.nest.note = fmt::format("register tile {}x{}, {} epilogue{}", tile_.rows, width(),
                                     direct_ ? "direct" : "looped", packing_.any ? ", left operand made here" : "");
  }

  static std::int64_t depth_of(const Stage& sum) {
    std::int64_t depth = 1;
    for (const Axis& axis : sum.reduce_axes) depth *= axis.extent;
    return depth;
  }

  // A left operand that has to be computed is computed once for a tile's rows, into task-local memory.
  void choose_packing(const Stage& sum) {
    const ExprKind kind = kernel_.exprs[static_cast<std::size_t>(left_)].kind;
    if (kind == ExprKind::load || kind == ExprKind::constant || sum.reduce_axes.empty()) return;
    if (depth_of(sum) * tile_.rows > kMostPacked) return;
    packing_.any = true;
    packing_.along_depth = is_contiguous(kernel_.exprs, left_, sum.reduce_axes.back().var) ||
                           !is_contiguous(kernel_.exprs, left_, row_.var);
    const std::int64_t vectors_of_rows = (tile_.rows + lanes_ - 1) / lanes_;
    packing_.pitch = packing_.along_depth ? depth_of(sum) : vectors_of_rows * lanes_;
    packing_.dtype = kernel_.exprs[static_cast<std::size_t>(left_)].dtype;
    packing_.buffer = static_cast<int>(builder_.nest.buffers.size());
    const std::int64_t elements = packing_.pitch * (packing_.along_depth ? tile_.rows : depth_of(sum));
    builder_.nest.buffers.push_back({-1, packing_.dtype, elements, true, true});
  }

  // Where the packed factor of row `row` of the tile is, at the depth that `with` gives the kernel's axes.
  Affine packed_at(const Affine& row, const NestBuilder::Substitution& with) {
    Affine depth;
    for (const Axis& axis : kernel_.stages[0].reduce_axes)
      depth = depth * axis.extent + builder_.translate(Affine::of(axis.var), with);
    return packing_.along_depth ? row * packing_.pitch + depth : depth * packing_.pitch + row;
  }

  Block pack(std::int64_t rows) {
    if (!packing_.any) return {};
    NestBuilder::Substitution with;
    const Axis row{builder_.new_var(), rows};
    with[row_.var] = Affine::of(row_tile_, tile_.rows) + Affine::of(row.var);
    std::vector<Axis> order;
    for (const Axis& axis : kernel_.stages[0].reduce_axes) {
      order.push_back({builder_.new_var(), axis.extent});
      with[axis.var] = Affine::of(order.back().var);
    }
    order.insert(packing_.along_depth ? order.begin() : order.end(), row);
    Block one;
    one.push_back(
        schedule::store({packing_.buffer, packed_at(Affine::of(row.var), with), builder_.translate(left_, with, {})}));
    return around(order, LoopKind::vector, std::move(one));
  }

  // Gathered rows lie apart, which no processor foresees: those of the next tile come while this one is multiplied.
  Block fetch_next() {
    const std::vector<Axis>& depth = kernel_.stages[0].reduce_axes;
    const std::int64_t full_rows = row_.extent / tile_.rows;
    if (!packing_.any || !packing_.along_depth || depth.size() != 1 || full_rows < 2) return {};
    Block lines;
    const Axis row{builder_.new_var(), tile_.rows};
    NestBuilder::Substitution with;
    with[row_.var] = Affine::of(row_tile_, tile_.rows) + Affine(tile_.rows) + Affine::of(row.var);
    loops::for_each_below(kernel_.exprs, left_, [&](ExprId i) {
      const Expr& e = kernel_.exprs[static_cast<std::size_t>(i)];
      if (e.kind != ExprKind::gather || e.index.coefficient(depth[0].var) != 1 || !e.guards.empty()) return;
      const std::int64_t step = kLineBytes / static_cast<std::int64_t>(size_of(e.dtype));
      for (std::int64_t at = 0; at < depth[0].extent + step - 1; at += step) {
        with[depth[0].var] = Affine(at);
        lines.push_back({Prefetch{builder_.translate(i, with, {})}});
      }
    });
    if (lines.empty()) return {};
    Block rows;
    rows.push_back(loop(row.var, row.extent, LoopKind::serial, std::move(lines)));
    Block block;
    block.push_back({Branch{Affine::of(row_tile_), full_rows - 1, std::move(rows), {}}});
    return block;
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

  static void append(Block& block, Block more) { std::move(more.begin(), more.end(), std::back_inserter(block)); }

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
  Block steps(int registers, const Stage& sum, const std::vector<Axis>& depth, NestBuilder::Substitution& with,
              Each& each) {
    loops::ExprBuilder& exprs = builder_.exprs();
    Block block = each([&](std::int64_t, Var, Var row, const Affine& at) {
      const ExprId a = packing_.any ? exprs.load(packing_.buffer, packing_.dtype, packed_at(Affine::of(row), with), {})
                                    : builder_.translate(left_, with, {});
      const ExprId b = builder_.translate(right_, with, {});
      const ExprId before = builder_.accumulator(registers, at);
      const ExprId after = is_float(sum.accumulate)
                               ? exprs.fma(a, b, before)
                               : exprs.binary(loops::BinaryOp::add, exprs.binary(loops::BinaryOp::mul, a, b), before);
      Block step;
      step.push_back(set(registers, at, after));
      return step;
    });
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
  Axis row_{}, column_{};
  Var row_tile_ = 0, column_tile_ = 0;
  int lanes_ = 1;
  Tile tile_{1, 1};
  bool direct_ = false;
  bool flat_ = false;  // narrow rows one after another in memory: a looped epilogue walks them as one
  Cut cut_;            // of a long sum
  int local_ = -1;
  struct {
    bool any = false;
    bool along_depth = false;  // the vectors that compute it; else along the rows
    std::int64_t pitch = 0;    // of a row, or of a step of the depth
    DType dtype = DType::f32;
    int buffer = -1;
  } packing_;
};

}  // namespace

bool schedule_contraction(NestBuilder& builder, const Target& target) { return Contraction(builder, target).run(); }

}  // namespace wholestep::schedule
