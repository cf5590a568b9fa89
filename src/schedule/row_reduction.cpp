#include "schedule/row_reduction.h"

#include <algorithm>

namespace wholestep::schedule {
namespace {

using loops::Axis;
using loops::Stage;

// Independent partial sums along a row hide the latency of an addition.
constexpr int kPartialSums = 4;
// A long row is summed in blocks of so many steps, since the error of one running sum grows with its length.
constexpr std::int64_t kBlockSteps = 64;

/// With at least one axis to reduce: partial sums take a vector each in every step along the innermost.
class RowReduction {
 public:
  RowReduction(NestBuilder& builder, const Stage& stage, NestBuilder::Substitution& with,
               const std::vector<ExprId>& stage_results)
      : builder_(builder),
        stage_(stage),
        with_(with),
        stage_results_(stage_results),
        inner_(stage.reduce_axes.back()),
        lanes_(builder.nest.lanes),
        stride_(std::int64_t{lanes_} * kPartialSums),
        partial_(inner_.extent >= 2 * stride_ ? kPartialSums : 1) {}

  Block into(int result) {
    const std::vector<Axis> originals(stage_.reduce_axes.begin(), stage_.reduce_axes.end() - 1);
    const std::vector<Axis> outer = builder_.fresh(originals, with_, stage_results_);
    const std::int64_t steps = inner_.extent / stride_;
    blocks_ = partial_ > 1 && steps >= 2 * kBlockSteps ? steps / kBlockSteps : 0;
    const std::int64_t rows = kBlockSteps * stride_ / std::max<std::int64_t>(1, inner_.extent);
    const Cut cut = blocks_ > 0 || !sums_floats(stage_) ? Cut{} : cut_of(outer, std::max<std::int64_t>(1, rows));

    Block block;
    totals_ = sums_ = registers(block);
    if (blocks_ > 0 || cut.block > 0) totals_ = registers(block);
    if (cut.block == 0) {
      append(block, around(outer, LoopKind::serial, row()));
    } else {
      append(block, builder_.in_blocks(outer, originals, cut, with_, [&](const std::vector<Axis>& axes) {
        Block one;
        clear(sums_, one);
        append(one, around(axes, LoopKind::serial, row()));
        one.push_back(fold());
        return one;
      }));
    }
    if (partial_ > 1) block.push_back(fold_partial_sums());
    block.push_back(set(result, 0, builder_.horizontal(*stage_.reduce, totals_, 0)));
    return block;
  }

 private:
  ExprId combined(ExprId a, ExprId b) { return builder_.exprs().binary(loops::combiner(*stage_.reduce), a, b); }

  int registers(Block& into) {
    const int array = builder_.new_accumulators(stage_.accumulate, partial_, Lanes::together);
    clear(array, into);
    return array;
  }

  void clear(int array, Block& into) {
    for (int p = 0; p < partial_; ++p) {
      into.push_back(set(array, p, builder_.identity(*stage_.reduce, stage_.accumulate)));
    }
  }

  // One vector into partial sum `p`, from `start`.
  Stmt add(int p, const Affine& start, std::int64_t extent) {
    const Var lane = builder_.new_var();
    with_[inner_.var] = start + Affine::of(lane);
    const ExprId value = builder_.translate(stage_.reduce_body, with_, stage_results_);
    Block body;
    body.push_back(set(sums_, p, combined(builder_.accumulator(sums_, p), value)));
    return loop(lane, extent, LoopKind::vector, std::move(body));
  }

  // `count` steps of all partial sums, the first at `start`.
  Stmt steps_from(const Affine& start, std::int64_t count) {
    const Var step = builder_.new_var();
    Block body;
    for (int p = 0; p < partial_; ++p)
      body.push_back(add(p, start + Affine::of(step, stride_) + Affine(std::int64_t{p} * lanes_), lanes_));
    return loop(step, count, LoopKind::serial, std::move(body));
  }

  // Each partial sum into its total.
  Stmt fold() {
    Block body;
    for (int p = 0; p < partial_; ++p) {
      body.push_back(set(totals_, p, combined(builder_.accumulator(totals_, p), builder_.accumulator(sums_, p))));
    }
    return loop(builder_.new_var(), lanes_, LoopKind::vector, std::move(body));
  }

  // All of the innermost axis: blocks of it, then what they leave over.
  Block row() {
    Block walk;
    if (blocks_ > 0) {
      const Var number = builder_.new_var();
      Block body;
      clear(sums_, body);
      body.push_back(steps_from(Affine::of(number, kBlockSteps * stride_), kBlockSteps));
      body.push_back(fold());
      walk.push_back(loop(number, blocks_, LoopKind::serial, std::move(body)));
      clear(sums_, walk);
    }
    const std::int64_t steps = inner_.extent / stride_, rest = inner_.extent % stride_, done = blocks_ * kBlockSteps;
    if (partial_ == 1) {
      walk.push_back(add(0, 0, inner_.extent));
    } else {
      if (steps > done) walk.push_back(steps_from(Affine(done * stride_), steps - done));
      if (rest != 0) walk.push_back(add(0, Affine(inner_.extent - rest), rest));
    }
    if (blocks_ > 0) walk.push_back(fold());
    return walk;
  }

  Stmt fold_partial_sums() {
    const ExprId low = combined(builder_.accumulator(totals_, 0), builder_.accumulator(totals_, 1));
    const ExprId high = combined(builder_.accumulator(totals_, 2), builder_.accumulator(totals_, 3));
    Block body;
    body.push_back(set(totals_, 0, combined(low, high)));
    return loop(builder_.new_var(), lanes_, LoopKind::vector, std::move(body));
  }

  NestBuilder& builder_;
  const Stage& stage_;
  NestBuilder::Substitution& with_;
  const std::vector<ExprId>& stage_results_;
  const Axis inner_;
  const int lanes_;
  const std::int64_t stride_;  // of a step
  const int partial_;
  std::int64_t blocks_ = 0;  // that a row is cut into
  int sums_ = -1, totals_ = -1;
};

}  // namespace

Block reduce_row(NestBuilder& builder, const Stage& stage, NestBuilder::Substitution& with,
                 const std::vector<ExprId>& stage_results, ExprId& total) {
  const int result = builder.new_accumulators(stage.accumulate, 1, Lanes::one);
  Block block;
  if (!stage.reduce_axes.empty()) {
    block = RowReduction(builder, stage, with, stage_results).into(result);
  } else {
    const ExprId value = builder.translate(stage.reduce_body, with, stage_results);
    const ExprId identity = builder.identity(*stage.reduce, stage.accumulate);
    block.push_back(set(result, 0, builder.exprs().binary(loops::combiner(*stage.reduce), identity, value)));
  }
  total = builder.accumulator(result, 0);
  return block;
}

}  // namespace wholestep::schedule
