#include "expr/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wholestep/error.h"

namespace wholestep::loops {
namespace {

// Longer expressions are cut: the text is for reading.
constexpr std::size_t kLongest = 4000;

std::string buffer_name(const std::vector<std::string>& buffers, int buffer) {
  return buffer >= 0 && static_cast<std::size_t>(buffer) < buffers.size() ? buffers[static_cast<std::size_t>(buffer)]
                                                                          : fmt::format("b{}", buffer);
}

std::string guard_text(const std::vector<Guard>& guards) {
  std::string text;
  for (const Guard& g : guards)
    text += fmt::format("{}{} <= {} < {}", text.empty() ? "" : " and ", g.low, to_string(g.value), g.high);
  return text;
}

void write(std::string& out, const std::vector<Expr>& exprs, ExprId id, const std::vector<std::string>& buffers) {
  if (out.size() > kLongest) {
    if (out.back() != '~') out += "~";
    return;
  }
  const Expr& e = exprs[static_cast<std::size_t>(id)];
  auto operands = [&](int count) {
    out += "(";
    for (int i = 0; i < count; ++i) {
      if (i > 0) out += ", ";
      write(out, exprs, e.operands[static_cast<std::size_t>(i)], buffers);
    }
    out += ")";
  };
  switch (e.kind) {
    case ExprKind::constant:
      out += is_float(e.dtype) ? fmt::format("{}", e.real) : fmt::format("{}", e.integer);
      break;
    case ExprKind::index:
      out += "index(" + to_string(e.index) + ")";
      break;
    case ExprKind::in_range:
      out += "(" + guard_text(e.guards) + ")";
      break;
    case ExprKind::load:
      out += fmt::format("{}[{}", buffer_name(buffers, e.buffer), to_string(e.index));
      if (!e.guards.empty()) out += " if " + guard_text(e.guards);
      out += "]";
      break;
    case ExprKind::gather:
      out += fmt::format("{}[{} + {} * row", buffer_name(buffers, e.buffer), to_string(e.index), e.scale);
      operands(1);
      out += "]";
      break;
    case ExprKind::unary:
      out += to_string(e.unary);
      operands(1);
      break;
    case ExprKind::binary:
      out += to_string(e.binary);
      operands(2);
      break;
    case ExprKind::fma:
      out += "fma";
      operands(3);
      break;
    case ExprKind::pair:
      out += "pair";
      operands(2);
      break;
    case ExprKind::dot_pairs:
      out += "dot_pairs";
      operands(3);
      break;
    case ExprKind::select:
      out += "select";
      operands(3);
      break;
    case ExprKind::cast:
      out += to_string(e.dtype);
      operands(1);
      break;
    case ExprKind::bitcast:
      out += fmt::format("bits_{}", to_string(e.dtype));
      operands(1);
      break;
    case ExprKind::stage_result:
      out += fmt::format("result{}", e.slot);
      break;
    case ExprKind::accumulator:
      out += fmt::format("acc{}[{}]", e.buffer, to_string(e.index));
      break;
    case ExprKind::horizontal:
      out += fmt::format("across_lanes({}, acc{}[{}])", to_string(e.reduce), e.buffer, to_string(e.index));
      break;
  }
}

int operand_count(ExprKind kind) {
  switch (kind) {
    case ExprKind::gather:
    case ExprKind::unary:
    case ExprKind::cast:
    case ExprKind::bitcast:
      return 1;
    case ExprKind::binary:
    case ExprKind::pair:
      return 2;
    case ExprKind::fma:
    case ExprKind::dot_pairs:
    case ExprKind::select:
      return 3;
    default:
      return 0;
  }
}

}  // namespace

std::string to_text(const std::vector<Expr>& exprs, ExprId id, const std::vector<std::string>& buffers) {
  std::string out;
  write(out, exprs, id, buffers);
  return out;
}

void for_each_below(const std::vector<Expr>& exprs, ExprId id, const std::function<void(ExprId)>& visit) {
  std::vector<bool> seen(static_cast<std::size_t>(id) + 1, false);
  seen[static_cast<std::size_t>(id)] = true;
  for (ExprId i = id; i >= 0; --i) {
    if (!seen[static_cast<std::size_t>(i)]) continue;
    const Expr& e = exprs[static_cast<std::size_t>(i)];
    for (int k = 0; k < operand_count(e.kind); ++k)
      seen[static_cast<std::size_t>(e.operands[static_cast<std::size_t>(k)])] = true;
  }
  for (ExprId i = 0; i <= id; ++i)
    if (seen[static_cast<std::size_t>(i)]) visit(i);
}

void verify_expr(const std::vector<Expr>& exprs, ExprId id, std::size_t buffers, const std::string& where) {
  auto fail = [&](ExprId at, const std::string& what) {
    throw Error(ErrorCode::invalid_graph, fmt::format("{}: expression {}: {}", where, at, what));
  };
  if (id < 0 || static_cast<std::size_t>(id) >= exprs.size()) fail(id, fmt::format("is not one of {}", exprs.size()));
  for_each_below(exprs, id, [&](ExprId i) {
    const Expr& e = exprs[static_cast<std::size_t>(i)];
    std::array<const Expr*, 3> operand{};
    for (int k = 0; k < operand_count(e.kind); ++k) {
      const ExprId o = e.operands[static_cast<std::size_t>(k)];
      if (o < 0 || o >= i) fail(i, fmt::format("operand {} does not come before it", o));
      operand[static_cast<std::size_t>(k)] = &exprs[static_cast<std::size_t>(o)];
    }
    const bool memory = e.kind == ExprKind::load || e.kind == ExprKind::gather;
    if (memory && (e.buffer < 0 || static_cast<std::size_t>(e.buffer) >= buffers))
      fail(i, fmt::format("no buffer {}", e.buffer));
    const bool half = e.dtype == DType::bf16 || e.dtype == DType::f16;
    const bool arithmetic = e.kind == ExprKind::unary || e.kind == ExprKind::binary || e.kind == ExprKind::fma;
    if (half && arithmetic) fail(i, "arithmetic in half precision");
    if (e.kind == ExprKind::binary && operand[0]->dtype != operand[1]->dtype) {
      fail(i, fmt::format("operands are {} and {}", to_string(operand[0]->dtype), to_string(operand[1]->dtype)));
    }
    if (e.kind == ExprKind::binary && e.dtype != (is_comparison(e.binary) ? DType::boolean : operand[0]->dtype)) {
      fail(i, "has another dtype than its operands");
    }
    if (e.kind == ExprKind::pair && (operand[0]->dtype != DType::bf16 || operand[1]->dtype != DType::bf16)) {
      fail(i, "pair of what is not bf16");
    }
    if (e.kind == ExprKind::dot_pairs && (operand[0]->dtype != DType::i32 || operand[1]->dtype != DType::i32 ||
                                          operand[2]->dtype != DType::f32 || e.dtype != DType::f32)) {
      fail(i, "dot_pairs of what are not pairs and a sum");
    }
    if (e.kind == ExprKind::select &&
        (operand[0]->dtype != DType::boolean || operand[1]->dtype != e.dtype || operand[2]->dtype != e.dtype)) {
      fail(i, "select of unlike dtypes");
    }
  });
}

}  // namespace wholestep::loops
