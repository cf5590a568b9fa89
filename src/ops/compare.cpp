// Comparisons. Any comparison with NaN is false, but not_equal.
#include "ops/elementwise.h"

namespace wholestep {

using elementwise::apply_broadcast;
using elementwise::Binary;
using elementwise::define;
using elementwise::primitive;
using elementwise::scalar_like;
using elementwise::Takes;
using loops::BinaryOp;

/// Whether a = b. Shapes broadcast.
Tensor equal(Tensor a, Tensor b) { return apply_broadcast("equal", {a, b}); }

/// As above, with a number on one side.
Tensor equal(Tensor a, double b) { return equal(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor equal(double a, Tensor b) { return equal(scalar_like(b, a), b); }

/// Whether a differs from b; true where either is NaN. Shapes broadcast.
Tensor not_equal(Tensor a, Tensor b) { return apply_broadcast("not_equal", {a, b}); }

/// As above, with a number on one side.
Tensor not_equal(Tensor a, double b) { return not_equal(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor not_equal(double a, Tensor b) { return not_equal(scalar_like(b, a), b); }

/// Whether a < b. Shapes broadcast.
Tensor less(Tensor a, Tensor b) { return apply_broadcast("less", {a, b}); }

/// As above, with a number on one side.
Tensor less(Tensor a, double b) { return less(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor less(double a, Tensor b) { return less(scalar_like(b, a), b); }

/// Whether a <= b. Shapes broadcast.
Tensor less_equal(Tensor a, Tensor b) { return apply_broadcast("less_equal", {a, b}); }

/// As above, with a number on one side.
Tensor less_equal(Tensor a, double b) { return less_equal(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor less_equal(double a, Tensor b) { return less_equal(scalar_like(b, a), b); }

/// Whether a > b. Shapes broadcast.
Tensor greater(Tensor a, Tensor b) { return apply_broadcast("greater", {a, b}); }

/// As above, with a number on one side.
Tensor greater(Tensor a, double b) { return greater(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor greater(double a, Tensor b) { return greater(scalar_like(b, a), b); }

/// Whether a >= b. Shapes broadcast.
Tensor greater_equal(Tensor a, Tensor b) { return apply_broadcast("greater_equal", {a, b}); }

/// As above, with a number on one side.
Tensor greater_equal(Tensor a, double b) { return greater_equal(a, scalar_like(a, b)); }

/// As above, with a number on one side.
Tensor greater_equal(double a, Tensor b) { return greater_equal(scalar_like(b, a), b); }

namespace {

// A comparison is one relation, whatever the arithmetic.
template <class Relation>
OpDef comparison(std::string_view name, std::string_view doc, BinaryOp op, Takes takes, Relation relation) {
  return define(Binary{
      .name = name,
      .doc = doc,
      .takes = takes,
      .boolean_result = true,
      .real = relation,
      .integer = relation,
      .lower = primitive(op),
      .flat = "the result is boolean",
  });
}

}  // namespace

void register_compare(OpTable& table) {
  table.add(comparison("equal", "Whether a = b.", BinaryOp::eq, Takes::all, [](auto a, auto b) { return a == b; }));
  table.add(comparison("not_equal", "Whether a differs from b; true where either is NaN.", BinaryOp::ne, Takes::all,
                       [](auto a, auto b) { return a != b; }));
  table.add(comparison("less", "Whether a < b.", BinaryOp::lt, Takes::numbers, [](auto a, auto b) { return a < b; }));
  table.add(
      comparison("less_equal", "Whether a <= b.", BinaryOp::le, Takes::numbers, [](auto a, auto b) { return a <= b; }));
  table.add(
      comparison("greater", "Whether a > b.", BinaryOp::gt, Takes::numbers, [](auto a, auto b) { return a > b; }));
  table.add(comparison("greater_equal", "Whether a >= b.", BinaryOp::ge, Takes::numbers,
                       [](auto a, auto b) { return a >= b; }));
}

}  // namespace wholestep
