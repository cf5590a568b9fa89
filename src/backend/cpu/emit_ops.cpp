#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <utility>

#include "backend/cpu/emitter.h"
#include "wholestep/error.h"

namespace wholestep::cpu {

using llvm::Type;
using llvm::Value;
using loops::BinaryOp;
using loops::UnaryOp;

void unsupported(const std::string& what) { throw Error(ErrorCode::internal, "cpu: " + what); }

Type* Emitter::value_type(DType dtype) { return dtype == DType::boolean ? b_.getInt1Ty() : memory_type(dtype); }

Type* Emitter::memory_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return b_.getDoubleTy();
    case DType::f32:
      return b_.getFloatTy();
    case DType::bf16:
    case DType::f16:
      return b_.getInt16Ty();
    case DType::i64:
      return b_.getInt64Ty();
    case DType::i32:
      return b_.getInt32Ty();
    case DType::u8:
    case DType::boolean:
      return b_.getInt8Ty();
  }
  unsupported("unknown dtype");
}

llvm::Constant* Emitter::constant(DType dtype, double real, std::int64_t integer) {
  Type* type = value_type(dtype);
  if (dtype == DType::bf16 || dtype == DType::f16) {
    llvm::APFloat value(real);
    bool inexact = false;
    value.convert(dtype == DType::bf16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                  llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantInt::get(type, value.bitcastToAPInt().getZExtValue());
  }
  if (is_float(dtype)) return llvm::ConstantFP::get(type, real);
  if (dtype == DType::boolean) return llvm::ConstantInt::get(type, integer != 0 ? 1 : 0);
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(integer), true);
}

Type* Emitter::shaped(Type* scalar, Type* like) {
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like)) {
    return llvm::FixedVectorType::get(scalar, vector->getNumElements());
  }
  return scalar;
}

Value* Emitter::intrinsic(llvm::Intrinsic::ID id, Value* x) { return b_.CreateUnaryIntrinsic(id, x); }

llvm::FunctionCallee Emitter::library_function(const std::string& name, DType dtype, std::size_t arguments) {
  const std::string symbol = fmt::format("wholestep_{}_{}", name, to_string(dtype));
  Type* scalar = value_type(dtype);
  const llvm::SmallVector<Type*, 2> types(arguments, scalar);
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  auto callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, types, false));
  auto* declaration = llvm::cast<llvm::Function>(callee.getCallee());
  declaration->setDoesNotAccessMemory();
  declaration->setDoesNotThrow();
  declaration->setWillReturn();
  return callee;
}

Value* Emitter::call_library(const std::string& name, DType dtype, std::initializer_list<Value*> args) {
  const llvm::FunctionCallee callee = library_function(name, dtype, args.size());
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>((*args.begin())->getType());
  if (!vector) return b_.CreateCall(callee, llvm::SmallVector<Value*, 2>(args));
  Value* result = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::SmallVector<Value*, 2> lane_args;
    for (Value* arg : args) lane_args.push_back(b_.CreateExtractElement(arg, lane));
    result = b_.CreateInsertElement(result, b_.CreateCall(callee, lane_args), lane);
  }
  return result;
}

// A call per lane wherever one may be needed would be most of the code of a kernel.
Value* Emitter::call_library_rarely(const std::string& name, DType dtype, Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) return call_library(name, dtype, {x});
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  Value* place = Builder(&entry, entry.begin()).CreateAlloca(vector);
  b_.CreateStore(x, place);
  b_.CreateCall(in_each_lane(library_function(name, dtype, 1), vector->getNumElements()), place);
  return b_.CreateLoad(vector, place);
}

