#include <fmt/format.h>

#include "backend/cpu/nest_renderer.h"

namespace wholestep::cpu {

using llvm::BasicBlock;
using llvm::Value;
using loops::Expr;

namespace {

// Memory given by the caller of a program may lie anywhere.
const llvm::Align kAlignment(1);

}  // namespace

void NestRenderer::check_buffer(int buffer, DType dtype, const char* what) const {
  if (buffer < 0 || static_cast<std::size_t>(buffer) >= nest_.buffers.size()) {
    unsupported(fmt::format("kernel {}: {} of buffer {}, which is not in its list", nest_.name, what, buffer));
  }
  const DType held = nest_.buffers[static_cast<std::size_t>(buffer)].dtype;
  if (held != dtype) {
    unsupported(
        fmt::format("kernel {}: {} of {} in a buffer of {}", nest_.name, what, to_string(dtype), to_string(held)));
  }
}

llvm::Constant* NestRenderer::tail_mask() const {
  if (!in_vector_loop() || active_lanes_ == nest_.lanes) return nullptr;
  std::vector<llvm::Constant*> lanes;
  for (int lane = 0; lane < nest_.lanes; ++lane) {
    lanes.push_back(llvm::ConstantInt::getBool(module_.getContext(), is_active(lane)));
  }
  return llvm::ConstantVector::get(lanes);
}

// Terms are added from the outside in and the number last: inner loops then share one pointer and differ by
// displacement.
Value* NestRenderer::address(int buffer, const Position& position, Value* extra) {
  llvm::Type* element = emit_.memory_type(nest_.buffers[static_cast<std::size_t>(buffer)].dtype);
  Value* pointer = buffers_[static_cast<std::size_t>(buffer)];
  Key key{-1 - buffer};
  for (const auto& [value, factor] : position.terms) {
    key.push_back(reinterpret_cast<std::intptr_t>(value));
    key.push_back(factor);
    Value* known = nullptr;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend() && !known; ++scope) {
      const auto found = scope->find(key);
      if (found != scope->end()) known = found->second.value;
    }
    if (!known) {
      Value* offset =
          factor == 1 ? value : b_.CreateMul(value, b_.getInt64(static_cast<std::uint64_t>(factor)), "", false, true);
      known = b_.CreateGEP(element, pointer, offset);
      scopes_.back()[key] = {known, epoch_};
    }
    pointer = known;
  }
  if (extra) pointer = b_.CreateGEP(element, pointer, extra);
  if (position.number != 0)
    pointer = b_.CreateGEP(element, pointer, b_.getInt64(static_cast<std::uint64_t>(position.number)));
  return pointer;
}

Value* NestRenderer::tagged(int buffer, llvm::Instruction* access) {
  const AliasScope& scope = alias_scopes_[static_cast<std::size_t>(buffer)];
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, scope.own);
  access->setMetadata(llvm::LLVMContext::MD_noalias, scope.others);
  return access;
}

Value* NestRenderer::read(int buffer, llvm::Type* type, Value* pointer, Value* mask) {
  if (!mask) return tagged(buffer, b_.CreateAlignedLoad(type, pointer, kAlignment));
  return tagged(buffer, b_.CreateMaskedLoad(type, pointer, kAlignment, mask, llvm::Constant::getNullValue(type)));
}

void NestRenderer::write(int buffer, Value* value, Value* pointer, Value* mask) {
  if (!mask) {
    tagged(buffer, b_.CreateAlignedStore(value, pointer, kAlignment));
  } else {
    tagged(buffer, b_.CreateMaskedStore(value, pointer, kAlignment, mask));
  }
}

// Without a jump: where the condition fails, zeros are read from the stack.
Value* NestRenderer::load_scalar(int buffer, Value* pointer, Value* condition) {
  const DType dtype = nest_.buffers[static_cast<std::size_t>(buffer)].dtype;
  if (condition) {
    if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
      if (known->isZero()) return llvm::Constant::getNullValue(emit_.value_type(dtype));
    } else {
      if (!nowhere_) {
        llvm::IRBuilderBase::InsertPointGuard keep(b_);
        b_.SetInsertPoint(entry_end_);
        nowhere_ = b_.CreateAlloca(b_.getInt64Ty());
        b_.CreateStore(b_.getInt64(0), nowhere_);
      }
      pointer = b_.CreateSelect(condition, pointer, nowhere_);
    }
  }
  return emit_.from_memory(read(buffer, emit_.memory_type(dtype), pointer, nullptr), dtype);
}

