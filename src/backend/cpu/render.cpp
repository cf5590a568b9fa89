#include "backend/cpu/render.h"

#include <fmt/format.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "backend/cpu/nest_renderer.h"

namespace wholestep::cpu {

using llvm::BasicBlock;
using llvm::Value;
using schedule::Loop;
using schedule::LoopKind;

namespace {

constexpr std::int64_t kMostWeight = 1 << 20;

}  // namespace

NestRenderer::NestRenderer(const schedule::Nest& nest, const CodeTarget& target, bool fast_math, llvm::Module& module,
                           const std::string& symbol)
    : nest_(nest), module_(module), symbol_(symbol), b_(module.getContext()), emit_(b_, target) {
  if (fast_math) {
    llvm::FastMathFlags flags;
    flags.setAllowContract(true);
    flags.setAllowReciprocal(true);
    b_.setFastMathFlags(flags);
  }
}

// The loop over tasks is around everything; addresses and stack memory are taken before it.
void NestRenderer::render() {
  analyse();
  llvm::Type* i64 = b_.getInt64Ty();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), i64, i64}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol_, module_);
  function_->setDoesNotThrow();
  Value* first = function_->getArg(1);
  Value* last = function_->getArg(2);

  BasicBlock* entry = new_block("entry");
  BasicBlock* body = new_block("task");
  b_.SetInsertPoint(entry);
  claim_buffers();
  claim_registers();
  BasicBlock* exit = new_block("exit");
  entry_end_ = b_.CreateCondBr(b_.CreateICmpSLT(first, last), body, exit);

  b_.SetInsertPoint(body);
  llvm::PHINode* task = b_.CreatePHI(i64, 2);
  task->addIncoming(first, entry);
  scopes_.emplace_back();
  clear_registers();
  decode_grid(task);
  block(nest_.body);
  Value* next = b_.CreateAdd(task, b_.getInt64(1), "", true, true);
  task->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, last), body, exit);
  b_.SetInsertPoint(exit);
  b_.CreateRetVoid();
}

// Each buffer is an alias scope of its own: that they do not overlap is what lets loads move across stores.
void NestRenderer::claim_buffers() {
  llvm::MDBuilder metadata(module_.getContext());
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain();
  std::vector<llvm::Metadata*> scopes;
  unsigned argument = 0;
  for (const loops::BufferUse& use : nest_.buffers) {
    scopes.push_back(metadata.createAnonymousAliasScope(domain));
    if (use.value >= 0) {
      Value* place = b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), argument++);
      buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), place));
      continue;
    }
    auto* memory = b_.CreateAlloca(emit_.memory_type(use.dtype), b_.getInt64(static_cast<std::uint64_t>(use.elements)));
    memory->setAlignment(llvm::Align(64));
    buffers_.push_back(memory);
  }
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    alias_scopes_.push_back(
        {llvm::MDNode::get(module_.getContext(), {scopes[i]}), llvm::MDNode::get(module_.getContext(), others)});
  }
}

void NestRenderer::claim_registers() {
  for (const schedule::AccumulatorArray& array : nest_.accumulators) {
    llvm::Type* element = emit_.value_type(array.dtype);
    if (array.lanes != schedule::Lanes::one && nest_.lanes > 1)
      element = llvm::FixedVectorType::get(element, static_cast<unsigned>(nest_.lanes));
    std::vector<llvm::AllocaInst*>& slots = registers_.emplace_back();
    for (std::int64_t slot = 0; slot < array.slots; ++slot) slots.push_back(b_.CreateAlloca(element));
  }
}

// A register that is read first has a definite value; promotion to SSA drops the rest.
void NestRenderer::clear_registers() {
  for (const auto& array : registers_) {
    for (llvm::AllocaInst* slot : array) b_.CreateStore(llvm::Constant::getNullValue(slot->getAllocatedType()), slot);
  }
}

BasicBlock* NestRenderer::new_block(const char* name) {
  return BasicBlock::Create(module_.getContext(), name, function_);
}

