// exp, log and relatives in f32, from the operations that vectors have. Each is within 2 units in the last place; the
// tests say how far. The coefficients interpolate the functions at Chebyshev nodes of the reduced range.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <limits>

#include "backend/cpu/emitter.h"

namespace wholestep::cpu {

using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::Type;
using llvm::Value;

namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 = high + low; high has 9 bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.12194440054690583e-4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
constexpr double kRounder = 12582912.0;
constexpr std::uint32_t kRounderBits = 0x4b400000;
// Bits of sqrt(1/2): mantissas are taken from there to sqrt(2).
constexpr std::uint32_t kSqrtHalfBits = 0x3f3504f3;

}  // namespace

// x = exponent * ln 2 + remainder, |remainder| <= ln 2 / 2.
struct Emitter::ExpReduction {
  Value* exponent;  // i32
  Value* remainder;
};

// x = 2^exponent * (1 + fraction), 1 + fraction in [sqrt(1/2), sqrt(2)).
struct Emitter::LogReduction {
  Value* exponent;  // i32
  Value* fraction;
};

Value* Emitter::mul_add(Value* a, Value* b, Value* c) { return fma(DType::f32, a, b, c); }

template <class Make>
Value* Emitter::unless(Value* usual, Value* result, Make make) {
  llvm::Function* function = b_.GetInsertBlock()->getParent();
  auto* slow = llvm::BasicBlock::Create(b_.getContext(), "unusual", function);
  auto* after = llvm::BasicBlock::Create(b_.getContext(), "after_unusual", function);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(usual, after, slow);
  b_.SetInsertPoint(slow);
  Value* other = make();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* either = b_.CreatePHI(result->getType(), 2);
  either->addIncoming(result, before);
  either->addIncoming(other, slow);
  return either;
}

Value* Emitter::polynomial(Value* x, std::initializer_list<double> coefficients) {
  Type* type = x->getType();
  auto next = std::rbegin(coefficients);
  Value* sum = ConstantFP::get(type, *next);
  while (++next != std::rend(coefficients)) sum = mul_add(sum, x, ConstantFP::get(type, *next));
  return sum;
}

Value* Emitter::power_of_two(Value* exponent, Type* type) {
  Value* biased = b_.CreateAdd(exponent, ConstantInt::get(exponent->getType(), 127));
  return b_.CreateBitCast(b_.CreateShl(biased, 23), type);
}

Emitter::ExpReduction Emitter::reduce_exp(Value* x) {
  Type* type = x->getType();
  Type* i32 = shaped(b_.getInt32Ty(), type);
  Value* shifted = mul_add(x, ConstantFP::get(type, kLog2E), ConstantFP::get(type, kRounder));
  Value* count = b_.CreateFSub(shifted, ConstantFP::get(type, kRounder));
  Value* remainder = mul_add(count, ConstantFP::get(type, -kLn2High), x);
  remainder = mul_add(count, ConstantFP::get(type, -kLn2Low), remainder);
  Value* exponent = b_.CreateSub(b_.CreateBitCast(shifted, i32), ConstantInt::get(i32, kRounderBits));
  return {exponent, remainder};
}