Value* NestRenderer::load(const Expr& expr, Value* extra) {
  const Position position = resolve(expr.index);
  const Condition guards = condition(expr.guards);
  const bool many_addresses = position.lane_step != 0 || (extra && is_vector(extra));
  if (!many_addresses && !guards.lanes) {
    return load_scalar(expr.buffer, address(expr.buffer, position, extra), guards.scalar);
  }

  Value* mask = tail_mask();
  if (guards.lanes) mask = mask ? b_.CreateAnd(mask, guards.lanes) : guards.lanes;
  if (guards.scalar) mask = mask ? b_.CreateAnd(mask, splat(guards.scalar)) : splat(guards.scalar);
  if (auto* known = llvm::dyn_cast_or_null<llvm::Constant>(mask); known && known->isAllOnesValue()) mask = nullptr;

  auto* memory = llvm::FixedVectorType::get(emit_.memory_type(expr.dtype), static_cast<unsigned>(nest_.lanes));
  if (position.lane_step == 1 && !(extra && is_vector(extra))) {
    Value* pointer = address(expr.buffer, position, extra);
    Value* loaded = read(expr.buffer, memory, pointer, mask);
    return emit_.from_memory(loaded, expr.dtype);
  }

  auto* type = llvm::FixedVectorType::get(emit_.value_type(expr.dtype), static_cast<unsigned>(nest_.lanes));
  Value* result = llvm::Constant::getNullValue(type);
  for (int lane = 0; lane < nest_.lanes; ++lane) {
    if (!is_active(lane)) continue;
    Position at = position;
    at.number += lane * position.lane_step;
    const auto index = static_cast<std::uint64_t>(lane);
    Value* lane_extra = extra && is_vector(extra) ? b_.CreateExtractElement(extra, index) : extra;
    Value* holds = mask ? b_.CreateExtractElement(mask, index) : nullptr;
    Value* loaded = load_scalar(expr.buffer, address(expr.buffer, at, lane_extra), holds);
    result = b_.CreateInsertElement(result, loaded, index);
  }
  return result;
}

// One load, whose halves change places.
Value* NestRenderer::load_pair(const Expr& pair) {
  const Expr& high = nest_.exprs[static_cast<std::size_t>(pair.operands[0])];
  const Expr& low = nest_.exprs[static_cast<std::size_t>(pair.operands[1])];
  const auto plain = [](const Expr& e) { return e.kind == loops::ExprKind::load && e.guards.empty(); };
  if (!plain(high) || !plain(low) || high.buffer != low.buffer) return nullptr;
  if (!(high.index + loops::Affine(1) == low.index)) return nullptr;
  const Position position = resolve(high.index);
  if (position.lane_step != 0) return nullptr;
  Value* both = read(high.buffer, b_.getInt32Ty(), address(high.buffer, position, nullptr), nullptr);
  return b_.CreateIntrinsic(llvm::Intrinsic::fshl, {both->getType()}, {both, both, b_.getInt32(16)});
}

Value* NestRenderer::row_offset(const Expr& expr) {
  const loops::ExprId row_id = expr.operands[0];
  Value* row = value(row_id);
  const DType row_type = dtype_of(row_id);
  if (!is_integer(row_type)) unsupported(fmt::format("kernel {}: rows of {}", nest_.name, to_string(row_type)));
  if (expr.limit <= 0) return nullptr;
  row = emit_.cast(row, row_type, DType::i64);
  llvm::Type* type = row->getType();
  row = emit_.binary(loops::BinaryOp::max, DType::i64, row, llvm::ConstantInt::get(type, 0));
  row = emit_.binary(loops::BinaryOp::min, DType::i64, row,
                     llvm::ConstantInt::get(type, static_cast<std::uint64_t>(expr.limit - 1)));
  return b_.CreateMul(row, llvm::ConstantInt::get(type, static_cast<std::uint64_t>(expr.scale)));
}

Value* NestRenderer::gather(const Expr& expr) {
  Value* offset = row_offset(expr);
  return offset ? load(expr, offset) : llvm::Constant::getNullValue(emit_.value_type(expr.dtype));
}

