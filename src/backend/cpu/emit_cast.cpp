// Conversions between element types. Those of bf16 and f16 are integer arithmetic where the processor has no
// instruction for them.
#include <fmt/format.h>
#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/emitter.h"

namespace wholestep::cpu {

using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

Value* Emitter::cast(Value* x, DType from, DType to) {
  if (from == to) return x;
  if (from == DType::bf16) return cast(bf16_to_f32(x), DType::f32, to);
  if (from == DType::f16) return cast(f16_to_f32(x), DType::f32, to);
  Type* type = shaped(value_type(to), x->getType());
  if (to == DType::bf16 || to == DType::f16) {
    // Rounding to f32 first must not round twice: integers go through f64, and f64 through f32 rounded to odd.
    Value* single = x;
    if (from == DType::i64 || from == DType::i32) single = f64_to_f32_odd(cast(x, from, DType::f64));
    if (from == DType::f64) single = f64_to_f32_odd(x);
    if (from == DType::u8 || from == DType::boolean) single = cast(x, from, DType::f32);
    return to == DType::bf16 ? f32_to_bf16(single) : f32_to_f16(single);
  }
  if (is_float(from)) {
    if (to == DType::boolean) return b_.CreateFCmpUNE(x, llvm::ConstantFP::get(x->getType(), 0.0));
    if (is_float(to)) return b_.CreateFPCast(x, type);
    return float_to_int(x, to);
  }
  if (to == DType::boolean) return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  const bool is_signed = from == DType::i64 || from == DType::i32;
  if (is_float(to)) return is_signed ? b_.CreateSIToFP(x, type) : b_.CreateUIToFP(x, type);
  return b_.CreateIntCast(x, type, is_signed);
}

Value* Emitter::bitcast(Value* x, DType from, DType to) {
  const bool known = (from == DType::f32 && to == DType::i32) || (from == DType::i32 && to == DType::f32) ||
                     (from == DType::f64 && to == DType::i64) || (from == DType::i64 && to == DType::f64);
  if (!known) unsupported(fmt::format("no bitcast from {} to {}", to_string(from), to_string(to)));
  return b_.CreateBitCast(x, shaped(value_type(to), x->getType()));
}

Value* Emitter::float_to_int(Value* x, DType to) {
  Type* type = shaped(value_type(to), x->getType());
  const auto id = to == DType::u8 ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
  return b_.CreateIntrinsic(id, {type, x->getType()}, {x});
}

Value* Emitter::f32_to_bf16(Value* x) {
  Type* i32 = shaped(b_.getInt32Ty(), x->getType());
  Type* i16 = shaped(b_.getInt16Ty(), x->getType());
  Value* bits = b_.CreateBitCast(x, i32);
  Value* high = b_.CreateLShr(bits, 16);
  Value* odd = b_.CreateAnd(high, 1);
  Value* rounded = b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, ConstantInt::get(i32, 0x7fff))), 16);
  Value* quiet = b_.CreateOr(high, 0x40);
  return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(x, x), quiet, rounded), i16);
}

Value* Emitter::bf16_to_f32(Value* x) {
  Type* i32 = shaped(b_.getInt32Ty(), x->getType());
  return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, i32), 16), shaped(b_.getFloatTy(), x->getType()));
}

