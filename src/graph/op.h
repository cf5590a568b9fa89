#pragma once
// The op table: one entry per op holds everything that is known about it. See docs/adding-an-op.md.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "expr/expr.h"
#include "wholestep/graph.h"

namespace wholestep {

/// How the loop builder treats an op. An op without `decompose` is a primitive and has `lower`.
enum class OpKind {
  source,       // input, param, state, constant: a buffer
  elementwise,  // out[i] from operands[i]; one shape for all
  view,       // out[i] from operands at a moved index: reshape, transpose, broadcast, slice, pad, concat, iota, gather
  reduction,  // out[i] from a range of one operand
  contraction,  // sums of products, [..., m, k] by [..., k, n]; attributes transpose_a, transpose_b: stored transposed
  scatter,      // rows of one operand added to rows of another
  sequential,   // in steps, each on what the last one left in the result
  composite,    // replaced by other ops before loops are built
};

/// In which float type a precision policy has an op computed, see passes/precision.cpp.
enum class ComputeIn {
  low,       // bf16 or f16: the cost is in products, which accumulate in f32
  operands,  // that of the operands
  full,      // f32: sums over many elements, losses, functions that leave the range or lose the digits of few bits
  wide,      // f32 under every policy: ops that take no bf16 or f16
};

/// What a type rule sees.
struct InferArgs {
  std::string_view op;
  const std::vector<TensorType>& operands;
  const Attrs& attrs;
  /// Throws `code`: "op: message (operands: f32[2, 3], f32[4])".
  [[noreturn]] void fail(ErrorCode code, const std::string& message) const;
};

/// A tensor of the reference interpreter: `real` for float dtypes, `integer` for the others (boolean: 0 or 1).
struct HostValue {
  TensorType type;
  std::vector<double> real;
  std::vector<std::int64_t> integer;
  explicit HostValue(TensorType type = {});
  std::int64_t size() const { return num_elements(type.shape); }
  /// Element `i` as double, whatever the dtype.
  double at(std::int64_t i) const {
    return is_float(type.dtype) ? real[static_cast<std::size_t>(i)]
                                : static_cast<double>(integer[static_cast<std::size_t>(i)]);
  }
};

/// What reference evaluation sees. It fills `result` (allocated, of the node's type); the interpreter rounds floats to
/// the dtype and wraps integers afterwards, or keeps doubles where it runs in f64.
struct EvalArgs {
  const Node& node;
  std::vector<const HostValue*> operands;
  HostValue& result;
};

/// What a gradient rule sees: everything lives in `graph`, to which it appends.
struct GradientArgs {
  Graph& graph;
  const Node node;  // a copy: appending moves the graph's nodes
  std::vector<Tensor> operands;
  Tensor output;
  Tensor cotangent;          // of the output, same type
  std::vector<bool> wanted;  // per operand: whether its cotangent is needed
};
/// One cotangent per operand, of its type; an invalid Tensor where it is zero or not wanted.
using GradientRule = std::function<std::vector<Tensor>(const GradientArgs&)>;
/// Why an op has no gradient. Its operands get zero; asking is an error only if `error` (else it is flat almost
/// everywhere, as comparisons and rounding are).
struct NotDifferentiable {
  std::string reason;
  bool error = false;
};

/// What a lowering rule sees: it writes the value of one output element as an expression.
class LowerContext {
 public:
  virtual ~LowerContext() = default;
  virtual const Node& node() const = 0;
  virtual const TensorType& operand_type(int i) const = 0;
  virtual loops::ExprBuilder& exprs() = 0;
  /// Element of operand `i` at `at`: a load, or the operand's own expression where it is fused.
  virtual loops::ExprId operand(int i, const loops::Index& at) = 0;
  /// Element of operand `i` whose row-major position is that of `at` in a tensor of this node's shape.
  virtual loops::ExprId operand_reshaped(int i, const loops::Index& at) = 0;
  /// As `operand`, where the element exists only if all guards hold; zero otherwise.
  virtual loops::ExprId operand_guarded(int i, const loops::Index& at, std::vector<loops::Guard> guards) = 0;
  /// Element [clamp(row), rest...] of operand `i`, which is named in `OpDef::whole_operands`.
  virtual loops::ExprId operand_row(int i, loops::ExprId row, const loops::Index& rest) = 0;
  /// Reduction over new axes of the given extents. `body` gives the value at one point of them. Once, in a reduction or
  /// contraction only. bf16 and f16 accumulate in f32.
  virtual loops::ExprId reduce(loops::ReduceOp op, const std::vector<std::int64_t>& extents,
                               const std::function<loops::ExprId(const loops::Index&)>& body) = 0;
  /// In a scatter: `row` says which row of the result takes the value returned by the rule at `at`.
  virtual void scatter_row(loops::ExprId row) = 0;
};
/// `at`: the output element; in a scatter, the element of the updates operand.
using LowerRule = std::function<loops::ExprId(LowerContext&, const loops::Index& at)>;
/// What the rule of a sequential op sees: it writes stages, which run one after another and read and write the result.
/// Axes of operands and result before the last two are a batch, of which the rule sees one matrix [row, column].
class SequenceContext {
 public:
  struct Write {
    loops::Index at;
    loops::ExprId value;
  };
  /// Points 0 .. extent - 1 of an axis, narrowed to [from, to) by i64 expressions: of what an outer repetition counts,
  /// of results of stages, of elements of the result as they are by then.
  struct Range {
    std::int64_t extent;
    loops::ExprId from, to;
    Range(std::int64_t extent, loops::ExprId from = loops::kNoExpr, loops::ExprId to = loops::kNoExpr)
        : extent(extent), from(from), to(to) {}
  };
  using Ranges = std::vector<Range>;
  virtual ~SequenceContext() = default;
  virtual const Node& node() const = 0;
  virtual loops::ExprBuilder& exprs() = 0;
  /// Element `at` of operand `i`; zero where a guard fails.
  virtual loops::ExprId operand(int i, const loops::Index& at, std::vector<loops::Guard> guards = {}) = 0;
  /// Element `at` of the result as it is by now.
  virtual loops::ExprId result(const loops::Index& at) = 0;
  /// The stages that `body` writes run once for every point of `range`, in order. A loop that ends when its data say
  /// so is a repetition of as many points as it may take, and in it ranges that are empty once it is done.
  virtual void repeat(const Range& range, const std::function<void(const loops::Affine&)>& body) = 0;
  /// A stage: a reduction over `over`, which later stages may use.
  virtual loops::ExprId reduce(loops::ReduceOp op, const Ranges& over,
                               const std::function<loops::ExprId(const loops::Index&)>& body) = 0;
  /// A stage: at every point of `points`, all values are computed, then written. No point reads what another writes.
  /// Where `points` are narrowed, those outside must have no effect: they run or not as is cheaper, since lanes come by
  /// the vector.
  virtual void write(const Ranges& points, const std::function<std::vector<Write>(const loops::Index&)>& body) = 0;
  /// A stage: at every point of `points`, as for `write`, a sum over `over`, from which `body` makes what is written.
  virtual void write_sum(const Ranges& points, const Ranges& over,
                         const std::function<loops::ExprId(const loops::Index& at, const loops::Index& over)>& term,
                         const std::function<Write(const loops::Index& at, loops::ExprId sum)>& body) = 0;
};
using SequenceRule = std::function<void(SequenceContext&)>;
/// Replaces a composite by other ops appended to `graph`; returns its value.
using DecomposeRule = std::function<Tensor(Graph& graph, const Node& node, const std::vector<Tensor>& operands)>;

/// An operand that holds indices into [0, bound): graph inputs used there are checked before a run.
struct IndexOperand {
  int operand;
  std::function<std::int64_t(const std::vector<TensorType>& operands, const Attrs& attrs)> bound;
};

/// One use of an op, from which the table tests make graphs: type rule, text form, reference against every backend,
/// gradient against finite differences. `ranges[i]` bounds the random values of operand `i`; where absent, (-2, 2) for
/// floats, [0, 5) for integers. Choose them off kinks and poles.
struct OpExample {
  std::vector<TensorType> operands;
  Attrs attrs;
  std::vector<std::pair<double, double>> ranges;
};

struct AttrSpec {
  std::string name;
  std::string doc;
};

struct OpDef {
  std::string name;
  std::string doc;  // one sentence; then what it follows where standards differ
  OpKind kind = OpKind::elementwise;
  int min_operands = 1;
  int max_operands = 1;  // -1: any number
  std::vector<AttrSpec> attrs;
  std::function<TensorType(const InferArgs&)> infer;
  std::function<void(const EvalArgs&)> evaluate;
  std::variant<std::monostate, GradientRule, NotDifferentiable> gradient;
  LowerRule lower;
  SequenceRule sequence;  // of a sequential op, in place of `lower`
  DecomposeRule decompose;
  std::vector<int> whole_operands;  // operands that are indexed dynamically, so they must be buffers
  std::optional<IndexOperand> index_operand;
  std::optional<ComputeIn> compute_in;  // where it is not what `compute_in_of` says of its kind
  std::vector<OpExample> examples;
};

/// `op.compute_in`; where that is absent, low for contractions, full for reductions, scatters, sequential ops and
/// composites, and
/// that of the operands for the rest.
ComputeIn compute_in_of(const OpDef& op);

/// All ops, by name.
class OpTable {
 public:
  void add(OpDef def);
  const OpDef* find(std::string_view name) const;
  std::vector<const OpDef*> all() const;

 private:
  std::vector<std::unique_ptr<OpDef>> ops_;  // sorted by name
};

/// The table, filled once from src/ops/.
const OpTable& op_table();

}  // namespace wholestep
