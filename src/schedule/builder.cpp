#include "schedule/builder.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "expr/text.h"
#include "schedule/division.h"

namespace wholestep::schedule {

using loops::BinaryOp;
using loops::Expr;
using loops::ExprKind;
using loops::ReduceOp;
using loops::UnaryOp;

NestBuilder::NestBuilder(const loops::Kernel& kernel, const Target& target)
    : kernel_(kernel), exprs_(nest.exprs), has_fma_(target.has_fma) {
  nest.name = kernel.name;
  nest.buffers = kernel.buffers;
  nest.nodes = kernel.nodes;
  nest.lanes = lanes_of(target);
  auto seen = [&](const std::vector<loops::Axis>& axes) {
    for (const loops::Axis& axis : axes) next_var_ = std::max(next_var_, axis.var + 1);
  };
  seen(kernel.parallel);
  for (const loops::Repetition& repetition : kernel.repetitions) seen({repetition.axis});
  for (const loops::Stage& stage : kernel.stages) {
    seen(stage.map_axes);
    seen(stage.reduce_axes);
  }
}

Affine NestBuilder::translate(const Affine& affine, const Substitution& with) const {
  return affine.substitute([&](Var var) {
    auto found = with.find(var);
    return found == with.end() ? nullptr : &found->second;
  });
}

ExprId NestBuilder::translate(ExprId id, const Substitution& with, const std::vector<ExprId>& stage_results) {
  std::map<ExprId, ExprId> made;
  loops::for_each_below(kernel_.exprs, id, [&](ExprId i) {
    Expr e = kernel_.exprs[static_cast<std::size_t>(i)];
    if (e.kind == ExprKind::stage_result) {
      made[i] = stage_results[static_cast<std::size_t>(e.slot)];
      return;
    }
    for (ExprId& operand : e.operands)
      if (operand != loops::kNoExpr) operand = made.at(operand);
    e.index = translate(e.index, with);
    for (loops::Guard& guard : e.guards) guard.value = translate(guard.value, with);
    const ExprId quotient = divide_byte(e);
    made[i] = quotient != loops::kNoExpr ? quotient : exprs_.add(std::move(e));
  });
  return made.at(id);
}

// A division of a byte by a constant as two multiplications, where that changes no bit.
ExprId NestBuilder::divide_byte(const Expr& e) {
  if (!has_fma_ || e.kind != ExprKind::binary || e.binary != BinaryOp::div || e.dtype != DType::f32)
    return loops::kNoExpr;
  const Expr byte = exprs_[e.operands[0]], divisor = exprs_[e.operands[1]];
  if (byte.kind != ExprKind::cast || divisor.kind != ExprKind::constant) return loops::kNoExpr;
  if (exprs_[byte.operands[0]].dtype != DType::u8) return loops::kNoExpr;
  const auto reciprocal = exact_for_bytes(static_cast<float>(divisor.real));
  if (!reciprocal) return loops::kNoExpr;
  const ExprId x = e.operands[0];
  const ExprId low = exprs_.binary(BinaryOp::mul, x, exprs_.constant(reciprocal->low, DType::f32));
  return exprs_.fma(x, exprs_.constant(reciprocal->high, DType::f32), low);
}

loops::Store NestBuilder::translate(const loops::Store& store, const Substitution& with,
                                    const std::vector<ExprId>& stage_results) {
  loops::Store result = store;
  result.index = translate(store.index, with);
  result.value = translate(store.value, with, stage_results);
  if (store.row != loops::kNoExpr) result.row = translate(store.row, with, stage_results);
  return result;
}

int NestBuilder::new_accumulators(DType dtype, std::int64_t slots, Lanes lanes) {
  nest.accumulators.push_back({dtype, slots, lanes});
  return static_cast<int>(nest.accumulators.size()) - 1;
}

ExprId NestBuilder::accumulator(int array, Affine slot) {
  return exprs_.add({.kind = ExprKind::accumulator,
                     .dtype = nest.accumulators[static_cast<std::size_t>(array)].dtype,
                     .buffer = array,
                     .index = std::move(slot)});
}

ExprId NestBuilder::horizontal(ReduceOp op, int array, Affine slot) {
  return exprs_.add({.kind = ExprKind::horizontal,
                     .dtype = nest.accumulators[static_cast<std::size_t>(array)].dtype,
                     .reduce = op,
                     .buffer = array,
                     .index = std::move(slot)});
}

ExprId NestBuilder::identity(ReduceOp op, DType dtype) {
  const bool real = is_float(dtype);
  auto integer = [&](std::int64_t value) {
    return exprs_.add({.kind = ExprKind::constant, .dtype = dtype, .integer = value});
  };
  const double infinity = std::numeric_limits<double>::infinity();
  auto lowest = [&] {
    if (dtype == DType::i32) return static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::min());
    return dtype == DType::i64 ? std::numeric_limits<std::int64_t>::min() : std::int64_t{0};
  };
  auto highest = [&] {
    if (dtype == DType::i32) return static_cast<std::int64_t>(std::numeric_limits<std::int32_t>::max());
    if (dtype == DType::i64) return std::numeric_limits<std::int64_t>::max();
    return dtype == DType::u8 ? std::int64_t{255} : std::int64_t{1};
  };
  switch (op) {
    case ReduceOp::sum:
      return real ? exprs_.constant(0, dtype) : integer(0);
    case ReduceOp::prod:
      return real ? exprs_.constant(1, dtype) : integer(1);
    case ReduceOp::max:
      return real ? exprs_.constant(-infinity, dtype) : integer(lowest());
    case ReduceOp::min:
      return real ? exprs_.constant(infinity, dtype) : integer(highest());
    case ReduceOp::logical_and:
      return integer(1);
    case ReduceOp::logical_or:
      return integer(0);
  }
  return loops::kNoExpr;
}