Value* Emitter::f32_to_f16(Value* x) {
  Type* i16 = shaped(b_.getInt16Ty(), x->getType());
  if (target_.has_f16c) return b_.CreateBitCast(b_.CreateFPTrunc(x, shaped(b_.getHalfTy(), x->getType())), i16);
  Type* i32 = shaped(b_.getInt32Ty(), x->getType());
  auto word = [&](std::uint32_t value) { return ConstantInt::get(i32, value); };
  Value* bits = b_.CreateBitCast(x, i32);
  Value* sign = b_.CreateAnd(b_.CreateLShr(bits, 16), 0x8000);
  Value* magnitude = b_.CreateAnd(bits, 0x7fffffff);
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, 13), 1);
  Value* rebased = b_.CreateAdd(b_.CreateSub(magnitude, word(0x38000000)), b_.CreateAdd(odd, word(0xfff)));
  Value* normal = b_.CreateLShr(rebased, 13);
  // The unit of 0.5f is the smallest f16 subnormal: the addition rounds as needed.
  Value* half = b_.CreateFAdd(b_.CreateBitCast(magnitude, x->getType()), llvm::ConstantFP::get(x->getType(), 0.5));
  Value* subnormal = b_.CreateSub(b_.CreateBitCast(half, i32), word(0x3f000000));
  Value* nan = b_.CreateOr(b_.CreateAnd(b_.CreateLShr(magnitude, 13), 0x3ff), 0x7e00);
  Value* result = b_.CreateSelect(b_.CreateICmpULT(magnitude, word(0x38800000)), subnormal, normal);
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, word(0x47800000)), word(0x7c00), result);
  result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, word(0x7f800000)), nan, result);
  return b_.CreateTrunc(b_.CreateOr(result, sign), i16);
}

Value* Emitter::f16_to_f32(Value* x) {
  Type* f32 = shaped(b_.getFloatTy(), x->getType());
  if (target_.has_f16c) {
    // Without the fence LLVM would do in f16 what it finds between this and the conversion back.
    Value* wide = b_.CreateFPExt(b_.CreateBitCast(x, shaped(b_.getHalfTy(), x->getType())), f32);
    return b_.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {f32}, {wide});
  }
  Type* i32 = shaped(b_.getInt32Ty(), x->getType());
  auto word = [&](std::uint32_t value) { return ConstantInt::get(i32, value); };
  Value* bits = b_.CreateZExt(x, i32);
  Value* sign = b_.CreateShl(b_.CreateAnd(bits, 0x8000), 16);
  Value* magnitude = b_.CreateAnd(bits, 0x7fff);
  Value* wide = b_.CreateShl(magnitude, 13);
  Value* normal = b_.CreateAdd(wide, word(0x38000000));
  Value* scaled = b_.CreateFMul(b_.CreateUIToFP(magnitude, f32), llvm::ConstantFP::get(f32, 0x1p-24));
  Value* result = b_.CreateSelect(b_.CreateICmpULT(magnitude, word(0x400)), b_.CreateBitCast(scaled, i32), normal);
  result = b_.CreateSelect(b_.CreateICmpUGE(magnitude, word(0x7c00)), b_.CreateOr(wide, word(0x7f800000)), result);
  // As the processor's own conversion does: a signalling NaN becomes quiet.
  result = b_.CreateSelect(b_.CreateICmpUGT(magnitude, word(0x7c00)), b_.CreateOr(result, word(0x00400000)), result);
  return b_.CreateBitCast(b_.CreateOr(result, sign), f32);
}

// Of the two f32 neighbours of an f64, the one whose last bit is set: rounding that once more is rounding once.
Value* Emitter::f64_to_f32_odd(Value* x) {
  Type* f32 = shaped(b_.getFloatTy(), x->getType());
  Type* i32 = shaped(b_.getInt32Ty(), x->getType());
  Value* nearest = b_.CreateFPTrunc(x, f32);
  Value* back = b_.CreateFPExt(nearest, x->getType());
  Value* bits = b_.CreateBitCast(nearest, i32);
  Value* inexact = b_.CreateFCmpONE(back, x);
  Value* even = b_.CreateICmpEQ(b_.CreateAnd(bits, 1), llvm::Constant::getNullValue(i32));
  Value* too_far = b_.CreateFCmpOGT(intrinsic(llvm::Intrinsic::fabs, back), intrinsic(llvm::Intrinsic::fabs, x));
  Value* step = b_.CreateSelect(too_far, llvm::Constant::getAllOnesValue(i32), ConstantInt::get(i32, 1));
  Value* moved = b_.CreateSelect(b_.CreateAnd(inexact, even), b_.CreateAdd(bits, step), bits);
  return b_.CreateBitCast(moved, f32);
}

}  // namespace wholestep::cpu
