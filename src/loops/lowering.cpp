#include "loops/lowering.h"

#include <fmt/format.h>

#include "loops/fuse.h"

namespace wholestep::loops {
namespace {

bool depends_from(const Affine& affine, Var first) {
  for (const auto& [var, coefficient] : affine.terms)
    if (var >= first) return true;
  return false;
}

}  // namespace

int Lowering::buffer_of(NodeId value) {
  for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
    if (kernel_.buffers[i].value == value) return static_cast<int>(i);
  const TensorType& type = graph_.node(value).type;
  kernel_.buffers.push_back({value, type.dtype, num_elements(type.shape)});
  return static_cast<int>(kernel_.buffers.size()) - 1;
}

ExprId Lowering::lower_root(NodeId root, const Index& at, Stage& stage, const Resolve& resolve) {
  root_ = root;
  stage_ = &stage;
  resolve_ = &resolve;
  row_ = kNoExpr;
  reduces_innermost_ = false;
  memo_.clear();
  return expand(root, at);
}

ExprId Lowering::lower_operand(NodeId root, int i, const Index& at, const Resolve& resolve) {
  resolve_ = &resolve;
  memo_.clear();
  root_ = current_ = root;
  return value_at(operand_id(i), at);
}

ExprId Lowering::load(NodeId value, Affine flat) {
  const int buffer = buffer_of(value);
  kernel_.buffers[static_cast<std::size_t>(buffer)].read = true;
  return exprs_.load(buffer, graph_.node(value).type.dtype, std::move(flat), guards_);
}

ExprId Lowering::expand(NodeId value, const Index& at) {
  std::string key;
  for (const Affine& a : at) key += to_string(a) + ",";
  for (const Guard& g : guards_) key += fmt::format("|{}:{}:{}", to_string(g.value), g.low, g.high);
  auto [found, fresh] = memo_.try_emplace({value, key}, kNoExpr);
  if (!fresh && found->second != kNoExpr) return found->second;
  const NodeId outer = current_;
  current_ = value;
  const ExprId result = graph_.node(value).op->lower(*this, at);
  current_ = outer;
  memo_[{value, key}] = result;
  return result;
}

ExprId Lowering::value_at(NodeId value, const Index& at) {
  const Node& node = graph_.node(value);
  if (node.op->name == "constant") {
    const Literal& literal = node.attrs.get<Literal>("value");
    if (literal->size() == 1) {
      if (node.type.dtype == DType::i64)
        return exprs_.add({.kind = ExprKind::constant, .dtype = DType::i64, .integer = literal->as<std::int64_t>()[0]});
      return exprs_.constant(literal->item(), node.type.dtype);
    }
  }
  const Access access = (*resolve_)(value, at, true);
  if (access.kind == Access::Kind::result) {
    const DType accumulate = kernel_.stages[static_cast<std::size_t>(access.stage)].accumulate;
    return exprs_.cast(exprs_.stage_result(access.stage, accumulate), node.type.dtype);
  }
  if (access.kind == Access::Kind::memory) return load(value, flatten(at, node.type.shape));
  return expand(value, at);
}

ExprId Lowering::operand(int i, const Index& at) {
  if (in_reduction_ && current_ == root_ && i == 0 && !at.empty() && depends_from(at.back(), first_reduce_var_)) {
    reduces_innermost_ = true;
  }
  return value_at(operand_id(i), at);
}

ExprId Lowering::operand_reshaped(int i, const Index& at) {
  const NodeId value = operand_id(i);
  const Shape& to = node().type.shape;
  const Shape& from = graph_.node(value).type.shape;
  if (reshape_is_affine(to, from)) return value_at(value, reshape_index(at, to, from));
  const Access access = (*resolve_)(value, {}, false);
  if (access.kind != Access::Kind::memory) {
    throw Error(ErrorCode::internal, fmt::format("reshape of node %{} needs it in memory", value));
  }
  return load(value, flatten(at, to));
}

ExprId Lowering::operand_guarded(int i, const Index& at, std::vector<Guard> guards) {
  const std::size_t before = guards_.size();
  guards_.insert(guards_.end(), guards.begin(), guards.end());
  ExprId value = operand(i, at);
  guards_.resize(before);
  const ExprKind kind = exprs_[value].kind;
  if (kind != ExprKind::load && kind != ExprKind::gather) {
    value = exprs_.select(exprs_.in_range(std::move(guards)), value, exprs_.constant(0, exprs_[value].dtype));
  }
  return value;
}

ExprId Lowering::operand_row(int i, ExprId row, const Index& rest) {
  const NodeId value = operand_id(i);
  (*resolve_)(value, {}, false);
  const Shape& shape = graph_.node(value).type.shape;
  Index at{Affine(0)};
  at.insert(at.end(), rest.begin(), rest.end());
  const int buffer = buffer_of(value);
  kernel_.buffers[static_cast<std::size_t>(buffer)].read = true;
  const std::int64_t row_elements = shape[0] == 0 ? 0 : num_elements(shape) / shape[0];
  return exprs_.gather(buffer, graph_.node(value).type.dtype, flatten(at, shape), row, row_elements, shape[0], guards_);
}

ExprId Lowering::reduce(ReduceOp op, const std::vector<std::int64_t>& extents,
                        const std::function<ExprId(const Index&)>& body) {
  if (current_ != root_ || stage_->reduce) {
    throw Error(ErrorCode::internal, fmt::format("reduction in node %{} is not the root of its stage", current_));
  }
  const DType dtype = node().type.dtype;
  const DType accumulate = dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype;
  first_reduce_var_ = next_var_;
  Index at;
  for (std::int64_t extent : extents) {
    if (extent == 1) {
      at.push_back(0);
    } else {
      stage_->reduce_axes.push_back({next_var_, extent});
      at.push_back(Affine::of(next_var_++));
    }
  }
  in_reduction_ = true;
  ExprId value = body(at);
  in_reduction_ = false;
  // Products of a contraction are not rounded to half precision before they are summed.
  const Expr& product = exprs_[value];
  if (node().op->kind == OpKind::contraction && product.kind == ExprKind::cast && product.dtype != accumulate &&
      exprs_[product.operands[0]].dtype == accumulate) {
    value = product.operands[0];
  }
  stage_->reduce = op;
  stage_->accumulate = accumulate;
  stage_->reduce_body = exprs_.cast(value, accumulate);
  return exprs_.cast(exprs_.stage_result(static_cast<int>(kernel_.stages.size()), accumulate), dtype);
}

}  // namespace wholestep::loops