void NestRenderer::decode_grid(Value* task) {
  std::int64_t inner = 1;
  for (std::size_t i = nest_.grid.size(); i-- > 0;) {
    const loops::Axis& axis = nest_.grid[i];
    Binding binding;
    if (axis.extent > 1) {
      Value* index = inner > 1 ? b_.CreateUDiv(task, b_.getInt64(static_cast<std::uint64_t>(inner))) : task;
      const bool outermost = inner * axis.extent == nest_.tasks();
      binding.value = outermost ? index : b_.CreateURem(index, b_.getInt64(static_cast<std::uint64_t>(axis.extent)));
      inner *= axis.extent;
    }
    bindings_[axis.var] = binding;
  }
}

void NestRenderer::block(const schedule::Block& statements) {
  std::vector<Write> writes;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const auto& node = statements[i].node;
    if (const auto* store = std::get_if<schedule::StoreTo>(&node)) {
      const loops::Store& what = store->store;
      writes.push_back({&what, value(what.value), what.row == loops::kNoExpr ? nullptr : value(what.row)});
      const bool more = i + 1 < statements.size() && std::holds_alternative<schedule::StoreTo>(statements[i + 1].node);
      if (more) continue;
      for (const Write& pending : writes) this->store(pending);
      writes.clear();
      ++epoch_;
    } else if (const auto* inner = std::get_if<Loop>(&node)) {
      loop(*inner);
    } else if (const auto* choice = std::get_if<schedule::Branch>(&node)) {
      branch(*choice);
    } else if (const auto* soon = std::get_if<schedule::Prefetch>(&node)) {
      prefetch(*soon);
    } else {
      set_accumulator(std::get<schedule::SetAccumulator>(node));
    }
  }
}

void NestRenderer::loop(const Loop& loop) {
  if (loop.extent <= 0) return;
  switch (loop.kind) {
    case LoopKind::unroll:
      for (std::int64_t i = 0; i < loop.extent; ++i) once(loop, i, false);
      return;
    case LoopKind::serial:
      if (loop.begin != loops::kNoExpr || loop.end != loops::kNoExpr) return narrowed_loop(loop);
      counted_loop(loop, loop.extent, 1, false);
      return;
    case LoopKind::vector:
      vector_loop(loop);
      return;
  }
}

void NestRenderer::vector_loop(const Loop& loop) {
  if (nest_.lanes == 1) return counted_loop(loop, loop.extent, 1, false);
  if (in_vector_loop()) unsupported(fmt::format("kernel {}: a vector loop inside a vector loop", nest_.name));
  vector_var_ = loop.var;
  const std::int64_t lanes = nest_.lanes;
  const std::int64_t full = loop.extent / lanes * lanes;
  active_lanes_ = nest_.lanes;
  if (full > 0) counted_loop(loop, full, lanes, true);
  active_lanes_ = static_cast<int>(loop.extent - full);
  if (active_lanes_ > 0) once(loop, full, true);
  vector_var_ = -1;
  active_lanes_ = 0;
}

void NestRenderer::once(const Loop& loop, std::int64_t number, bool vector) {
  bindings_[loop.var] = {nullptr, number, vector, static_cast<int>(bindings_.size())};
  block(loop.body);
  bindings_.erase(loop.var);
}

// for (var = 0; var < end; var += step), known to run at least once.
void NestRenderer::counted_loop(const Loop& loop, std::int64_t end, std::int64_t step, bool vector) {
  if (end <= step) return once(loop, 0, vector);
  ++epoch_;
  scopes_.emplace_back();
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* body = new_block("loop");
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  counter->addIncoming(b_.getInt64(0), before);
  bindings_[loop.var] = {counter, 0, vector, static_cast<int>(bindings_.size())};
  block(loop.body);
  bindings_.erase(loop.var);
  Value* next = b_.CreateAdd(counter, b_.getInt64(static_cast<std::uint64_t>(step)), "", true, true);
  counter->addIncoming(next, b_.GetInsertBlock());
  BasicBlock* after = new_block("after");
  // Registers go to the loop that runs most: without these weights, to the one that is nested deepest.
  const std::int64_t again = std::min<std::int64_t>((end + step - 1) / step - 1, kMostWeight);
  llvm::MDNode* weights = llvm::MDBuilder(b_.getContext()).createBranchWeights(static_cast<std::uint32_t>(again), 1);
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(static_cast<std::uint64_t>(end))), body, after, weights);
  b_.SetInsertPoint(after);
  scopes_.pop_back();
  ++epoch_;
}