// Correctly rounded, as the processor's own square root is, but by multiply-adds (Goldschmidt's iteration on a 14-bit
// estimate, then the residual): the divider, which takes 12 cycles for a vector, is left to divisions. Zeros pass;
// lanes whose residual could underflow, infinities, NaNs and negative numbers send the vector to the processor's
// instruction.
Value* Emitter::sqrt_f32(Value* x) {
  constexpr unsigned kLanes = 16;
  constexpr std::uint32_t kSmallestBits = 0x12800000;  // 2^-90
  constexpr std::uint32_t kInfinityBits = 0x7f800000;
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (target_.isa != Isa::avx512 || !vector || vector->getNumElements() != kLanes)
    return intrinsic(llvm::Intrinsic::sqrt, x);
  Type* type = x->getType();
  Type* i32 = shaped(b_.getInt32Ty(), type);
  Value* zero = ConstantFP::get(type, 0.0);
  Value* half = ConstantFP::get(type, 0.5);
  Value* bits = b_.CreateBitCast(x, i32);
  Value* nonzero = b_.CreateICmpNE(bits, llvm::Constant::getNullValue(i32));
  Value* from_smallest = b_.CreateSub(bits, ConstantInt::get(i32, kSmallestBits));
  Value* unusual = b_.CreateICmpUGE(from_smallest, ConstantInt::get(i32, kInfinityBits - kSmallestBits));
  Value* all_usual = b_.CreateNot(b_.CreateOrReduce(b_.CreateAnd(nonzero, unusual)));

  // An estimate of zero keeps a zero.
  Value* estimate = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_rsqrt14_ps_512, {},
                                       {x, zero, b_.CreateBitCast(nonzero, b_.getInt16Ty())});
  Value* root = b_.CreateFMul(x, estimate);
  Value* half_inverse = b_.CreateFMul(estimate, half);
  Value* error = mul_add(b_.CreateFNeg(root), half_inverse, half);
  root = mul_add(root, error, root);
  half_inverse = mul_add(half_inverse, error, half_inverse);
  Value* residual = mul_add(b_.CreateFNeg(root), root, x);
  Value* result = mul_add(residual, half_inverse, root);
  return unless(all_usual, result, [&] { return intrinsic(llvm::Intrinsic::sqrt, x); });
}

Value* Emitter::exp_f32(Value* x) {
  Type* type = x->getType();
  // Beyond these the result is infinity or zero; NaN passes both comparisons unchanged.
  Value* high = ConstantFP::get(type, 89.0);
  Value* low = ConstantFP::get(type, -104.0);
  x = b_.CreateSelect(b_.CreateFCmpOLT(high, x), high, x);
  x = b_.CreateSelect(b_.CreateFCmpOGT(low, x), low, x);
  const ExpReduction reduced = reduce_exp(x);
  Value* r = reduced.remainder;
  Value* q = polynomial(r, {5.000000000e-01, 1.666657776e-01, 4.166655615e-02, 8.363174275e-03, 1.392617705e-03});
  Value* p = b_.CreateFAdd(mul_add(q, b_.CreateFMul(r, r), r), ConstantFP::get(type, 1.0));
  // In two factors, since neither infinity's nor a subnormal's scale is a number.
  Value* half = b_.CreateAShr(reduced.exponent, 1);
  Value* rest = b_.CreateSub(reduced.exponent, half);
  return b_.CreateFMul(b_.CreateFMul(p, power_of_two(half, type)), power_of_two(rest, type));
}

Value* Emitter::expm1_f32(Value* x) {
  Type* type = x->getType();
  Value* high = ConstantFP::get(type, 89.0);
  Value* low = ConstantFP::get(type, -18.0);
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOLT(high, x), high, x);
  clamped = b_.CreateSelect(b_.CreateFCmpOGT(low, clamped), low, clamped);
  const ExpReduction reduced = reduce_exp(clamped);
  Value* r = reduced.remainder;
  Value* q = polynomial(
      r, {5.000000000e-01, 1.666666716e-01, 4.166646674e-02, 8.333310485e-03, 1.393364277e-03, 1.989098237e-04});
  Value* p = mul_add(q, b_.CreateFMul(r, r), r);
  // 2^n * p + (2^n - 1), halved so that 2^128 does not overflow before its time.
  Value* scale = power_of_two(b_.CreateSub(reduced.exponent, ConstantInt::get(reduced.exponent->getType(), 1)), type);
  Value* halved = mul_add(p, scale, b_.CreateFSub(scale, ConstantFP::get(type, 0.5)));
  Value* result = b_.CreateFMul(halved, ConstantFP::get(type, 2.0));
  Value* tiny = b_.CreateFCmpOLT(intrinsic(llvm::Intrinsic::fabs, x), ConstantFP::get(type, 0x1p-25));
  return b_.CreateSelect(tiny, x, result);
}

