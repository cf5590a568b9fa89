#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "expr/text.h"
#include "schedule/builder.h"
#include "schedule/row_reduction.h"

namespace wholestep::schedule {
namespace {

using loops::Axis;
using loops::Form;
using loops::Stage;

// A task is worth starting for about this long; it is the same on every machine, as the bits of sums must be.
constexpr double kTaskCycles = 6000;
// Rows of a transposition that a task makes, about.
constexpr std::int64_t kRowsTransposed = 256;
// A first cache, no larger than any processor's.
constexpr std::int64_t kLineBytes = 64, kSets = 64, kWays = 8;

// Whether lines that are read `stride` bytes apart, `count` of them, are gone before one is read again.
bool leave_the_cache(std::int64_t stride, std::int64_t count) {
  const std::int64_t sets = stride % kLineBytes == 0 ? kSets / std::gcd(kSets, stride / kLineBytes) : kSets;
  return count > sets * kWays / 2;
}

// A sum that a lane makes by itself, in blocks of so many numbers.
constexpr std::int64_t kLaneBlock = 512;
// Vectors of a sequence's sums that are made side by side: they hide the latency of an addition and share what they
// read of a line.
constexpr int kVectorsOfSums = 4;

class LoopSchedule {
 public:
  explicit LoopSchedule(NestBuilder& builder)
      : builder_(builder), kernel_(builder.kernel()), lanes_(builder.nest.lanes) {}

  void run() {
    const std::vector<Axis>& axes = kernel_.parallel;
    results_.assign(kernel_.stages.size(), loops::kNoExpr);
    if (const std::optional<std::size_t> along = transposed_axis()) return run_transposed(*along);
    const bool rows = scalar_axes();
    const double per_point = point_cycles();
    // Axes from `split` on are walked inside a task; axis `split` itself in chunks.
    double inside = per_point;
    std::size_t split = axes.size();
    std::int64_t chunk = 1;
    while (split > 0) {
      const Axis& axis = axes[split - 1];
      const bool vector_axis = !rows && split == axes.size();
      const double steps =
          vector_axis ? std::ceil(static_cast<double>(axis.extent) / lanes_) : static_cast<double>(axis.extent);
      --split;
      if (inside * steps > kTaskCycles) {
        const double fit = std::max(1.0, std::floor(kTaskCycles / inside));
        const std::int64_t unit = vector_axis ? lanes_ : 1;
        chunk = std::min<std::int64_t>(axis.extent, unit * static_cast<std::int64_t>(fit));
        // Of kernels over the same rows, pieces then begin at the same rows: see plan/shares.h.
        const auto pieces =
            static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>((axis.extent + chunk - 1) / chunk)));
        chunk = ((axis.extent + pieces - 1) / pieces + unit - 1) / unit * unit;
        inside *= static_cast<double>(vector_axis ? (chunk + lanes_ - 1) / lanes_ : chunk);
        break;
      }
      inside *= steps;
      chunk = axis.extent;
    }
    builder_.nest.task_cost = inside * kNanosecondsPerCycle + 5;
    for (std::size_t i = 0; i < split; ++i) builder_.nest.grid.push_back(axes[i]);
    if (axes.empty()) {
      builder_.nest.body = at_point(false);
    } else {
      const Axis& axis = axes[split];
      const std::int64_t full = chunk == 0 ? 0 : axis.extent / chunk, rest = chunk == 0 ? 0 : axis.extent % chunk;
      if (full + (rest != 0) == 1) {
        builder_.nest.body = walk(split, Affine(0), std::max(rest, chunk * full));
      } else {
        const Var piece = builder_.new_var();
        builder_.nest.grid.push_back({piece, full + (rest != 0)});
        const Affine start = Affine::of(piece, chunk);
        builder_.nest.body =
            schedule::split(piece, full, rest, chunk, [&](std::int64_t extent) { return walk(split, start, extent); });
      }
    }
    builder_.nest.note = fmt::format("{}, chunks of {}", rows ? "rows" : "points", chunk);
  }

