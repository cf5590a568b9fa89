#pragma once
// A kernel: graph nodes fused over one parallel domain, before any choice of loop order, tile or vector.
#include <optional>
#include <string>
#include <vector>

#include "expr/expr.h"
#include "wholestep/graph.h"

namespace wholestep::loops {

/// Points 0 .. extent - 1. In kernels of form `sequence`, `from` and `to` (i64, known before the axis is entered) may
/// narrow it: a repetition and a reduction have no points outside of [from, to); those of a map axis have no effect,
/// and a schedule leaves out what it cheaply can, since lanes come by the vector.
struct Axis {
  Var var;
  std::int64_t extent;
  ExprId from = kNoExpr;
  ExprId to = kNoExpr;
};

/// A value in memory that a kernel touches. Values are named by the graph node that defines them.
struct BufferUse {
  NodeId value;
  DType dtype;
  std::int64_t elements;
  bool read = false;
  bool written = false;
};

/// buffer[index] = value; with `row`, buffer[index + row * scale] += value where 0 <= row < limit, nothing elsewhere.
struct Store {
  int buffer;
  Affine index;
  ExprId value;
  ExprId row = kNoExpr;
  std::int64_t scale = 0;
  std::int64_t limit = 0;
};

/// One step of a kernel at each parallel point: for every map point, reduce (if `reduce`), then store.
/// A later stage sees what an earlier one stored at the same parallel point, and its reduction as `stage_result`
/// where it has no map axes.
struct Stage {
  std::vector<Axis> map_axes;
  std::vector<Axis> reduce_axes;
  std::optional<ReduceOp> reduce;
  ExprId reduce_body = kNoExpr;
  DType accumulate = DType::f32;  // dtype of reduce_body and of the result
  std::vector<Store> stores;
  bool in_order = false;  // map points one after another (scatter)
};

/// Which loops carry the SIMD lanes; the same for a value whether its kernel computes that value alone or others too.
enum class Form {
  point,        // the innermost parallel axis; reductions run one after another in each lane
  rows,         // the innermost map or reduction axis of each stage
  contraction,  // the first stage is a sum of products, scheduled as register tiles; the others are its epilogue
  sequence,     // the innermost map axis of each stage; reductions run one after another in each lane
};

/// Stages [first, last) run once for every point of `axis`, in order.
struct Repetition {
  Axis axis;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct Kernel {
  std::string name;
  Form form = Form::point;
  std::vector<Axis> parallel;  // all points independent
  std::vector<Stage> stages;
  std::vector<Repetition> repetitions;  // nested, outer before inner; form `sequence` only
  std::vector<Expr> exprs;
  std::vector<BufferUse> buffers;
  std::vector<NodeId> nodes;  // the graph nodes computed here, for explain()
};

/// Text of a kernel, for `show`.
std::string to_text(const Kernel& kernel, const Graph& graph);
/// Throws `invalid_graph` where an id, dtype or variable is not as declared.
void verify(const Kernel& kernel);

}  // namespace wholestep::loops