// for (var = max(0, begin); var < min(extent, end); ++var), which may not run at all.
void NestRenderer::narrowed_loop(const Loop& loop) {
  Value* extent = b_.getInt64(static_cast<std::uint64_t>(loop.extent));
  Value* first = b_.getInt64(0);
  Value* last = extent;
  if (loop.begin != loops::kNoExpr) first = emit_.binary(loops::BinaryOp::max, DType::i64, value(loop.begin), first);
  if (loop.end != loops::kNoExpr) last = emit_.binary(loops::BinaryOp::min, DType::i64, value(loop.end), extent);
  if (is_vector(first) || is_vector(last))
    unsupported(fmt::format("kernel {}: a loop narrowed by a vector variable", nest_.name));
  ++epoch_;
  scopes_.emplace_back();
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* body = new_block("narrowed");
  BasicBlock* after = new_block("after");
  b_.CreateCondBr(b_.CreateICmpSLT(first, last), body, after);
  b_.SetInsertPoint(body);
  llvm::PHINode* counter = b_.CreatePHI(b_.getInt64Ty(), 2);
  counter->addIncoming(first, before);
  bindings_[loop.var] = {counter, 0, false, static_cast<int>(bindings_.size())};
  block(loop.body);
  bindings_.erase(loop.var);
  Value* next = b_.CreateAdd(counter, b_.getInt64(1), "", true, true);
  counter->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, last), body, after);
  b_.SetInsertPoint(after);
  scopes_.pop_back();
  ++epoch_;
}

void NestRenderer::branch(const schedule::Branch& branch) {
  const Position position = resolve(branch.value);
  if (position.lane_step != 0) unsupported(fmt::format("kernel {}: a branch on a vector variable", nest_.name));
  if (position.terms.empty()) return block(position.number < branch.limit ? branch.then : branch.otherwise);
  Value* taken = b_.CreateICmpSLT(scalar_of(position), b_.getInt64(static_cast<std::uint64_t>(branch.limit)));
  BasicBlock* then = new_block("then");
  BasicBlock* otherwise = new_block("otherwise");
  BasicBlock* join = new_block("join");
  b_.CreateCondBr(taken, then, otherwise);
  for (const auto& [start, statements] : {std::pair(then, &branch.then), std::pair(otherwise, &branch.otherwise)}) {
    b_.SetInsertPoint(start);
    scopes_.emplace_back();
    block(*statements);
    scopes_.pop_back();
    ++epoch_;
    b_.CreateBr(join);
  }
  b_.SetInsertPoint(join);
}

void NestRenderer::set_accumulator(const schedule::SetAccumulator& set) {
  llvm::AllocaInst* target = register_at(set.array, set.slot, dtype_of(set.value));
  Value* next = value(set.value);
  if (target->getAllocatedType()->isVectorTy()) {
    next = splat(next);
    llvm::Constant* mask = tail_mask();
    if (mask && nest_.accumulators[static_cast<std::size_t>(set.array)].lanes == schedule::Lanes::together) {
      next = b_.CreateSelect(mask, next, b_.CreateLoad(target->getAllocatedType(), target));
    }
  } else if (is_vector(next)) {
    unsupported(fmt::format("kernel {}: a vector set into a scalar register", nest_.name));
  }
  b_.CreateStore(next, target);
  ++epoch_;
}

void render(const schedule::Nest& nest, const CodeTarget& target, bool fast_math, llvm::Module& module,
            const std::string& symbol) {
  NestRenderer(nest, target, fast_math, module, symbol).render();
}

}  // namespace wholestep::cpu
