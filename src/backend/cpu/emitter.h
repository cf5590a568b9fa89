#pragma once
// Scalar operations as LLVM IR. Every function takes scalars or vectors and gives the same bits for both.
//
// Values of bf16 and f16 are their bits (i16), booleans are i1; in memory a boolean is a byte.
#include <llvm/IR/IRBuilder.h>

#include <initializer_list>
#include <string>

#include "backend/cpu/target.h"
#include "expr/scalar.h"
#include "wholestep/types.h"

namespace wholestep::cpu {

class Emitter {
 public:
  using Builder = llvm::IRBuilder<>;
  Emitter(Builder& builder, const CodeTarget& target) : b_(builder), target_(target) {}

  /// Type of one value, and of one element in memory.
  llvm::Type* value_type(DType dtype);
  llvm::Type* memory_type(DType dtype);
  /// `real` for floats, `integer` for others.
  llvm::Constant* constant(DType dtype, double real, std::int64_t integer);

  llvm::Value* unary(loops::UnaryOp op, DType dtype, llvm::Value* x);
  llvm::Value* binary(loops::BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* fma(DType dtype, llvm::Value* a, llvm::Value* b, llvm::Value* c);
  /// Two bf16 as one i32.
  llvm::Value* pair(llvm::Value* high, llvm::Value* low);
  /// c + the products of the halves of two pairs, high ones first.
  llvm::Value* dot_pairs(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* cast(llvm::Value* x, DType from, DType to);
  llvm::Value* bitcast(llvm::Value* x, DType from, DType to);
  /// From and to what is stored.
  llvm::Value* from_memory(llvm::Value* x, DType dtype);
  llvm::Value* to_memory(llvm::Value* x, DType dtype);

 private:
  /// `scalar`, or a vector of it where `like` is a vector.
  llvm::Type* shaped(llvm::Type* scalar, llvm::Type* like);
  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::Value* x);
  /// Calls a scalar function once per lane: a vector loop then rounds as a scalar one.
  llvm::Value* call_library(const std::string& name, DType dtype, std::initializer_list<llvm::Value*> args);
  /// The same in little code, through memory: for arguments that hardly ever come.
  llvm::Value* call_library_rarely(const std::string& name, DType dtype, llvm::Value* x);
  llvm::FunctionCallee library_function(const std::string& name, DType dtype, std::size_t arguments);
  /// A function of the module that replaces each of so many values at an address with what `callee` gives for it.
  llvm::Function* in_each_lane(llvm::FunctionCallee callee, unsigned lanes);

  llvm::Value* float_unary(loops::UnaryOp op, DType dtype, llvm::Value* x);
  llvm::Value* integer_unary(loops::UnaryOp op, DType dtype, llvm::Value* x);
  llvm::Value* float_binary(loops::BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_binary(loops::BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* divide_integers(bool remainder, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* shift(loops::BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);

  llvm::Value* float_to_int(llvm::Value* x, DType to);
  llvm::Value* f32_to_bf16(llvm::Value* x);
  llvm::Value* bf16_to_f32(llvm::Value* x);
  llvm::Value* f32_to_f16(llvm::Value* x);
  llvm::Value* f16_to_f32(llvm::Value* x);
  llvm::Value* f64_to_f32_odd(llvm::Value* x);

  llvm::Value* mul_add(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  /// `result` where `usual` (a scalar boolean) holds, else what `make` appends, in a block of its own.
  template <class Make>
  llvm::Value* unless(llvm::Value* usual, llvm::Value* result, Make make);
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> coefficients);
  llvm::Value* power_of_two(llvm::Value* exponent, llvm::Type* type);
  struct ExpReduction;
  ExpReduction reduce_exp(llvm::Value* x);
  struct LogReduction;
  LogReduction reduce_log(llvm::Value* x);
  llvm::Value* log_of_reduced(llvm::Value* f, llvm::Value* exponent);
  llvm::Value* log_special(llvm::Value* x, llvm::Value* limit, llvm::Value* result);
  llvm::Value* sqrt_f32(llvm::Value* x);
  llvm::Value* exp_f32(llvm::Value* x);
  llvm::Value* expm1_f32(llvm::Value* x);
  llvm::Value* log_f32(llvm::Value* x);
  llvm::Value* log1p_f32(llvm::Value* x);
  llvm::Value* tanh_f32(llvm::Value* x);
  llvm::Value* erf_f32(llvm::Value* x);
  llvm::Value* sine_f32(llvm::Value* x, bool cosine);

  Builder& b_;
  const CodeTarget& target_;
};

[[noreturn]] void unsupported(const std::string& what);

}  // namespace wholestep::cpu
