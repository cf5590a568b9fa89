#include "expr/scalar.h"

namespace wholestep::loops {

std::string_view to_string(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
      return "neg";
    case UnaryOp::abs:
      return "abs";
    case UnaryOp::sign:
      return "sign";
    case UnaryOp::ceil:
      return "ceil";
    case UnaryOp::floor:
      return "floor";
    case UnaryOp::round:
      return "round";
    case UnaryOp::trunc:
      return "trunc";
    case UnaryOp::sqrt:
      return "sqrt";
    case UnaryOp::exp:
      return "exp";
    case UnaryOp::expm1:
      return "expm1";
    case UnaryOp::log:
      return "log";
    case UnaryOp::log1p:
      return "log1p";
    case UnaryOp::sin:
      return "sin";
    case UnaryOp::cos:
      return "cos";
    case UnaryOp::tan:
      return "tan";
    case UnaryOp::asin:
      return "asin";
    case UnaryOp::acos:
      return "acos";
    case UnaryOp::atan:
      return "atan";
    case UnaryOp::sinh:
      return "sinh";
    case UnaryOp::cosh:
      return "cosh";
    case UnaryOp::tanh:
      return "tanh";
    case UnaryOp::asinh:
      return "asinh";
    case UnaryOp::acosh:
      return "acosh";
    case UnaryOp::atanh:
      return "atanh";
    case UnaryOp::erf:
      return "erf";
    case UnaryOp::erfc:
      return "erfc";
    case UnaryOp::is_nan:
      return "is_nan";
    case UnaryOp::logical_not:
      return "logical_not";
    case UnaryOp::bit_not:
      return "bit_not";
  }
  return "?";
}

std::string_view to_string(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "add";
    case BinaryOp::sub:
      return "sub";
    case BinaryOp::mul:
      return "mul";
    case BinaryOp::div:
      return "div";
    case BinaryOp::rem:
      return "rem";
    case BinaryOp::pow:
      return "pow";
    case BinaryOp::atan2:
      return "atan2";
    case BinaryOp::max:
      return "max";
    case BinaryOp::min:
      return "min";
    case BinaryOp::eq:
      return "eq";
    case BinaryOp::ne:
      return "ne";
    case BinaryOp::lt:
      return "lt";
    case BinaryOp::le:
      return "le";
    case BinaryOp::gt:
      return "gt";
    case BinaryOp::ge:
      return "ge";
    case BinaryOp::logical_and:
      return "logical_and";
    case BinaryOp::logical_or:
      return "logical_or";
    case BinaryOp::logical_xor:
      return "logical_xor";
    case BinaryOp::bit_and:
      return "bit_and";
    case BinaryOp::bit_or:
      return "bit_or";
    case BinaryOp::bit_xor:
      return "bit_xor";
    case BinaryOp::shift_left:
      return "shift_left";
    case BinaryOp::shift_right:
      return "shift_right";
  }
  return "?";
}

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::prod:
      return "prod";
    case ReduceOp::max:
      return "max";
    case ReduceOp::min:
      return "min";
    case ReduceOp::logical_and:
      return "logical_and";
    case ReduceOp::logical_or:
      return "logical_or";
  }
  return "?";
}

bool is_one_instruction(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::abs:
    case UnaryOp::sign:
    case UnaryOp::ceil:
    case UnaryOp::floor:
    case UnaryOp::round:
    case UnaryOp::trunc:
    case UnaryOp::is_nan:
    case UnaryOp::logical_not:
    case UnaryOp::bit_not:
      return true;
    default:
      return false;
  }
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::eq && op <= BinaryOp::ge; }

BinaryOp combiner(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return BinaryOp::add;
    case ReduceOp::prod:
      return BinaryOp::mul;
    case ReduceOp::max:
      return BinaryOp::max;
    case ReduceOp::min:
      return BinaryOp::min;
    case ReduceOp::logical_and:
      return BinaryOp::logical_and;
    case ReduceOp::logical_or:
      return BinaryOp::logical_or;
  }
  return BinaryOp::add;
}

}  // namespace wholestep::loops
