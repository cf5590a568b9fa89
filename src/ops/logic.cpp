// Logic of booleans, and of the bits of integers.
#include <cstddef>

#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::Binary;
using elementwise::define;
using elementwise::primitive;
using elementwise::Takes;
using loops::BinaryOp;
using loops::UnaryOp;

/// Whether the boolean x is false.
Tensor logical_not(Tensor x) { return apply_broadcast("logical_not", {x}); }

/// Whether both booleans are true. Shapes broadcast.
Tensor logical_and(Tensor a, Tensor b) { return apply_broadcast("logical_and", {a, b}); }

/// Whether either boolean is true. Shapes broadcast.
Tensor logical_or(Tensor a, Tensor b) { return apply_broadcast("logical_or", {a, b}); }

/// Whether exactly one boolean is true. Shapes broadcast.
Tensor logical_xor(Tensor a, Tensor b) { return apply_broadcast("logical_xor", {a, b}); }

/// Every bit of an integer inverted.
Tensor bit_not(Tensor x) { return apply_broadcast("bit_not", {x}); }

/// Bits set in both integers. Shapes broadcast.
Tensor bit_and(Tensor a, Tensor b) { return apply_broadcast("bit_and", {a, b}); }

/// Bits set in either integer. Shapes broadcast.
Tensor bit_or(Tensor a, Tensor b) { return apply_broadcast("bit_or", {a, b}); }

/// Bits set in exactly one integer. Shapes broadcast.
Tensor bit_xor(Tensor a, Tensor b) { return apply_broadcast("bit_xor", {a, b}); }

/// a * 2^b, wrapped; 0 where b is negative or not below the number of bits. Shapes broadcast.
Tensor shift_left(Tensor a, Tensor b) { return apply_broadcast("shift_left", {a, b}); }

/// a / 2^b rounded down; where b is negative or not below the number of bits, 0, or -1 of a negative a. Shapes
/// broadcast.
Tensor shift_right(Tensor a, Tensor b) { return apply_broadcast("shift_right", {a, b}); }

namespace {

using Integer = std::int64_t;

OpDef binary(std::string_view name, std::string_view doc, BinaryOp op, Takes takes,
             Integer (*function)(Integer, Integer)) {
  return define(Binary{
      .name = name,
      .doc = doc,
      .takes = takes,
      .integer = function,
      .lower = primitive(op),
      .flat = "the result is not a float",
  });
}

// A shift whose function also needs the number of bits.
OpDef shift(std::string_view name, std::string_view doc, BinaryOp op,
            Integer (*function)(Integer a, Integer b, Integer bits)) {
  OpDef def = binary(name, doc, op, Takes::integers, nullptr);
  def.evaluate = [function](const EvalArgs& args) {
    const auto bits = static_cast<Integer>(8 * size_of(args.result.type.dtype));
    for (std::size_t i = 0; i < args.result.integer.size(); ++i) {
      args.result.integer[i] = function(args.operands[0]->integer[i], args.operands[1]->integer[i], bits);
    }
  };
  return def;
}

}  // namespace

void register_logic(OpTable& table) {
  table.add(define({
      .name = "logical_not",
      .doc = "Whether x is false.",
      .takes = Takes::booleans,
      .integer = [](Integer x) { return Integer{x == 0}; },
      .lower = primitive(UnaryOp::logical_not),
      .gradient = NotDifferentiable{"the result is boolean"},
  }));
  table.add(define({
      .name = "bit_not",
      .doc = "Every bit inverted.",
      .takes = Takes::integers,
      .integer = [](Integer x) { return ~x; },
      .lower = primitive(UnaryOp::bit_not),
      .gradient = NotDifferentiable{"the result is an integer"},
  }));
  table.add(binary("logical_and", "Whether a and b are true.", BinaryOp::logical_and, Takes::booleans,
                   [](Integer a, Integer b) { return a & b; }));
  table.add(binary("logical_or", "Whether a or b is true.", BinaryOp::logical_or, Takes::booleans,
                   [](Integer a, Integer b) { return a | b; }));
  table.add(binary("logical_xor", "Whether exactly one of a and b is true.", BinaryOp::logical_xor, Takes::booleans,
                   [](Integer a, Integer b) { return a ^ b; }));
  table.add(binary("bit_and", "Bits set in a and b.", BinaryOp::bit_and, Takes::integers,
                   [](Integer a, Integer b) { return a & b; }));
  table.add(binary("bit_or", "Bits set in a or b.", BinaryOp::bit_or, Takes::integers,
                   [](Integer a, Integer b) { return a | b; }));
  table.add(binary("bit_xor", "Bits set in exactly one of a and b.", BinaryOp::bit_xor, Takes::integers,
                   [](Integer a, Integer b) { return a ^ b; }));
  table.add(shift("shift_left", "a * 2^b, wrapped; 0 where b is negative or not below the number of bits.",
                  BinaryOp::shift_left, [](Integer a, Integer b, Integer bits) {
                    return b < 0 || b >= bits ? 0 : static_cast<Integer>(static_cast<std::uint64_t>(a) << b);
                  }));
  table.add(
      shift("shift_right",
            "a / 2^b rounded down; 0, or -1 of a negative a, where b is negative or not below the number of bits.",
            BinaryOp::shift_right,
            [](Integer a, Integer b, Integer bits) { return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b; }));
}

}  // namespace wholestep
