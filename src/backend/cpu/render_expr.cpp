#include <fmt/format.h>

#include <algorithm>

#include "backend/cpu/nest_renderer.h"

namespace wholestep::cpu {

using llvm::Value;
using loops::Affine;
using loops::Expr;
using loops::ExprId;
using loops::ExprKind;

// Operands come before their users in the list.
void NestRenderer::analyse() {
  const std::size_t count = nest_.exprs.size();
  variables_.resize(count);
  mutable_.resize(count);
  for (std::size_t id = 0; id < count; ++id) {
    const Expr& expr = nest_.exprs[id];
    std::vector<loops::Var>& variables = variables_[id];
    auto add_affine = [&](const Affine& affine) {
      for (const auto& term : affine.terms) variables.push_back(term.first);
    };
    add_affine(expr.index);
    for (const loops::Guard& guard : expr.guards) add_affine(guard.value);
    bool changes = expr.kind == ExprKind::accumulator || expr.kind == ExprKind::horizontal;
    if (expr.kind == ExprKind::load || expr.kind == ExprKind::gather) {
      check_buffer(expr.buffer, expr.dtype, "load");
      const loops::BufferUse& use = nest_.buffers[static_cast<std::size_t>(expr.buffer)];
      changes = use.written || use.value < 0;
    }
    for (const ExprId operand : expr.operands) {
      if (operand == loops::kNoExpr) continue;
      if (operand < 0 || static_cast<std::size_t>(operand) >= id) {
        unsupported(fmt::format("kernel {}: expression {} has operand {}, which does not come before it", nest_.name,
                                id, operand));
      }
      const std::vector<loops::Var>& more = variables_[static_cast<std::size_t>(operand)];
      variables.insert(variables.end(), more.begin(), more.end());
      changes = changes || mutable_[static_cast<std::size_t>(operand)];
    }
    std::sort(variables.begin(), variables.end());
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    mutable_[id] = changes;
  }
}

DType NestRenderer::dtype_of(ExprId id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= nest_.exprs.size()) {
    unsupported(fmt::format("kernel {}: no expression {}", nest_.name, id));
  }
  return nest_.exprs[static_cast<std::size_t>(id)].dtype;
}

// Equal keys mean equal values where the scopes that are open are the same: a variable that is a number here (unrolled)
// is part of the key, one that is an LLVM value belongs to its scope.
NestRenderer::Key NestRenderer::key_of(ExprId id) const {
  Key key{id};
  for (const loops::Var var : variables_[static_cast<std::size_t>(id)]) {
    const auto found = bindings_.find(var);
    if (found == bindings_.end()) unsupported(fmt::format("kernel {}: variable v{} has no loop here", nest_.name, var));
    if (found->second.vector) key.push_back(active_lanes_);
    if (!found->second.value) key.push_back(found->second.number);
  }
  return key;
}

Value* NestRenderer::value(ExprId id) {
  dtype_of(id);
  const Key key = key_of(id);
  const bool changes = mutable_[static_cast<std::size_t>(id)];
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(key);
    if (found != scope->end() && (!changes || found->second.epoch == epoch_)) return found->second.value;
  }
  Value* result = compute(nest_.exprs[static_cast<std::size_t>(id)]);
  scopes_.back()[key] = {result, epoch_};
  return result;
}

Value* NestRenderer::splat(Value* x) {
  return is_vector(x) ? x : b_.CreateVectorSplat(static_cast<unsigned>(nest_.lanes), x);
}

std::pair<Value*, Value*> NestRenderer::match(Value* a, Value* b) {
  if (is_vector(a) == is_vector(b)) return {a, b};
  return {splat(a), splat(b)};
}

Value* NestRenderer::compute(const Expr& expr) {
  auto operand = [&](int i) { return value(expr.operands[static_cast<std::size_t>(i)]); };
  auto dtype = [&](int i) { return dtype_of(expr.operands[static_cast<std::size_t>(i)]); };
  switch (expr.kind) {
    case ExprKind::constant:
      return emit_.constant(expr.dtype, expr.real, expr.integer);
    case ExprKind::index:
      return index_value(resolve(expr.index));
    case ExprKind::in_range: {
      const Condition all = condition(expr.guards);
      if (!all.lanes) return all.scalar ? all.scalar : b_.getTrue();
      return all.scalar ? b_.CreateAnd(all.lanes, splat(all.scalar)) : all.lanes;
    }
    case ExprKind::load:
      return load(expr, nullptr);
    case ExprKind::gather:
      return gather(expr);
    case ExprKind::unary:
      return emit_.unary(expr.unary, dtype(0), operand(0));
    case ExprKind::binary: {
      const auto [a, b] = match(operand(0), operand(1));
      return emit_.binary(expr.binary, dtype(0), a, b);
    }
    case ExprKind::fma:
    case ExprKind::dot_pairs: {
      Value* a = operand(0);
      Value* b = operand(1);
      Value* c = operand(2);
      if (is_vector(a) || is_vector(b) || is_vector(c)) {
        a = splat(a);
        b = splat(b);
        c = splat(c);
      }
      return expr.kind == ExprKind::fma ? emit_.fma(expr.dtype, a, b, c) : emit_.dot_pairs(a, b, c);
    }
    case ExprKind::pair: {
      if (Value* both = load_pair(expr)) return both;
      const auto [high, low] = match(operand(0), operand(1));
      return emit_.pair(high, low);
    }
    case ExprKind::select: {
      Value* chosen = operand(0);
      auto [a, b] = match(operand(1), operand(2));
      if (is_vector(chosen)) {
        a = splat(a);
        b = splat(b);
      }
      return b_.CreateSelect(chosen, a, b);
    }
    case ExprKind::cast:
      return emit_.cast(operand(0), dtype(0), expr.dtype);
    case ExprKind::bitcast:
      return emit_.bitcast(operand(0), dtype(0), expr.dtype);
    case ExprKind::accumulator: {
      llvm::AllocaInst* slot = register_at(expr.buffer, expr.index, expr.dtype);
      return b_.CreateLoad(slot->getAllocatedType(), slot);
    }
    case ExprKind::horizontal:
      return horizontal(expr);
    case ExprKind::stage_result:
      break;
  }
  unsupported(fmt::format("kernel {}: an expression that nests do not have", nest_.name));
}