Emitter::LogReduction Emitter::reduce_log(Value* x) {
  Type* type = x->getType();
  Type* i32 = shaped(b_.getInt32Ty(), type);
  Value* smallest = ConstantFP::get(type, 0x1p-126);
  Value* subnormal = b_.CreateFCmpOLT(x, smallest);
  Value* scaled = b_.CreateSelect(subnormal, b_.CreateFMul(x, ConstantFP::get(type, 0x1p23)), x);
  Value* offset = b_.CreateSelect(subnormal, ConstantInt::get(i32, -23, true), ConstantInt::get(i32, 0));
  Value* bits = b_.CreateSub(b_.CreateBitCast(scaled, i32), ConstantInt::get(i32, kSqrtHalfBits));
  Value* exponent = b_.CreateAdd(b_.CreateAShr(bits, 23), offset);
  Value* mantissa =
      b_.CreateAdd(b_.CreateAnd(bits, ConstantInt::get(i32, 0x7fffff)), ConstantInt::get(i32, kSqrtHalfBits));
  return {exponent, b_.CreateFSub(b_.CreateBitCast(mantissa, type), ConstantFP::get(type, 1.0))};
}

// exponent * ln 2 + log(1 + f).
Value* Emitter::log_of_reduced(Value* f, Value* exponent) {
  Type* type = f->getType();
  Value* q = polynomial(f, {3.333333135e-01, -2.499999702e-01, 2.000071555e-01, -1.666780263e-01, 1.424905807e-01,
                            -1.242568716e-01, 1.168541983e-01, -1.147973388e-01, 6.971611828e-02});
  Value* square = b_.CreateFMul(f, f);
  Value* e = b_.CreateSIToFP(exponent, type);
  Value* tail = mul_add(e, ConstantFP::get(type, kLn2Low), b_.CreateFMul(b_.CreateFMul(q, f), square));
  tail = mul_add(square, ConstantFP::get(type, -0.5), tail);
  return mul_add(e, ConstantFP::get(type, kLn2High), b_.CreateFAdd(f, tail));
}

// `result` where limit < x < infinity; -infinity at the limit, NaN below it, x itself for infinity and NaN.
Value* Emitter::log_special(Value* x, Value* limit, Value* result) {
  Type* type = x->getType();
  Value* infinity = ConstantFP::get(type, kInfinity);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, infinity), result, x);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, limit), ConstantFP::get(type, -kInfinity), result);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, limit), ConstantFP::getNaN(type), result);
}

Value* Emitter::log_f32(Value* x) {
  const LogReduction reduced = reduce_log(x);
  return log_special(x, ConstantFP::get(x->getType(), 0.0), log_of_reduced(reduced.fraction, reduced.exponent));
}

// The rounding error of 1 + x, scaled like the mantissa, is added to the fraction.
Value* Emitter::log1p_f32(Value* x) {
  Type* type = x->getType();
  Value* one = ConstantFP::get(type, 1.0);
  Value* sum = b_.CreateFAdd(x, one);
  const LogReduction reduced = reduce_log(sum);
  Value* error_of_small = b_.CreateFSub(x, b_.CreateFSub(sum, one));
  Value* error_of_large = b_.CreateFSub(one, b_.CreateFSub(sum, x));
  Value* error = b_.CreateSelect(b_.CreateFCmpOGT(x, one), error_of_large, error_of_small);
  // Exponents above 100 have no error to scale, and no number for their scale.
  Value* zero = llvm::Constant::getNullValue(reduced.exponent->getType());
  Value* large = b_.CreateICmpSGT(reduced.exponent, ConstantInt::get(zero->getType(), 100));
  Value* scale = power_of_two(b_.CreateSub(zero, b_.CreateSelect(large, zero, reduced.exponent)), type);
  error = b_.CreateSelect(large, ConstantFP::get(type, 0.0), error);
  Value* fraction = mul_add(error, scale, reduced.fraction);
  Value* result = log_special(x, ConstantFP::get(type, -1.0), log_of_reduced(fraction, reduced.exponent));
  Value* tiny = b_.CreateFCmpOLT(intrinsic(llvm::Intrinsic::fabs, x), ConstantFP::get(type, 0x1p-25));
  return b_.CreateSelect(tiny, x, result);
}

// Odd polynomial below 0.625; 1 - 2 / (exp(2|x|) + 1) above.
Value* Emitter::tanh_f32(Value* x) {
  Type* type = x->getType();
  Value* magnitude = intrinsic(llvm::Intrinsic::fabs, x);
  Value* square = b_.CreateFMul(x, x);
  Value* q = polynomial(square, {-3.333333433e-01, 1.333330423e-01, -5.395925790e-02, 2.176891826e-02, -8.343945257e-03,
                                 2.292744815e-03});
  Value* near = mul_add(b_.CreateFMul(q, square), magnitude, magnitude);
  Value* one = ConstantFP::get(type, 1.0);
  Value* grown = exp_f32(b_.CreateFAdd(magnitude, magnitude));
  Value* far = b_.CreateFSub(one, b_.CreateFDiv(ConstantFP::get(type, 2.0), b_.CreateFAdd(grown, one)));
  Value* result = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, ConstantFP::get(type, 0.625)), near, far);
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
}