Block NestBuilder::in_blocks(std::vector<loops::Axis> axes, const std::vector<loops::Axis>& original, const Cut& cut,
                             Substitution& with, const std::function<Block(const std::vector<loops::Axis>&)>& one) {
  const loops::Axis narrowed = axes[cut.axis];
  const std::int64_t extent = narrowed.extent;
  const auto first = static_cast<std::ptrdiff_t>(cut.axis);
  Block blocks;
  const auto add = [&](std::int64_t count, std::int64_t start, std::int64_t steps) {
    const Var number = new_var();
    const loops::Axis& whole = original[cut.axis];
    const auto from_start = [&](ExprId bound) {
      if (bound == loops::kNoExpr) return bound;
      return exprs_.binary(BinaryOp::sub, bound, exprs_.index(Affine::of(number, steps) + Affine(start)));
    };
    axes[cut.axis] = {new_var(), steps, from_start(narrowed.from), from_start(narrowed.to)};
    with[whole.var] = Affine::of(number, steps) + Affine(start) + Affine::of(axes[cut.axis].var);
    blocks.push_back(loop(number, count, LoopKind::serial, one({axes.begin() + first, axes.end()})));
  };
  const std::int64_t count = extent / cut.block, rest = extent % cut.block;
  add(count, 0, cut.block);
  if (rest != 0) add(1, count * cut.block, rest);
  return around({axes.begin(), axes.begin() + first}, LoopKind::serial, std::move(blocks));
}

std::vector<loops::Axis> NestBuilder::fresh(const std::vector<loops::Axis>& axes, Substitution& with,
                                            const std::vector<ExprId>& stage_results) {
  const auto bound = [&](ExprId id) { return id == loops::kNoExpr ? id : translate(id, with, stage_results); };
  std::vector<loops::Axis> result;
  for (const loops::Axis& axis : axes) result.push_back({new_var(), axis.extent, bound(axis.from), bound(axis.to)});
  for (std::size_t i = 0; i < axes.size(); ++i) with[axes[i].var] = Affine::of(result[i].var);
  return result;
}

Block around(const std::vector<loops::Axis>& axes, LoopKind innermost, Block body) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    const loops::Axis& axis = axes[i];
    const bool narrowed = axis.from != loops::kNoExpr || axis.to != loops::kNoExpr;
    const LoopKind kind = i + 1 == axes.size() && !narrowed ? innermost : LoopKind::serial;
    Block outer;
    outer.push_back({Loop{axis.var, axis.extent, kind, std::move(body), axis.from, axis.to}});
    body = std::move(outer);
  }
  return body;
}

bool sums_floats(const loops::Stage& stage) {
  return stage.reduce == loops::ReduceOp::sum && is_float(stage.accumulate);
}

Cut cut_of(const std::vector<loops::Axis>& axes, std::int64_t length) {
  std::int64_t inner = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (inner * axes[i].extent >= 2 * length) return {i, std::max<std::int64_t>(1, length / inner)};
    inner *= axes[i].extent;
  }
  return {};
}

void append(Block& to, Block more) { std::move(more.begin(), more.end(), std::back_inserter(to)); }

Stmt loop(Var var, std::int64_t extent, LoopKind kind, Block body) {
  return {Loop{var, extent, kind, std::move(body)}};
}

Stmt set(int array, Affine slot, ExprId value) { return {SetAccumulator{array, std::move(slot), value}}; }

Stmt store(loops::Store to) { return {StoreTo{std::move(to)}}; }

int lanes_of(const Target& target) { return std::max(1, target.vector_bytes / 4); }

namespace {

double unary_cycles(UnaryOp op, int lanes) {
  if (loops::is_one_instruction(op)) return 1;
  switch (op) {
    case UnaryOp::sqrt:
      return 12;
    case UnaryOp::exp:
    case UnaryOp::log:
    case UnaryOp::tanh:
      return 14;
    default:
      return 25.0 * lanes;
  }
}

}  // namespace

double cycles(const std::vector<Expr>& exprs, const std::vector<ExprId>& ids, Var vector_var, int lanes) {
  std::vector<bool> counted(exprs.size(), false);
  double total = 0;
  for (ExprId id : ids) {
    loops::for_each_below(exprs, id, [&](ExprId i) {
      if (counted[static_cast<std::size_t>(i)]) return;
      counted[static_cast<std::size_t>(i)] = true;
      const Expr& e = exprs[static_cast<std::size_t>(i)];
      switch (e.kind) {
        case ExprKind::load: {
          const std::int64_t stride = e.index.coefficient(vector_var);
          total += stride == 0 || stride == 1 ? 1 : lanes;
          break;
        }
        case ExprKind::gather:
          total += 1.5 * lanes;
          break;
        case ExprKind::unary:
          total += unary_cycles(e.unary, lanes);
          break;
        case ExprKind::binary:
          total += e.binary == BinaryOp::div || e.binary == BinaryOp::rem     ? (is_float(e.dtype) ? 10 : 10 * lanes)
                   : e.binary == BinaryOp::pow || e.binary == BinaryOp::atan2 ? 40 * lanes
                                                                              : 0.7;
          break;
        case ExprKind::fma:
          total += 0.5;
          break;
        case ExprKind::select:
        case ExprKind::cast:
        case ExprKind::in_range:
          total += 1;
          break;
        default:
          break;
      }
    });
  }
  return total;
}

}  // namespace wholestep::schedule