llvm::Function* Emitter::in_each_lane(llvm::FunctionCallee callee, unsigned lanes) {
  auto* scalar = llvm::cast<llvm::Function>(callee.getCallee());
  llvm::Module* module = scalar->getParent();
  const std::string name = fmt::format("{}_in_{}_lanes", scalar->getName().str(), lanes);
  if (llvm::Function* known = module->getFunction(name)) return known;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), b_.getPtrTy(), false),
                                          llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->setDoesNotThrow();
  function->setWillReturn();
  function->setOnlyAccessesArgMemory();

  auto* entry = llvm::BasicBlock::Create(b_.getContext(), "entry", function);
  auto* loop = llvm::BasicBlock::Create(b_.getContext(), "loop", function);
  auto* end = llvm::BasicBlock::Create(b_.getContext(), "end", function);
  Builder body(entry);
  body.CreateBr(loop);
  body.SetInsertPoint(loop);
  llvm::PHINode* lane = body.CreatePHI(b_.getInt64Ty(), 2);
  Type* type = scalar->getReturnType();
  Value* place = body.CreateGEP(type, function->getArg(0), lane);
  body.CreateStore(body.CreateCall(callee, body.CreateLoad(type, place)), place);
  Value* next = body.CreateAdd(lane, b_.getInt64(1));
  lane->addIncoming(b_.getInt64(0), entry);
  lane->addIncoming(next, loop);
  body.CreateCondBr(body.CreateICmpULT(next, b_.getInt64(lanes)), loop, end);
  body.SetInsertPoint(end);
  body.CreateRetVoid();
  return function;
}

Value* Emitter::from_memory(Value* x, DType dtype) {
  return dtype == DType::boolean ? b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType())) : x;
}

Value* Emitter::to_memory(Value* x, DType dtype) {
  return dtype == DType::boolean ? b_.CreateZExt(x, shaped(b_.getInt8Ty(), x->getType())) : x;
}

Value* Emitter::unary(UnaryOp op, DType dtype, Value* x) {
  if (op == UnaryOp::logical_not && dtype == DType::boolean) return b_.CreateNot(x);
  if (dtype == DType::f32 || dtype == DType::f64) return float_unary(op, dtype, x);
  if (is_integer(dtype)) return integer_unary(op, dtype, x);
  unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
}

Value* Emitter::float_unary(UnaryOp op, DType dtype, Value* x) {
  Type* type = x->getType();
  switch (op) {
    case UnaryOp::neg:
      return b_.CreateFNeg(x);
    case UnaryOp::abs:
      return intrinsic(llvm::Intrinsic::fabs, x);
    case UnaryOp::sign: {
      Value* zero = llvm::ConstantFP::get(type, 0.0);
      Value* positive = b_.CreateSelect(b_.CreateFCmpOGT(x, zero), llvm::ConstantFP::get(type, 1.0), x);
      return b_.CreateSelect(b_.CreateFCmpOLT(x, zero), llvm::ConstantFP::get(type, -1.0), positive);
    }
    case UnaryOp::ceil:
      return intrinsic(llvm::Intrinsic::ceil, x);
    case UnaryOp::floor:
      return intrinsic(llvm::Intrinsic::floor, x);
    case UnaryOp::round:
      return intrinsic(llvm::Intrinsic::roundeven, x);
    case UnaryOp::trunc:
      return intrinsic(llvm::Intrinsic::trunc, x);
    case UnaryOp::sqrt:
      return dtype == DType::f32 ? sqrt_f32(x) : intrinsic(llvm::Intrinsic::sqrt, x);
    case UnaryOp::is_nan:
      return b_.CreateFCmpUNO(x, x);
    case UnaryOp::exp:
      if (dtype == DType::f32) return exp_f32(x);
      break;
    case UnaryOp::expm1:
      if (dtype == DType::f32) return expm1_f32(x);
      break;
    case UnaryOp::log:
      if (dtype == DType::f32) return log_f32(x);
      break;
    case UnaryOp::log1p:
      if (dtype == DType::f32) return log1p_f32(x);
      break;
    case UnaryOp::tanh:
      if (dtype == DType::f32) return tanh_f32(x);
      break;
    case UnaryOp::erf:
      if (dtype == DType::f32) return erf_f32(x);
      break;
    case UnaryOp::sin:
      if (dtype == DType::f32) return sine_f32(x, false);
      break;
    case UnaryOp::cos:
      if (dtype == DType::f32) return sine_f32(x, true);
      break;
    case UnaryOp::logical_not:
    case UnaryOp::bit_not:
      unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
    default:
      break;
  }
  return call_library(std::string(loops::to_string(op)), dtype, {x});
}

