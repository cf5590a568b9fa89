#pragma once
// A nest: a kernel as explicit loops with registers. This is all that a backend renders.
#include <string>
#include <variant>
#include <vector>

#include "loops/kernel.h"

namespace wholestep::schedule {

using loops::Affine;
using loops::ExprId;
using loops::Var;

enum class LoopKind {
  serial,  // var = 0 .. extent-1
  unroll,  // the same, written out
  vector,  // the same, `Nest::lanes` at a time as SIMD lanes; the last iteration masked where lanes do not divide
           // extent. Not nested. Expressions that depend on var are vectors inside.
};

struct Stmt;
using Block = std::vector<Stmt>;

/// `begin` and `end` (i64, serial loops only) narrow the loop to [max(0, begin), min(extent, end)); evaluated before
/// it.
struct Loop {
  Var var;
  std::int64_t extent;
  LoopKind kind;
  Block body;
  ExprId begin = loops::kNoExpr;
  ExprId end = loops::kNoExpr;
};

/// value < limit ? then : otherwise. Of scalars (never of a vector variable).
struct Branch {
  Affine value;
  std::int64_t limit;
  Block then;
  Block otherwise;
};

/// accumulators[array][slot] = value. `slot` is constant once unrolled. A scalar value set into a vector accumulator
/// fills all lanes.
struct SetAccumulator {
  int array;
  Affine slot;
  ExprId value;
};

/// As loops::Store. Adjacent stores of a block compute all values before the first is written.
struct StoreTo {
  loops::Store store;
};

/// What `read`, a scalar load or gather, reads will be needed soon. Changes nothing, wherever the address is.
struct Prefetch {
  ExprId read;
};

struct Stmt {
  std::variant<Loop, Branch, SetAccumulator, StoreTo, Prefetch> node;
};

/// What the lanes of a register have to do with each other.
enum class Lanes {
  one,       // a scalar
  apart,     // nothing: what a masked vector iteration leaves in inactive ones is undefined
  together,  // they are reduced to one value: inactive ones keep theirs
};

/// Registers of one kind.
struct AccumulatorArray {
  DType dtype;
  std::int64_t slots;
  Lanes lanes;
};

/// Memory private to a task, on its stack. Appears in `buffers` after the kernel's own with value -1.
struct Nest {
  std::string name;
  int lanes = 1;                  // of a vector loop
  std::vector<loops::Axis> grid;  // tasks: row-major product of the extents, any order, any thread
  Block body;                     // of one task
  std::vector<loops::Expr> exprs;
  std::vector<loops::BufferUse> buffers;  // value >= 0: the plan's; value == -1: task-local memory
  std::vector<AccumulatorArray> accumulators;
  double task_cost = 0;  // estimated nanoseconds of one task on one core
  std::vector<NodeId> nodes;
  std::string note;  // what the schedule chose, for explain()

  std::int64_t tasks() const;
};

std::string to_text(const Nest& nest);
void verify(const Nest& nest);

/// What a schedule needs to know of a device.
struct Target {
  std::string name;  // "x86-64-v4", ...
  int vector_bytes = 16;
  int vector_registers = 16;
  bool has_fma = false;
  bool multiplies_halves = false;  // bf16 and f16 faster than f32
  bool multiplies_pairs = false;   // two bf16 at once (`dot_pairs`) faster than two f32; subnormals are zero to it
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 512 << 10;
};

/// Turns a kernel into loops for `target`. The order in which numbers are combined depends on the kernel's shape and
/// the target alone, never on what else is fused or on threads.
Nest schedule(const loops::Kernel& kernel, const Target& target);

}  // namespace wholestep::schedule