void NestRenderer::prefetch(const schedule::Prefetch& soon) {
  const Expr& read = nest_.exprs[static_cast<std::size_t>(soon.read)];
  check_buffer(read.buffer, read.dtype, "prefetch");
  Value* offset = read.kind == loops::ExprKind::gather ? row_offset(read) : nullptr;
  if (read.kind == loops::ExprKind::gather && !offset) return;
  constexpr int kToRead = 0, kSecondCache = 2, kData = 1;
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                     {address(read.buffer, resolve(read.index), offset), b_.getInt32(kToRead),
                      b_.getInt32(kSecondCache), b_.getInt32(kData)});
}

Value* NestRenderer::lane_of(Value* value, int lane) {
  return is_vector(value) ? b_.CreateExtractElement(value, static_cast<std::uint64_t>(lane)) : value;
}

void NestRenderer::store(const Write& what) {
  const loops::Store& store = *what.store;
  check_buffer(store.buffer, dtype_of(store.value), "store");
  const Position position = resolve(store.index);
  if (what.row) {
    write_rows(what, position);
  } else {
    write_plain(what, position);
  }
}

void NestRenderer::write_plain(const Write& what, const Position& position) {
  const loops::Store& store = *what.store;
  Value* stored = emit_.to_memory(what.value, dtype_of(store.value));
  if (position.lane_step == 0 && !is_vector(stored)) {
    write(store.buffer, stored, address(store.buffer, position, nullptr), nullptr);
    return;
  }
  if (!in_vector_loop()) unsupported(fmt::format("kernel {}: a vector stored outside a vector loop", nest_.name));
  if (position.lane_step == 1) {
    write(store.buffer, splat(stored), address(store.buffer, position, nullptr), tail_mask());
    return;
  }
  for (int lane = 0; lane < active_lanes_; ++lane) {
    Position at = position;
    at.number += lane * position.lane_step;
    write(store.buffer, lane_of(stored, lane), address(store.buffer, at, nullptr), nullptr);
  }
}

// Memory at `pointer` += value, in the lanes of `mask` (null: all).
void NestRenderer::add_at(int buffer, Value* pointer, Value* value, llvm::Constant* mask) {
  const DType dtype = nest_.buffers[static_cast<std::size_t>(buffer)].dtype;
  llvm::Type* memory = emit_.memory_type(dtype);
  if (is_vector(value)) memory = llvm::FixedVectorType::get(memory, static_cast<unsigned>(nest_.lanes));
  Value* old = read(buffer, memory, pointer, mask);
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  const DType sum_type = narrow ? DType::f32 : dtype;
  Value* sum = emit_.binary(loops::BinaryOp::add, sum_type, emit_.cast(old, dtype, sum_type),
                            emit_.cast(value, dtype, sum_type));
  write(buffer, emit_.cast(sum, sum_type, dtype), pointer, mask);
}

// buffer[index + row * scale] += value for rows in range; lanes one after another where they may meet at one address.
void NestRenderer::write_rows(const Write& what, const Position& position) {
  const loops::Store& store = *what.store;
  const DType row_type = dtype_of(store.row);
  if (!is_integer(row_type)) unsupported(fmt::format("kernel {}: rows of {}", nest_.name, to_string(row_type)));
  Value* row = emit_.cast(what.row, row_type, DType::i64);
  llvm::Type* type = row->getType();
  const auto limit = static_cast<std::uint64_t>(store.limit > 0 ? store.limit : 0);
  Value* holds = b_.CreateICmpULT(row, llvm::ConstantInt::get(type, limit));
  Value* extra = b_.CreateMul(row, llvm::ConstantInt::get(type, static_cast<std::uint64_t>(store.scale)));

  auto add_if = [&](Value* condition, Value* pointer, Value* value, llvm::Constant* mask) {
    BasicBlock* inside = new_block("row");
    BasicBlock* after = new_block("after_row");
    b_.CreateCondBr(condition, inside, after);
    b_.SetInsertPoint(inside);
    add_at(store.buffer, pointer, value, mask);
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  };
  const int lanes = in_vector_loop() ? active_lanes_ : 1;
  if (in_vector_loop() && position.lane_step == 1 && !is_vector(row)) {
    add_if(holds, address(store.buffer, position, extra), splat(what.value), tail_mask());
    return;
  }
  for (int lane = 0; lane < lanes; ++lane) {
    Position at = position;
    at.number += lane * position.lane_step;
    Value* lane_extra = lane_of(extra, lane);
    add_if(lane_of(holds, lane), address(store.buffer, at, lane_extra), lane_of(what.value, lane), nullptr);
  }
}

}  // namespace wholestep::cpu
