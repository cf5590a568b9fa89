#pragma once
// What both schedules need to turn a kernel's expressions into a nest's.
#include <functional>
#include <map>
#include <vector>

#include "schedule/nest.h"

namespace wholestep::schedule {

/// Where a long sum over `axes` is cut, since the error of one running sum grows with its length: into sums of `block`
/// steps of axis `axis`, each with all steps of the axes after it. Block 0: nowhere.
struct Cut {
  std::size_t axis = 0;
  std::int64_t block = 0;
};
/// Cuts sums of at least twice `length` into pieces of about `length`.
Cut cut_of(const std::vector<loops::Axis>& axes, std::int64_t length);

/// Whether a stage is a sum of floats, whose error grows with its length.
bool sums_floats(const loops::Stage& stage);

/// Starts a nest with the kernel's buffers and name.
class NestBuilder {
 public:
  NestBuilder(const loops::Kernel& kernel, const Target& target);

  /// Kernel expression `id` with every variable replaced and every stage result read from where it is.
  using Substitution = std::map<Var, Affine>;
  ExprId translate(ExprId id, const Substitution& with, const std::vector<ExprId>& stage_results);
  Affine translate(const Affine& affine, const Substitution& with) const;
  loops::Store translate(const loops::Store& store, const Substitution& with, const std::vector<ExprId>& stage_results);

  Var new_var() { return next_var_++; }
  /// A new loop variable for each axis, substituted in `with` from here on.
  std::vector<loops::Axis> fresh(const std::vector<loops::Axis>& axes, Substitution& with,
                                 const std::vector<ExprId>& stage_results);
  int new_accumulators(DType dtype, std::int64_t slots, Lanes lanes);
  ExprId accumulator(int array, Affine slot);
  ExprId horizontal(loops::ReduceOp op, int array, Affine slot);
  ExprId identity(loops::ReduceOp op, DType dtype);

  /// Loops over `axes`, which stand for the kernel's axes `original`, in the blocks of `cut`: `one` makes a block from
  /// the axes that are left for it to walk.
  Block in_blocks(std::vector<loops::Axis> axes, const std::vector<loops::Axis>& original, const Cut& cut,
                  Substitution& with, const std::function<Block(const std::vector<loops::Axis>&)>& one);

  loops::ExprBuilder& exprs() { return exprs_; }
  const loops::Kernel& kernel() const { return kernel_; }
  Nest nest;

 private:
  ExprId divide_byte(const loops::Expr& e);

  const loops::Kernel& kernel_;
  loops::ExprBuilder exprs_;
  bool has_fma_;
  Var next_var_ = 0;
};

/// Estimated cycles of one vector's worth of `ids`, shared parts once; `vector_var`: what the lanes run over.
double cycles(const std::vector<loops::Expr>& exprs, const std::vector<ExprId>& ids, Var vector_var, int lanes);
/// Nanoseconds of a cycle, for estimates.
inline constexpr double kNanosecondsPerCycle = 0.35;

/// Loops over `axes`, the last of kind `innermost` (serial where it is narrowed) and the others serial, around `body`.
Block around(const std::vector<loops::Axis>& axes, LoopKind innermost, Block body);

void append(Block& to, Block more);

/// What `make` gives for pieces of `size`, for one of `rest`, or a branch between the two: `var` counts pieces, of
/// which `full` are whole.
template <class Make>
Block split(Var var, std::int64_t full, std::int64_t rest, std::int64_t size, const Make& make) {
  if (rest == 0) return make(size);
  if (full == 0) return make(rest);
  Block block;
  block.push_back({Branch{Affine::of(var), full, make(size), make(rest)}});
  return block;
}

Stmt loop(Var var, std::int64_t extent, LoopKind kind, Block body);
Stmt set(int array, Affine slot, ExprId value);
Stmt store(loops::Store to);

/// Lanes of a vector loop on `target`: as many as f32 fit, whatever the dtype, so that a value's reduction order does
/// not depend on what it is fused with.
int lanes_of(const Target& target);

/// Register tiles for a sum of products, then its epilogue. False (and nothing done) where the operands do not allow
/// it.
bool schedule_contraction(NestBuilder& builder, const Target& target);
/// Everything else, and contractions without a unit-stride operand.
void schedule_loops(NestBuilder& builder);

}  // namespace wholestep::schedule