Value* Emitter::integer_unary(UnaryOp op, DType dtype, Value* x) {
  Value* zero = llvm::Constant::getNullValue(x->getType());
  switch (op) {
    case UnaryOp::neg:
      return b_.CreateNeg(x);
    case UnaryOp::abs:
      return dtype == DType::u8 ? x : b_.CreateSelect(b_.CreateICmpSLT(x, zero), b_.CreateNeg(x), x);
    case UnaryOp::sign: {
      Value* nonzero = b_.CreateZExt(b_.CreateICmpNE(x, zero), x->getType());
      if (dtype == DType::u8) return nonzero;
      return b_.CreateSelect(b_.CreateICmpSLT(x, zero), llvm::Constant::getAllOnesValue(x->getType()), nonzero);
    }
    case UnaryOp::ceil:
    case UnaryOp::floor:
    case UnaryOp::round:
    case UnaryOp::trunc:
      return x;
    case UnaryOp::bit_not:
      return b_.CreateNot(x);
    default:
      unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
  }
}

Value* Emitter::binary(BinaryOp op, DType dtype, Value* a, Value* b) {
  if (dtype == DType::f32 || dtype == DType::f64) return float_binary(op, dtype, a, b);
  if (is_integer(dtype) || dtype == DType::boolean) return integer_binary(op, dtype, a, b);
  unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
}

Value* Emitter::float_binary(BinaryOp op, DType dtype, Value* a, Value* b) {
  switch (op) {
    case BinaryOp::add:
      return b_.CreateFAdd(a, b);
    case BinaryOp::sub:
      return b_.CreateFSub(a, b);
    case BinaryOp::mul:
      return b_.CreateFMul(a, b);
    case BinaryOp::div:
      return b_.CreateFDiv(a, b);
    // The inner select is one x86 max or min, which gives `b` where either is NaN; left to do is NaN in `a`. A constant
    // for it keeps LLVM from joining the two selects into something longer.
    case BinaryOp::max:
      return b_.CreateSelect(b_.CreateFCmpUNO(a, a), llvm::ConstantFP::getNaN(a->getType()),
                             b_.CreateSelect(b_.CreateFCmpOGT(a, b), a, b));
    case BinaryOp::min:
      return b_.CreateSelect(b_.CreateFCmpUNO(a, a), llvm::ConstantFP::getNaN(a->getType()),
                             b_.CreateSelect(b_.CreateFCmpOLT(a, b), a, b));
    case BinaryOp::eq:
      return b_.CreateFCmpOEQ(a, b);
    case BinaryOp::ne:
      return b_.CreateFCmpUNE(a, b);
    case BinaryOp::lt:
      return b_.CreateFCmpOLT(a, b);
    case BinaryOp::le:
      return b_.CreateFCmpOLE(a, b);
    case BinaryOp::gt:
      return b_.CreateFCmpOGT(a, b);
    case BinaryOp::ge:
      return b_.CreateFCmpOGE(a, b);
    case BinaryOp::rem:
    case BinaryOp::pow:
    case BinaryOp::atan2:
      return call_library(std::string(loops::to_string(op)), dtype, {a, b});
    default:
      unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
  }
}

Value* Emitter::integer_binary(BinaryOp op, DType dtype, Value* a, Value* b) {
  const bool is_signed = dtype == DType::i64 || dtype == DType::i32;
  switch (op) {
    case BinaryOp::eq:
      return b_.CreateICmpEQ(a, b);
    case BinaryOp::ne:
      return b_.CreateICmpNE(a, b);
    case BinaryOp::lt:
      return is_signed ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case BinaryOp::le:
      return is_signed ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case BinaryOp::gt:
      return is_signed ? b_.CreateICmpSGT(a, b) : b_.CreateICmpUGT(a, b);
    case BinaryOp::ge:
      return is_signed ? b_.CreateICmpSGE(a, b) : b_.CreateICmpUGE(a, b);
    case BinaryOp::max:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case BinaryOp::min:
      return b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case BinaryOp::bit_and:
      return b_.CreateAnd(a, b);
    case BinaryOp::bit_or:
      return b_.CreateOr(a, b);
    case BinaryOp::bit_xor:
      return b_.CreateXor(a, b);
    default:
      break;
  }
  if (dtype == DType::boolean) {
    switch (op) {
      case BinaryOp::logical_and:
        return b_.CreateAnd(a, b);
      case BinaryOp::logical_or:
        return b_.CreateOr(a, b);
      case BinaryOp::logical_xor:
        return b_.CreateXor(a, b);
      default:
        break;
    }
  } else {
    switch (op) {
      case BinaryOp::add:
        return b_.CreateAdd(a, b);
      case BinaryOp::sub:
        return b_.CreateSub(a, b);
      case BinaryOp::mul:
        return b_.CreateMul(a, b);
      case BinaryOp::div:
        return divide_integers(false, dtype, a, b);
      case BinaryOp::rem:
        return divide_integers(true, dtype, a, b);
      case BinaryOp::shift_left:
      case BinaryOp::shift_right:
        return shift(op, dtype, a, b);
      default:
        break;
    }
  }
  unsupported(fmt::format("no {} of {}", loops::to_string(op), to_string(dtype)));
}