 private:
  // The axis along which an input lies that would be read across, each line once for each of its elements.
  std::optional<std::size_t> transposed_axis() const {
    const std::vector<Axis>& axes = kernel_.parallel;
    const bool points = kernel_.form == Form::point && std::ranges::none_of(kernel_.stages, [](const Stage& stage) {
                          return stage.reduce.has_value();
                        });
    if (!points || axes.size() < 2 || axes.back().extent <= lanes_) return std::nullopt;
    const Axis& column = axes.back();
    std::optional<std::size_t> found;
    for (const Stage& stage : kernel_.stages) {
      for (const loops::Store& store : stage.stores) {
        loops::for_each_below(kernel_.exprs, store.value, [&](ExprId id) {
          const loops::Expr& e = kernel_.exprs[static_cast<std::size_t>(id)];
          const std::int64_t stride = e.index.coefficient(column.var) * static_cast<std::int64_t>(size_of(e.dtype));
          if (e.kind != loops::ExprKind::load || stride < kLineBytes || !leave_the_cache(stride, column.extent)) return;
          for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
            if (e.index.coefficient(axes[i].var) == 1 && axes[i].extent > 0) found = i;
          }
        });
      }
    }
    return found;
  }

  // A vector of columns, and rows of it one after another: what a lane reads then lies side by side in memory.
  void run_transposed(std::size_t along) {
    const std::vector<Axis>& axes = kernel_.parallel;
    const Axis &row = axes[along], &column = axes.back();
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
      if (i != along) builder_.nest.grid.push_back(axes[i]);
    }
    const std::int64_t pieces = (row.extent + kRowsTransposed - 1) / kRowsTransposed;
    const std::int64_t chunk = (row.extent + pieces - 1) / pieces;
    const Var piece = builder_.new_var(), vector = builder_.new_var();
    builder_.nest.grid.push_back({piece, pieces});
    builder_.nest.grid.push_back({vector, (column.extent + lanes_ - 1) / lanes_});
    const auto body = [&](std::int64_t rows, std::int64_t columns) {
      const Var i = builder_.new_var(), lane = builder_.new_var();
      with_.clear();
      with_[row.var] = Affine::of(piece, chunk) + Affine::of(i);
      with_[column.var] = Affine::of(vector, lanes_) + Affine::of(lane);
      return around({{i, rows}}, LoopKind::serial, around({{lane, columns}}, LoopKind::vector, at_point(true)));
    };
    const auto columns_of = [&](std::int64_t rows) {
      return split(vector, column.extent / lanes_, column.extent % lanes_, lanes_,
                   [&](std::int64_t columns) { return body(rows, columns); });
    };
    builder_.nest.body = split(piece, row.extent / chunk, row.extent % chunk, chunk, columns_of);
    builder_.nest.task_cost = point_cycles() * static_cast<double>(chunk) * kNanosecondsPerCycle + 5;
    builder_.nest.note = fmt::format("points, {} rows of a vector", chunk);
  }

  // Whether the parallel axes carry no lanes.
  bool scalar_axes() const { return kernel_.form == Form::rows || kernel_.form == Form::sequence; }

  // Loops over axes [split, end): `extent` elements of axis `split` from `start`, all of the others.
  Block walk(std::size_t split, const Affine& start, std::int64_t extent) {
    with_.clear();
    const std::vector<Axis>& axes = kernel_.parallel;
    const bool rows = scalar_axes();
    std::vector<Axis> loops;
    for (std::size_t i = split; i < axes.size(); ++i) {
      const Var var = builder_.new_var();
      loops.push_back({var, i == split ? extent : axes[i].extent});
      with_[axes[i].var] = (i == split ? start : Affine(0)) + Affine::of(var);
    }
    Block body = at_point(!rows);
    for (std::size_t i = loops.size(); i-- > 0;) {
      const bool vector = !rows && i + 1 == loops.size();
      Block outer;
      outer.push_back(
          loop(loops[i].var, loops[i].extent, vector ? LoopKind::vector : LoopKind::serial, std::move(body)));
      body = std::move(outer);
    }
    return body;
  }

  // All stages at one parallel point. `in_vector`: inside a vector loop over the innermost parallel axis.
  Block at_point(bool in_vector) {
    Block block;
    if (kernel_.form == Form::sequence) {
      std::size_t repetition = 0;
      return sequence(0, kernel_.stages.size(), repetition);
    }
    for (std::size_t i = 0; i < kernel_.stages.size(); ++i) {
      append(block, in_vector || kernel_.form != Form::rows ? lane_stage(i, in_vector) : row_stage(i));
    }
    return block;
  }

  // Stages [begin, end), in the repetitions from `next` on that are inside of them; leaves in `next` the one after.
  Block sequence(std::size_t begin, std::size_t end, std::size_t& next) {
    Block block;
    for (std::size_t i = begin; i < end;) {
      if (next < kernel_.repetitions.size() && kernel_.repetitions[next].first == i) {
        const loops::Repetition& repetition = kernel_.repetitions[next++];
        const std::vector<Axis> axis = fresh({repetition.axis});
        append(block, around(axis, LoopKind::serial, sequence(i, repetition.last, next)));
        i = repetition.last;
      } else {
        append(block, kernel_.stages[i].map_axes.empty() ? lane_stage(i, false) : sequence_stage(i));
        ++i;
      }
    }
    return block;
  }

  // The lanes are the innermost map axis. One that is narrowed begins and ends with a whole vector.
  Block sequence_stage(std::size_t index) {
    const Stage& stage = kernel_.stages[index];
    const std::vector<Axis> map = fresh(stage.map_axes);
    const Axis& inner = map.back();
    const std::int64_t group = std::int64_t{lanes_} * (stage.reduce ? kVectorsOfSums : 1);
    const auto in_groups = [&](ExprId bound, std::int64_t more) {
      if (bound == loops::kNoExpr) return bound;
      loops::ExprBuilder& exprs = builder_.exprs();
      const ExprId up = exprs.binary(loops::BinaryOp::add, bound, exprs.index(Affine(more)));
      return exprs.binary(loops::BinaryOp::div, up, exprs.index(Affine(group)));
    };
    const std::int64_t groups = inner.extent / group, rest = inner.extent % group;
    Block block;
    if (groups > 0) {
      const Axis number{builder_.new_var(), groups, in_groups(inner.from, 0), in_groups(inner.to, group - 1)};
      block = around({number}, LoopKind::serial, sequence_group(index, Affine::of(number.var, group), group));
    }
    if (rest > 0) append(block, sequence_group(index, Affine(groups * group), rest));
    return around({map.begin(), map.end() - 1}, LoopKind::serial, std::move(block));
  }

  // `extent` points of the innermost map axis, from `start`.
  Block sequence_group(std::size_t index, const Affine& start, std::int64_t extent) {
    const Stage& stage = kernel_.stages[index];
    const int vectors = static_cast<int>((extent + lanes_ - 1) / lanes_);
    const auto in_lanes = [&](int number, const std::function<Block()>& make) {
      const std::int64_t first = std::int64_t{number} * lanes_;
      const Var lane = builder_.new_var();
      with_[stage.map_axes.back().var] = start + Affine(first) + Affine::of(lane);
      Block block;
      block.push_back(loop(lane, std::min<std::int64_t>(lanes_, extent - first), LoopKind::vector, make()));
      return block;
    };
    std::vector<ExprId> totals;
    Block block;
    if (stage.reduce) block = lane_sums(stage, true, vectors, in_lanes, totals);
    for (int number = 0; number < vectors; ++number) {
      if (stage.reduce) results_[index] = totals[static_cast<std::size_t>(number)];
      append(block, in_lanes(number, [&] { return stores_of(stage); }));
    }
    return block;
  }

  Block stores_of(const Stage& stage) {
    Block block;
    for (const loops::Store& store : stage.stores)
      block.push_back(schedule::store(builder_.translate(store, with_, results_)));
    return block;
  }

  ExprId combined(const Stage& stage, ExprId accumulated, ExprId value) {
    loops::ExprBuilder& exprs = builder_.exprs();
    if (kernel_.form == Form::contraction && is_float(stage.accumulate)) {
      const loops::Expr product = exprs[value];
      if (product.kind == loops::ExprKind::binary && product.binary == loops::BinaryOp::mul) {
        return exprs.fma(product.operands[0], product.operands[1], accumulated);
      }
    }
    return exprs.binary(loops::combiner(*stage.reduce), accumulated, value);
  }

  std::vector<Axis> fresh(const std::vector<Axis>& axes) { return builder_.fresh(axes, with_, results_); }

  // Each lane (or the only one) walks the stage's own axes by itself.
  Block lane_stage(std::size_t index, bool in_vector) {
    const Stage& stage = kernel_.stages[index];
    const std::vector<Axis> map = fresh(stage.map_axes);
    Block body;
    if (stage.reduce) {
      std::vector<ExprId> totals;
      body = lane_sums(stage, in_vector, 1, [](int, const auto& make) { return make(); }, totals);
      results_[index] = totals[0];
    }
    append(body, stores_of(stage));
    return around(map, LoopKind::serial, std::move(body));
  }

  // The stage's reduction, of `vectors` side by side: `in_lanes` says where one of them runs, `totals` where its result
  // is.
  Block lane_sums(const Stage& stage, bool in_vector, int vectors,
                  const std::function<Block(int, const std::function<Block()>&)>& in_lanes,
                  std::vector<ExprId>& totals) {
    const ExprId zero = builder_.identity(*stage.reduce, stage.accumulate);
    const auto registers = [&](Block& into) {
      const int array = builder_.new_accumulators(stage.accumulate, vectors, in_vector ? Lanes::apart : Lanes::one);
      for (int i = 0; i < vectors; ++i) into.push_back(set(array, i, zero));
      return array;
    };
    const auto in_each = [&](const std::function<Block(int)>& make) {
      Block block;
      for (int i = 0; i < vectors; ++i) append(block, in_lanes(i, [&] { return make(i); }));
      return block;
    };
    Block body;
    const int sum = registers(body);
    const std::vector<Axis> reduce = fresh(stage.reduce_axes);
    const auto walk = [&](const std::vector<Axis>& axes) {
      return around(axes, LoopKind::serial, in_each([&](int i) {
                      const ExprId value = builder_.translate(stage.reduce_body, with_, results_);
                      Block step;
                      step.push_back(set(sum, i, combined(stage, builder_.accumulator(sum, i), value)));
                      return step;
                    }));
    };
    const Cut cut = sums_floats(stage) ? cut_of(reduce, kLaneBlock) : Cut{};
    int total = sum;
    if (cut.block == 0) {
      append(body, walk(reduce));
    } else {
      total = registers(body);
      append(body, builder_.in_blocks(reduce, stage.reduce_axes, cut, with_, [&](const std::vector<Axis>& axes) {
        Block one = walk(axes);
        append(one, in_each([&](int i) {
                 const ExprId both = builder_.exprs().binary(
                     loops::combiner(*stage.reduce), builder_.accumulator(total, i), builder_.accumulator(sum, i));
                 Block fold;
                 fold.push_back(set(total, i, both));
                 fold.push_back(set(sum, i, zero));
                 return fold;
               }));
        return one;
      }));
    }
    for (int i = 0; i < vectors; ++i) totals.push_back(builder_.accumulator(total, i));
    return body;
  }

  // The lanes share the stage's innermost axis.
  Block row_stage(std::size_t index) {
    const Stage& stage = kernel_.stages[index];
    if (!stage.reduce) {
      const std::vector<Axis> map = fresh(stage.map_axes);
      return around(map, LoopKind::vector, stores_of(stage));
    }
    Block block = reduce_row(builder_, stage, with_, results_, results_[index]);
    append(block, stores_of(stage));
    return block;
  }

  // Of a narrowed axis, half are taken to run.
  static double points(const Axis& axis) {
    const bool narrowed = axis.from != loops::kNoExpr || axis.to != loops::kNoExpr;
    return static_cast<double>(axis.extent) * (narrowed ? 0.5 : 1);
  }

  // Cycles of one parallel point: one vector of them in point form, one row in row form.
  double point_cycles() const {
    double total = 2;
    const bool rows = scalar_axes();
    for (std::size_t i = 0; i < kernel_.stages.size(); ++i) {
      const Stage& stage = kernel_.stages[i];
      double times = 1;  // that a sequence runs the stage
      for (const loops::Repetition& repetition : kernel_.repetitions) {
        if (i >= repetition.first && i < repetition.last) times *= points(repetition.axis);
      }
      auto walk = [&](const std::vector<Axis>& axes, std::vector<ExprId> ids) {
        Var vector = -1;
        double trips = 1;
        for (const Axis& axis : axes) {
          const bool last = &axis == &axes.back();
          trips *= rows && last ? std::ceil(points(axis) / lanes_) : points(axis);
          if (rows) vector = axis.var;
        }
        if (!rows && !kernel_.parallel.empty()) vector = kernel_.parallel.back().var;
        return trips * (1 + cycles(kernel_.exprs, ids, vector, lanes_));
      };
      if (stage.reduce) total += times * (walk(stage.reduce_axes, {stage.reduce_body}) + 20);
      std::vector<ExprId> stored;
      for (const loops::Store& store : stage.stores) stored.push_back(store.value);
      total += times * walk(stage.map_axes, stored);
    }
    return total;
  }

  NestBuilder& builder_;
  const loops::Kernel& kernel_;
  const int lanes_;
  NestBuilder::Substitution with_;
  std::vector<ExprId> results_;
};

}  // namespace

void schedule_loops(NestBuilder& builder) { LoopSchedule(builder).run(); }

}  // namespace wholestep::schedule
