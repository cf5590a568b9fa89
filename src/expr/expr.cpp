#include "expr/expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "core/convert.h"
#include "wholestep/error.h"

namespace wholestep::loops {
namespace {

bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

bool is_whole(DType dtype) { return !is_float(dtype); }

std::size_t mix(std::size_t seed, std::uint64_t value) {
  std::uint64_t x = seed ^ (value + 0x9e3779b97f4a7c15ULL + (static_cast<std::uint64_t>(seed) << 6) + (seed >> 2));
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  return static_cast<std::size_t>(x);
}

std::size_t mix(std::size_t seed, const Affine& affine) {
  seed = mix(seed, static_cast<std::uint64_t>(affine.offset));
  for (const auto& [var, coefficient] : affine.terms)
    seed = mix(mix(seed, static_cast<std::uint64_t>(var)), static_cast<std::uint64_t>(coefficient));
  return seed;
}

std::size_t hash(const Expr& e) {
  std::size_t seed = mix(static_cast<std::size_t>(e.kind), static_cast<std::uint64_t>(e.dtype));
  seed = mix(seed, static_cast<std::uint64_t>(e.unary) << 16 | static_cast<std::uint64_t>(e.binary) << 8 |
                       static_cast<std::uint64_t>(e.reduce));
  for (ExprId operand : e.operands) seed = mix(seed, static_cast<std::uint64_t>(operand));
  seed = mix(seed, static_cast<std::uint64_t>(e.buffer));
  seed = mix(seed, static_cast<std::uint64_t>(e.slot));
  seed = mix(seed, static_cast<std::uint64_t>(e.scale));
  seed = mix(seed, static_cast<std::uint64_t>(e.limit));
  seed = mix(seed, static_cast<std::uint64_t>(e.integer));
  seed = mix(seed, std::bit_cast<std::uint64_t>(e.real));
  seed = mix(seed, e.index);
  for (const Guard& guard : e.guards)
    seed =
        mix(mix(mix(seed, guard.value), static_cast<std::uint64_t>(guard.low)), static_cast<std::uint64_t>(guard.high));
  return seed;
}

/// Guards that say something; nullopt where one of them never holds.
std::optional<std::vector<Guard>> reduce_guards(std::vector<Guard> guards) {
  std::vector<Guard> kept;
  for (Guard& guard : guards) {
    if (guard.value.is_constant()) {
      if (guard.value.offset < guard.low || guard.value.offset >= guard.high) return std::nullopt;
    } else if (std::find(kept.begin(), kept.end(), guard) == kept.end()) {
      kept.push_back(std::move(guard));
    }
  }
  return kept;
}

/// The value of a unary operation that every IEEE 754 machine rounds the same way; nullopt for all others.
template <class T>
std::optional<double> fold_float(UnaryOp op, T x) {
  switch (op) {
    case UnaryOp::neg:
      return -x;
    case UnaryOp::abs:
      return std::abs(x);
    case UnaryOp::ceil:
      return std::ceil(x);
    case UnaryOp::floor:
      return std::floor(x);
    case UnaryOp::trunc:
      return std::trunc(x);
    case UnaryOp::sqrt:
      return std::sqrt(x);
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<double> fold_float(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    default:
      return std::nullopt;
  }
}

template <class T>
std::optional<bool> fold_comparison(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::eq:
      return a == b;
    case BinaryOp::ne:
      return a != b;
    case BinaryOp::lt:
      return a < b;
    case BinaryOp::le:
      return a <= b;
    case BinaryOp::gt:
      return a > b;
    case BinaryOp::ge:
      return a >= b;
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> fold_integer(BinaryOp op, std::int64_t a, std::int64_t b) {
  const auto ua = static_cast<std::uint64_t>(a);
  const auto ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case BinaryOp::add:
      return static_cast<std::int64_t>(ua + ub);
    case BinaryOp::sub:
      return static_cast<std::int64_t>(ua - ub);
    case BinaryOp::mul:
      return static_cast<std::int64_t>(ua * ub);
    case BinaryOp::max:
      return std::max(a, b);
    case BinaryOp::min:
      return std::min(a, b);
    case BinaryOp::logical_and:
      return (a != 0) && (b != 0);
    case BinaryOp::logical_or:
      return (a != 0) || (b != 0);
    case BinaryOp::logical_xor:
      return (a != 0) != (b != 0);
    case BinaryOp::bit_and:
      return a & b;
    case BinaryOp::bit_or:
      return a | b;
    case BinaryOp::bit_xor:
      return a ^ b;
    default:
      return std::nullopt;
  }
}

[[noreturn]] void defect(const std::string& message) {
  throw Error(ErrorCode::internal, "expression builder: " + message);
}

Expr make(ExprKind kind, DType dtype, std::array<ExprId, 3> operands = {kNoExpr, kNoExpr, kNoExpr}) {
  Expr e;
  e.kind = kind;
  e.dtype = dtype;
  e.operands = operands;
  return e;
}

Expr whole_constant(std::int64_t value, DType dtype) {
  Expr e = make(ExprKind::constant, dtype);
  e.integer = wrap_to_integer(value, dtype);
  return e;
}

Expr float_constant(double value, DType dtype) {
  Expr e = make(ExprKind::constant, dtype);
  e.real = round_to_float(value, dtype);
  return e;
}

bool is_constant(const Expr& e) { return e.kind == ExprKind::constant; }

/// Whether both are affine in the loop variables.
std::optional<Affine> as_affine(const Expr& e) {
  if (e.dtype != DType::i64) return std::nullopt;
  if (e.kind == ExprKind::index) return e.index;
  if (is_constant(e)) return Affine(e.integer);
  return std::nullopt;
}

}  // namespace

bool Expr::operator==(const Expr& other) const {
  const auto fields = [](const Expr& e) {
    return std::tie(e.kind, e.dtype, e.unary, e.binary, e.reduce, e.operands, e.buffer, e.slot, e.scale, e.limit,
                    e.integer, e.index, e.guards);
  };
  return fields(*this) == fields(other) &&
         std::bit_cast<std::uint64_t>(real) == std::bit_cast<std::uint64_t>(other.real);
}

ExprId ExprBuilder::add(Expr expr) {
  const std::size_t key = hash(expr);
  const auto [first, last] = seen_.equal_range(key);
  for (auto it = first; it != last; ++it)
    if (exprs_[static_cast<std::size_t>(it->second)] == expr) return it->second;
  const auto id = static_cast<ExprId>(exprs_.size());
  exprs_.push_back(std::move(expr));
  seen_.emplace(key, id);
  return id;
}

ExprId ExprBuilder::constant(double value, DType dtype) {
  if (is_whole(dtype)) return add(whole_constant(saturate_to_integer(value, dtype), dtype));
  if (!is_half(dtype)) return add(float_constant(value, dtype));
  const ExprId wide = add(float_constant(round_to_float(value, dtype), DType::f32));
  return add(make(ExprKind::cast, dtype, {wide, kNoExpr, kNoExpr}));
}

ExprId ExprBuilder::index(Affine value) {
  if (value.is_constant()) return add(whole_constant(value.offset, DType::i64));
  Expr e = make(ExprKind::index, DType::i64);
  e.index = std::move(value);
  return add(std::move(e));
}

ExprId ExprBuilder::in_range(std::vector<Guard> guards) {
  auto kept = reduce_guards(std::move(guards));
  if (!kept || kept->empty()) return add(whole_constant(kept.has_value(), DType::boolean));
  Expr e = make(ExprKind::in_range, DType::boolean);
  e.guards = std::move(*kept);
  return add(std::move(e));
}

ExprId ExprBuilder::load(int buffer, DType dtype, Affine index, std::vector<Guard> guards) {
  auto kept = reduce_guards(std::move(guards));
  if (!kept) return constant(0, dtype);
  Expr e = make(ExprKind::load, dtype);
  e.buffer = buffer;
  e.index = std::move(index);
  e.guards = std::move(*kept);
  return add(std::move(e));
}

ExprId ExprBuilder::gather(int buffer, DType dtype, Affine index, ExprId row, std::int64_t scale, std::int64_t limit,
                           std::vector<Guard> guards) {
  auto kept = reduce_guards(std::move(guards));
  if (!kept) return constant(0, dtype);
  Expr e = make(ExprKind::gather, dtype, {row, kNoExpr, kNoExpr});
  e.buffer = buffer;
  e.index = std::move(index);
  e.scale = scale;
  e.limit = limit;
  e.guards = std::move(*kept);
  return add(std::move(e));
}

ExprId ExprBuilder::unary(UnaryOp op, ExprId x) {
  const DType dtype = (*this)[x].dtype;
  const DType result = op == UnaryOp::is_nan || op == UnaryOp::logical_not ? DType::boolean : dtype;
  if (is_half(dtype)) {
    const ExprId wide = unary(op, cast(x, DType::f32));
    return result == DType::boolean ? wide : cast(wide, dtype);
  }
  const Expr& operand = (*this)[x];
  if (is_constant(operand)) {
    if (is_float(dtype)) {
      if (op == UnaryOp::is_nan) return add(whole_constant(std::isnan(operand.real), DType::boolean));
      const std::optional<double> value =
          dtype == DType::f32 ? fold_float(op, static_cast<float>(operand.real)) : fold_float(op, operand.real);
      if (value && !std::isnan(*value)) return add(float_constant(*value, dtype));
    } else {
      const std::int64_t value = operand.integer;
      if (op == UnaryOp::neg) return add(whole_constant(*fold_integer(BinaryOp::sub, 0, value), dtype));
      if (op == UnaryOp::logical_not) return add(whole_constant(value == 0, DType::boolean));
      if (op == UnaryOp::bit_not && is_integer(dtype)) return add(whole_constant(~value, dtype));
    }
  }
  Expr e = make(ExprKind::unary, result, {x, kNoExpr, kNoExpr});
  e.unary = op;
  return add(std::move(e));
}

ExprId ExprBuilder::binary(BinaryOp op, ExprId a, ExprId b) {
  const DType dtype = (*this)[a].dtype;
  if ((*this)[b].dtype != dtype)
    defect(fmt::format("{} of {} and {}", to_string(op), to_string(dtype), to_string((*this)[b].dtype)));
  const DType result = is_comparison(op) ? DType::boolean : dtype;
  if (is_half(dtype)) {
    const ExprId wide_a = cast(a, DType::f32);
    const ExprId wide_b = cast(b, DType::f32);
    const ExprId wide = binary(op, wide_a, wide_b);
    return result == DType::boolean ? wide : cast(wide, dtype);
  }
  const Expr& left = (*this)[a];
  const Expr& right = (*this)[b];
  if (is_constant(left) && is_constant(right)) {
    if (is_float(dtype)) {
      if (const auto truth = fold_comparison(op, left.real, right.real))
        return add(whole_constant(*truth, DType::boolean));
      const std::optional<double> value =
          dtype == DType::f32 ? fold_float(op, static_cast<float>(left.real), static_cast<float>(right.real))
                              : fold_float(op, left.real, right.real);
      // The sign and payload of a NaN made at run time are the target's own.
      if (value && !std::isnan(*value)) return add(float_constant(*value, dtype));
    } else {
      if (const auto truth = fold_comparison(op, left.integer, right.integer))
        return add(whole_constant(*truth, DType::boolean));
      if (const auto value = fold_integer(op, left.integer, right.integer)) return add(whole_constant(*value, dtype));
    }
  }
  if (op == BinaryOp::add || op == BinaryOp::sub || op == BinaryOp::mul) {
    const auto affine_left = as_affine(left);
    const auto affine_right = as_affine(right);
    if (affine_left && affine_right) {
      if (op == BinaryOp::add) return index(*affine_left + *affine_right);
      if (op == BinaryOp::sub) return index(*affine_left - *affine_right);
      if (affine_right->is_constant()) return index(*affine_left * affine_right->offset);
      if (affine_left->is_constant()) return index(*affine_right * affine_left->offset);
    }
  }
  if (op == BinaryOp::logical_and) {
    if (is_constant(left)) return left.integer ? b : a;
    if (is_constant(right)) return right.integer ? a : b;
  }
  if (op == BinaryOp::logical_or) {
    if (is_constant(left)) return left.integer ? a : b;
    if (is_constant(right)) return right.integer ? b : a;
  }
  Expr e = make(ExprKind::binary, result, {a, b, kNoExpr});
  e.binary = op;
  return add(std::move(e));
}

ExprId ExprBuilder::fma(ExprId a, ExprId b, ExprId c) {
  const DType dtype = (*this)[a].dtype;
  if ((*this)[b].dtype != dtype || (*this)[c].dtype != dtype)
    defect(fmt::format("fma of {}, {} and {}", to_string(dtype), to_string((*this)[b].dtype),
                       to_string((*this)[c].dtype)));
  if (is_half(dtype)) {
    const ExprId wide_a = cast(a, DType::f32);
    const ExprId wide_b = cast(b, DType::f32);
    const ExprId wide_c = cast(c, DType::f32);
    return cast(fma(wide_a, wide_b, wide_c), dtype);
  }
  return add(make(ExprKind::fma, dtype, {a, b, c}));
}

ExprId ExprBuilder::pair(ExprId high, ExprId low) {
  if ((*this)[high].dtype != DType::bf16 || (*this)[low].dtype != DType::bf16)
    defect(fmt::format("pair of {} and {}", to_string((*this)[high].dtype), to_string((*this)[low].dtype)));
  return add(make(ExprKind::pair, DType::i32, {high, low, kNoExpr}));
}

ExprId ExprBuilder::dot_pairs(ExprId a, ExprId b, ExprId c) {
  const DType left = (*this)[a].dtype, right = (*this)[b].dtype, sum = (*this)[c].dtype;
  if (left != DType::i32 || right != DType::i32 || sum != DType::f32)
    defect(fmt::format("dot_pairs of {}, {} and {}", to_string(left), to_string(right), to_string(sum)));
  return add(make(ExprKind::dot_pairs, DType::f32, {a, b, c}));
}

ExprId ExprBuilder::select(ExprId condition, ExprId a, ExprId b) {
  const DType dtype = (*this)[a].dtype;
  if ((*this)[condition].dtype != DType::boolean || (*this)[b].dtype != dtype)
    defect(fmt::format("select of {}, {} and {}", to_string((*this)[condition].dtype), to_string(dtype),
                       to_string((*this)[b].dtype)));
  if (a == b) return a;
  if (is_constant((*this)[condition])) return (*this)[condition].integer ? a : b;
  if (is_half(dtype)) {
    const ExprId wide_a = cast(a, DType::f32);
    const ExprId wide_b = cast(b, DType::f32);
    return cast(select(condition, wide_a, wide_b), dtype);
  }
  return add(make(ExprKind::select, dtype, {condition, a, b}));
}

ExprId ExprBuilder::cast(ExprId x, DType dtype) {
  const Expr& operand = (*this)[x];
  if (operand.dtype == dtype) return x;
  if (is_constant(operand) && !is_half(dtype)) {
    const bool from_float = is_float(operand.dtype);
    if (is_float(dtype)) {
      const double value = from_float            ? operand.real
                           : dtype == DType::f32 ? static_cast<double>(static_cast<float>(operand.integer))
                                                 : static_cast<double>(operand.integer);
      if (!std::isnan(value)) return add(float_constant(value, dtype));
    } else {
      return add(whole_constant(from_float ? saturate_to_integer(operand.real, dtype) : operand.integer, dtype));
    }
  }
  if (operand.kind == ExprKind::cast) {
    const ExprId inner = operand.operands[0];
    const Expr& source = (*this)[inner];
    if (source.dtype == dtype && widens(dtype, operand.dtype)) return inner;
    if (is_constant(source) && is_half(operand.dtype) && source.dtype == dtype && !std::isnan(source.real))
      return add(float_constant(round_to_float(source.real, operand.dtype), dtype));
  }
  return add(make(ExprKind::cast, dtype, {x, kNoExpr, kNoExpr}));
}

ExprId ExprBuilder::bitcast(ExprId x, DType dtype) {
  const Expr& operand = (*this)[x];
  if (operand.dtype == dtype) return x;
  if (size_of(operand.dtype) != size_of(dtype) || size_of(dtype) < 4)
    defect(fmt::format("bitcast of {} to {}", to_string(operand.dtype), to_string(dtype)));
  return add(make(ExprKind::bitcast, dtype, {x, kNoExpr, kNoExpr}));
}

ExprId ExprBuilder::stage_result(int stage, DType dtype) {
  Expr e = make(ExprKind::stage_result, dtype);
  e.slot = stage;
  return add(std::move(e));
}

}  // namespace wholestep::loops