// x / 0 = -1, x % 0 = x, min / -1 = min, min % -1 = 0; the machine's division traps on both.
Value* Emitter::divide_integers(bool remainder, DType dtype, Value* a, Value* b) {
  Type* type = a->getType();
  Value* zero = llvm::Constant::getNullValue(type);
  Value* one = llvm::ConstantInt::get(type, 1);
  Value* minus_one = llvm::Constant::getAllOnesValue(type);
  Value* by_zero = b_.CreateICmpEQ(b, zero);
  Value* traps = by_zero;
  if (dtype != DType::u8) {
    const unsigned bits = type->getScalarSizeInBits();
    Value* lowest = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
    traps = b_.CreateOr(traps, b_.CreateAnd(b_.CreateICmpEQ(a, lowest), b_.CreateICmpEQ(b, minus_one)));
  }
  Value* divisor = b_.CreateSelect(traps, one, b);
  Value* result = nullptr;
  if (dtype == DType::u8) {
    result = remainder ? b_.CreateURem(a, divisor) : b_.CreateUDiv(a, divisor);
  } else {
    result = remainder ? b_.CreateSRem(a, divisor) : b_.CreateSDiv(a, divisor);
  }
  return b_.CreateSelect(by_zero, remainder ? a : minus_one, result);
}

Value* Emitter::shift(BinaryOp op, DType dtype, Value* a, Value* b) {
  Type* type = a->getType();
  const unsigned bits = type->getScalarSizeInBits();
  Value* in_range = b_.CreateICmpULT(b, llvm::ConstantInt::get(type, bits));
  Value* zero = llvm::Constant::getNullValue(type);
  if (op == BinaryOp::shift_right && dtype != DType::u8) {
    return b_.CreateAShr(a, b_.CreateSelect(in_range, b, llvm::ConstantInt::get(type, bits - 1)));
  }
  Value* count = b_.CreateSelect(in_range, b, zero);
  Value* shifted = op == BinaryOp::shift_left ? b_.CreateShl(a, count) : b_.CreateLShr(a, count);
  return b_.CreateSelect(in_range, shifted, zero);
}

Value* Emitter::fma(DType dtype, Value* a, Value* b, Value* c) {
  if (is_float(dtype) && target_.schedule.has_fma) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
  }
  return binary(BinaryOp::add, dtype, binary(BinaryOp::mul, dtype, a, b), c);
}

Value* Emitter::pair(Value* high, Value* low) {
  Type* i32 = shaped(b_.getInt32Ty(), high->getType());
  return b_.CreateOr(b_.CreateShl(b_.CreateZExt(high, i32), 16), b_.CreateZExt(low, i32));
}

// The instruction takes 16 pairs, and multiplies the high halves first, with one rounding for each of the two steps.
Value* Emitter::dot_pairs(Value* a, Value* b, Value* c) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(c->getType());
  if (target_.schedule.multiplies_pairs && vector && vector->getNumElements() == 16) {
    Type* halves = llvm::FixedVectorType::get(b_.getBFloatTy(), 32);
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                              {c, b_.CreateBitCast(a, halves), b_.CreateBitCast(b, halves)});
  }
  const auto high = [&](Value* x) { return b_.CreateBitCast(b_.CreateAnd(x, 0xffff0000U), c->getType()); };
  const auto low = [&](Value* x) { return b_.CreateBitCast(b_.CreateShl(x, 16), c->getType()); };
  return fma(DType::f32, low(a), low(b), fma(DType::f32, high(a), high(b), c));
}

}  // namespace wholestep::cpu
