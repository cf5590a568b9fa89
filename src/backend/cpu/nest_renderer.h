#pragma once
// The state of rendering one nest. Statements are in render.cpp, expressions in render_expr.cpp, memory in
// render_memory.cpp.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/emitter.h"
#include "schedule/nest.h"

namespace wholestep::cpu {

class NestRenderer {
 public:
  NestRenderer(const schedule::Nest& nest, const CodeTarget& target, bool fast_math, llvm::Module& module,
               const std::string& symbol);
  void render();

 private:
  /// What a loop variable is at this point: a number, or a value; in a vector loop that of lane 0.
  struct Binding {
    llvm::Value* value = nullptr;  // null: `number`
    std::int64_t number = 0;
    bool vector = false;
    int depth = 0;  // of nesting
  };

  /// An affine with its variables resolved: number + sum of value * factor (+ lane * lane_step).
  struct Position {
    std::int64_t number = 0;
    std::vector<std::pair<llvm::Value*, std::int64_t>> terms;  // outermost first
    std::int64_t lane_step = 0;
  };

  /// A conjunction: a scalar part and a part per lane; null is true.
  struct Condition {
    llvm::Value* scalar = nullptr;
    llvm::Value* lanes = nullptr;
  };

  /// Values known in a stretch of code that dominates what follows it. The epoch guards those that a store or an
  /// accumulator may have changed since.
  using Key = std::vector<std::int64_t>;
  struct Known {
    llvm::Value* value;
    std::int64_t epoch;
  };
  using Scope = std::map<Key, Known>;

  // Statements.
  void block(const schedule::Block& statements);
  void loop(const schedule::Loop& loop);
  void counted_loop(const schedule::Loop& loop, std::int64_t end, std::int64_t step, bool vector);
  void narrowed_loop(const schedule::Loop& loop);
  void once(const schedule::Loop& loop, std::int64_t number, bool vector);
  void vector_loop(const schedule::Loop& loop);
  void branch(const schedule::Branch& branch);
  void set_accumulator(const schedule::SetAccumulator& set);
  void decode_grid(llvm::Value* task);
  void claim_buffers();
  void claim_registers();
  void clear_registers();
  llvm::BasicBlock* new_block(const char* name);

  // Expressions.
  void analyse();
  llvm::Value* value(loops::ExprId id);
  llvm::Value* compute(const loops::Expr& expr);
  llvm::Value* horizontal(const loops::Expr& expr);
  std::pair<llvm::Value*, llvm::Value*> match(llvm::Value* a, llvm::Value* b);
  llvm::Value* splat(llvm::Value* x);
  bool is_vector(const llvm::Value* x) const { return x->getType()->isVectorTy(); }
  Key key_of(loops::ExprId id) const;
  Position resolve(const loops::Affine& affine) const;
  llvm::Value* scalar_of(const Position& position);
  llvm::Value* index_value(const Position& position);
  Condition condition(const std::vector<loops::Guard>& guards);
  /// The register as its stack slot, which promotion to SSA removes.
  llvm::AllocaInst* register_at(int array, const loops::Affine& slot, DType dtype) const;
  DType dtype_of(loops::ExprId id) const;

  // Memory.
  llvm::Value* address(int buffer, const Position& position, llvm::Value* extra);
  llvm::Value* load(const loops::Expr& expr, llvm::Value* extra);
  /// A pair of neighbours in memory, where it is one; else null.
  llvm::Value* load_pair(const loops::Expr& pair);
  llvm::Value* load_scalar(int buffer, llvm::Value* pointer, llvm::Value* condition);
  /// Reads or writes `type` in the lanes of `mask` (null: all); lanes that are not read are zero.
  llvm::Value* read(int buffer, llvm::Type* type, llvm::Value* pointer, llvm::Value* mask);
  void write(int buffer, llvm::Value* value, llvm::Value* pointer, llvm::Value* mask);
  llvm::Value* tagged(int buffer, llvm::Instruction* access);
  llvm::Value* gather(const loops::Expr& expr);
  /// Elements from the start of the table to the row of a gather, kept inside of it; null for a table without rows.
  llvm::Value* row_offset(const loops::Expr& expr);
  void prefetch(const schedule::Prefetch& soon);
  struct Write {
    const loops::Store* store;
    llvm::Value* value;
    llvm::Value* row;
  };
  void store(const Write& what);
  void write_plain(const Write& what, const Position& position);
  void write_rows(const Write& what, const Position& position);
  void add_at(int buffer, llvm::Value* pointer, llvm::Value* value, llvm::Constant* mask);
  llvm::Value* lane_of(llvm::Value* value, int lane);
  void check_buffer(int buffer, DType dtype, const char* what) const;

  bool in_vector_loop() const { return vector_var_ >= 0; }
  /// Lanes that run: fewer than all in the last iteration of a vector loop.
  bool is_active(int lane) const { return lane < active_lanes_; }
  llvm::Constant* tail_mask() const;

  const schedule::Nest& nest_;
  llvm::Module& module_;
  std::string symbol_;
  llvm::IRBuilder<> b_;
  Emitter emit_;

  std::vector<std::vector<loops::Var>> variables_;  // of each expression, with its operands'; sorted
  std::vector<bool> mutable_;                       // may change while its variables do not

  llvm::Function* function_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr;  // stack memory is claimed before it
  std::vector<llvm::Value*> buffers_;
  struct AliasScope {
    llvm::MDNode* own;
    llvm::MDNode* others;
  };
  std::vector<AliasScope> alias_scopes_;  // of each buffer
  std::vector<std::vector<llvm::AllocaInst*>> registers_;
  llvm::Value* nowhere_ = nullptr;  // readable zeros for a load whose guard fails
  std::map<loops::Var, Binding> bindings_;
  std::vector<Scope> scopes_;
  std::int64_t epoch_ = 0;
  loops::Var vector_var_ = -1;
  int active_lanes_ = 0;
};

}  // namespace wholestep::cpu