// x * polynomial below 1; 1 - erfc above, with the polynomial of log(erfc).
Value* Emitter::erf_f32(Value* x) {
  Type* type = x->getType();
  Value* magnitude = intrinsic(llvm::Intrinsic::fabs, x);
  Value* square = b_.CreateFMul(x, x);
  Value* q = polynomial(square, {1.283791661e-01, -3.761263788e-01, 1.128378212e-01, -2.686543018e-02, 5.221031606e-03,
                                 -8.484080317e-04, 1.126595889e-04, -9.667044651e-06});
  Value* near = mul_add(q, magnitude, magnitude);
  // Beyond 4.2 the result is 1; NaN passes the comparison unchanged.
  Value* end = ConstantFP::get(type, 4.2);
  Value* one = ConstantFP::get(type, 1.0);
  Value* t = b_.CreateSelect(b_.CreateFCmpOLT(end, magnitude), end, magnitude);
  Value* logarithm =
      polynomial(t, {3.822009312e-04, -1.130543351e+00, -6.311681271e-01, -1.108606979e-01, 2.699299529e-02,
                     -5.028518382e-03, 6.782016717e-04, -6.138932804e-05, 3.271955393e-06, -7.537243363e-08});
  Value* far = b_.CreateFSub(one, exp_f32(logarithm));
  Value* result = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, one), near, far);
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
}

// Quadrants by a three-part pi / 2, whose products with a quadrant number are exact in fma. Larger arguments, and
// processors without fma, are left to the library.
Value* Emitter::sine_f32(Value* x, bool cosine) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kLargest = 50000.0;
  const char* name = cosine ? "cos" : "sin";
  if (!target_.schedule.has_fma) return call_library(name, DType::f32, {x});
  Type* type = x->getType();
  Type* i32 = shaped(b_.getInt32Ty(), type);
  Value* rounder = ConstantFP::get(type, kRounder);
  Value* shifted = mul_add(x, ConstantFP::get(type, kTwoOverPi), rounder);
  Value* count = b_.CreateFSub(shifted, rounder);
  Value* r = x;
  for (const double part : {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50})
    r = mul_add(count, ConstantFP::get(type, -part), r);
  Value* square = b_.CreateFMul(r, r);
  Value* s = polynomial(square, {-1.666666716e-01, 8.333331905e-03, -1.984008704e-04, 2.724992555e-06});
  Value* sine = mul_add(b_.CreateFMul(s, square), r, r);
  Value* c = polynomial(square, {4.166666791e-02, -1.388888806e-03, 2.480059993e-05, -2.730095900e-07});
  Value* one = ConstantFP::get(type, 1.0);
  Value* cosine_value = mul_add(b_.CreateFMul(square, square), c, mul_add(square, ConstantFP::get(type, -0.5), one));
  Value* quadrant = b_.CreateBitCast(shifted, i32);
  if (cosine) quadrant = b_.CreateAdd(quadrant, ConstantInt::get(i32, 1));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, 1), llvm::Constant::getNullValue(i32));
  Value* chosen = b_.CreateSelect(odd, cosine_value, sine);
  Value* sign = b_.CreateShl(b_.CreateAnd(quadrant, 2), 30);
  Value* result = b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(chosen, i32), sign), type);
  if (!cosine) {
    Value* zero = b_.CreateFCmpOEQ(x, llvm::Constant::getNullValue(type));
    result = b_.CreateSelect(zero, x, result);
  }

  Value* large = b_.CreateFCmpUGE(intrinsic(llvm::Intrinsic::fabs, x), ConstantFP::get(type, kLargest));
  Value* none = b_.CreateNot(type->isVectorTy() ? b_.CreateOrReduce(large) : large);
  return unless(none, result, [&] { return b_.CreateSelect(large, call_library_rarely(name, DType::f32, x), result); });
}

}  // namespace wholestep::cpu