llvm::AllocaInst* NestRenderer::register_at(int array, const Affine& slot, DType dtype) const {
  if (array < 0 || static_cast<std::size_t>(array) >= nest_.accumulators.size()) {
    unsupported(fmt::format("kernel {}: no register array {}", nest_.name, array));
  }
  const schedule::AccumulatorArray& registers = nest_.accumulators[static_cast<std::size_t>(array)];
  if (registers.dtype != dtype) {
    unsupported(fmt::format("kernel {}: a value of {} in registers of {}", nest_.name, to_string(dtype),
                            to_string(registers.dtype)));
  }
  const Position position = resolve(slot);
  if (!position.terms.empty() || position.lane_step != 0) {
    unsupported(
        fmt::format("kernel {}: register {} is not a constant once unrolled", nest_.name, loops::to_string(slot)));
  }
  if (position.number < 0 || position.number >= registers.slots) {
    unsupported(fmt::format("kernel {}: register {} of {}", nest_.name, position.number, registers.slots));
  }
  return registers_[static_cast<std::size_t>(array)][static_cast<std::size_t>(position.number)];
}

// Halves, quarters, ...: the tree is fixed, so the bits are.
Value* NestRenderer::horizontal(const Expr& expr) {
  llvm::AllocaInst* slot = register_at(expr.buffer, expr.index, expr.dtype);
  Value* x = b_.CreateLoad(slot->getAllocatedType(), slot);
  if (!is_vector(x)) return x;
  const loops::BinaryOp op = loops::combiner(expr.reduce);
  for (int width = nest_.lanes; width > 1; width /= 2) {
    if (width % 2 != 0)
      unsupported(fmt::format("kernel {}: {} lanes, which is no power of two", nest_.name, nest_.lanes));
    std::vector<int> low, high;
    for (int i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    x = emit_.binary(op, expr.dtype, b_.CreateShuffleVector(x, low), b_.CreateShuffleVector(x, high));
  }
  return b_.CreateExtractElement(x, std::uint64_t{0});
}

NestRenderer::Position NestRenderer::resolve(const Affine& affine) const {
  Position position;
  position.number = affine.offset;
  std::vector<std::pair<int, std::pair<Value*, std::int64_t>>> terms;
  for (const auto& [var, coefficient] : affine.terms) {
    const auto found = bindings_.find(var);
    if (found == bindings_.end()) unsupported(fmt::format("kernel {}: variable v{} has no loop here", nest_.name, var));
    const Binding& binding = found->second;
    if (binding.value) {
      terms.push_back({binding.depth, {binding.value, coefficient}});
    } else {
      position.number += binding.number * coefficient;
    }
    if (binding.vector) position.lane_step += coefficient;
  }
  std::stable_sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& term : terms) position.terms.push_back(term.second);
  return position;
}

Value* NestRenderer::scalar_of(const Position& position) {
  Value* sum = nullptr;
  for (const auto& [value, factor] : position.terms) {
    Value* term =
        factor == 1 ? value : b_.CreateMul(value, b_.getInt64(static_cast<std::uint64_t>(factor)), "", false, true);
    sum = sum ? b_.CreateAdd(sum, term, "", false, true) : term;
  }
  Value* number = b_.getInt64(static_cast<std::uint64_t>(position.number));
  if (!sum) return number;
  return position.number == 0 ? sum : b_.CreateAdd(sum, number, "", false, true);
}

Value* NestRenderer::index_value(const Position& position) {
  Value* first = scalar_of(position);
  if (position.lane_step == 0) return first;
  std::vector<llvm::Constant*> offsets;
  for (int lane = 0; lane < nest_.lanes; ++lane) {
    offsets.push_back(b_.getInt64(static_cast<std::uint64_t>(lane * position.lane_step)));
  }
  return b_.CreateAdd(splat(first), llvm::ConstantVector::get(offsets));
}

// One unsigned comparison per guard: value - low < high - low.
NestRenderer::Condition NestRenderer::condition(const std::vector<loops::Guard>& guards) {
  Condition all;
  for (const loops::Guard& guard : guards) {
    const Value* always = b_.getTrue();
    if (guard.low >= guard.high) {
      all.scalar = b_.getFalse();
      continue;
    }
    Position position = resolve(guard.value);
    position.number -= guard.low;
    Value* offset = index_value(position);
    const auto width = static_cast<std::uint64_t>(guard.high) - static_cast<std::uint64_t>(guard.low);
    Value* holds = b_.CreateICmpULT(offset, llvm::ConstantInt::get(offset->getType(), width));
    if (holds == always) continue;
    Value*& part = is_vector(holds) ? all.lanes : all.scalar;
    part = part ? b_.CreateAnd(part, holds) : holds;
  }
  return all;
}

}  // namespace wholestep::cpu
