#pragma once
// Writes the expressions of one kernel by the op table's lowering rules.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/op.h"
#include "loops/kernel.h"

namespace wholestep::loops {

/// Where the element of a value that is not fused comes from. Decided by the owner of the kernel.
struct Access {
  enum class Kind {
    expand,  // the value's own lowering rule, here
    memory,  // a load
    result,  // the reduction of an earlier stage at this parallel point
  };
  Kind kind = Kind::expand;
  int stage = -1;  // result
};

/// Lowers one stage at a time into a kernel.
class Lowering : public LowerContext {
 public:
  /// `access` is asked about every operand element: value, index (empty where it is not affine in the value's own
  /// dimensions), whether it is guarded.
  using Resolve = std::function<Access(NodeId value, const Index& at, bool affine)>;
  Lowering(const Graph& graph, Kernel& kernel, Var& next_var)
      : graph_(graph), kernel_(kernel), next_var_(next_var), exprs_(kernel.exprs) {}

  /// Value of `root` at `at`, filling `stage`'s reduction where it has one.
  ExprId lower_root(NodeId root, const Index& at, Stage& stage, const Resolve& resolve);
  /// Value of operand `i` of `root` at `at`.
  ExprId lower_operand(NodeId root, int i, const Index& at, const Resolve& resolve);
  /// What the last lower_root passed to scatter_row.
  ExprId row() const { return row_; }
  /// True if the innermost dimension of the reduced operand is reduced: the reduction then runs along rows.
  bool reduces_innermost() const { return reduces_innermost_; }
  /// Entry of `value` in the kernel's buffer list, added where missing.
  int buffer_of(NodeId value);
  Var new_var() { return next_var_++; }

  const Node& node() const override { return graph_.node(current_); }
  const TensorType& operand_type(int i) const override { return graph_.node(operand_id(i)).type; }
  ExprBuilder& exprs() override { return exprs_; }
  ExprId operand(int i, const Index& at) override;
  ExprId operand_reshaped(int i, const Index& at) override;
  ExprId operand_guarded(int i, const Index& at, std::vector<Guard> guards) override;
  ExprId operand_row(int i, ExprId row, const Index& rest) override;
  ExprId reduce(ReduceOp op, const std::vector<std::int64_t>& extents,
                const std::function<ExprId(const Index&)>& body) override;
  void scatter_row(ExprId row) override { row_ = row; }

 private:
  NodeId operand_id(int i) const { return node().operands[static_cast<std::size_t>(i)]; }
  ExprId value_at(NodeId value, const Index& at);
  ExprId expand(NodeId value, const Index& at);
  ExprId load(NodeId value, Affine flat);

  const Graph& graph_;
  Kernel& kernel_;
  Var& next_var_;
  ExprBuilder exprs_;
  const Resolve* resolve_ = nullptr;
  NodeId root_ = -1, current_ = -1;
  Stage* stage_ = nullptr;
  Var first_reduce_var_ = 0;
  bool in_reduction_ = false;
  bool reduces_innermost_ = false;
  ExprId row_ = kNoExpr;
  std::vector<Guard> guards_;
  std::map<std::pair<NodeId, std::string>, ExprId> memo_;
};

}  // namespace wholestep::loops
