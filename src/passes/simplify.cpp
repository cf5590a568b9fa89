#include <algorithm>

#include "core/convert.h"
#include "graph/op.h"
#include "passes/passes.h"
#include "passes/pattern.h"
#include "passes/rebuild.h"

namespace wholestep::passes {
namespace {

using Integers = std::vector<std::int64_t>;

Pattern variable(int number) {
  Pattern pattern;
  pattern.variable = number;
  return pattern;
}

Pattern number(double value) {
  Pattern pattern;
  pattern.kind = Pattern::Kind::constant;
  pattern.value = value;
  return pattern;
}

/// `op("neg")(x)` is the term neg(x).
auto op(std::string name) {
  return [name = std::move(name)](auto... operands) {
    Pattern pattern;
    pattern.kind = Pattern::Kind::op;
    pattern.op = name;
    pattern.operands = {operands...};
    return pattern;
  };
}

const TensorType& type_of_x(const Match& match) { return match.variables[0].type(); }

bool of_floats(const Match& match) { return is_float(match.type.dtype); }
bool of_integers(const Match& match) { return is_integer(match.type.dtype); }
bool same_type(const Match& match) { return type_of_x(match) == match.type; }

/// x was cast to a wider type and back.
bool there_and_back(const Match& match) {
  return type_of_x(match).dtype == match.type.dtype && widens(match.type.dtype, match.inner.get<DType>("dtype"));
}

bool keeps_order(const Match& match) {
  const auto& perm = match.outer.get<Integers>("perm");
  return std::is_sorted(perm.begin(), perm.end());
}

bool pads_nothing(const Match& match) {
  const auto none = [&](const char* side) {
    const auto& amounts = match.outer.get<Integers>(side);
    return std::all_of(amounts.begin(), amounts.end(), [](std::int64_t amount) { return amount == 0; });
  };
  return none("low") && none("high");
}

Attrs outer_attrs(const Match& match) { return match.outer; }

/// transpose(x, inner) then outer: axis i comes from inner[outer[i]].
Attrs composed_perm(const Match& match) {
  const auto& inner = match.inner.get<Integers>("perm");
  Integers perm;
  for (std::int64_t axis : match.outer.get<Integers>("perm")) perm.push_back(inner[static_cast<std::size_t>(axis)]);
  return {{"perm", perm}};
}

/// Every rule holds bit for bit, for NaN, infinities and both zeros. Not here for that reason: x + 0 = x (it is 0 for
/// x = -0) and x * 0 = 0 of floats, abs(neg(x)) = abs(x) of u8 (which wraps).
std::vector<Rule> table() {
  const Pattern x = variable(0), y = variable(1), c = variable(2);
  const Pattern zero = number(0.0), minus_zero = number(-0.0), one = number(1), no = number(0.0), yes = number(1);

  const auto add = op("add"), sub = op("sub"), mul = op("mul"), div = op("div"), neg = op("neg"), abs = op("abs");
  const auto maximum = op("maximum"), minimum = op("minimum"), relu = op("relu"), sign = op("sign");
  const auto ceil = op("ceil"), floor = op("floor"), round = op("round"), trunc = op("trunc");
  const auto logical_not = op("logical_not"), logical_and = op("logical_and"), logical_or = op("logical_or");
  const auto bit_not = op("bit_not"), bit_and = op("bit_and"), bit_or = op("bit_or"), bit_xor = op("bit_xor");
  const auto shift_left = op("shift_left"), shift_right = op("shift_right"), select = op("select"), cast = op("cast");
  const auto reshape = op("reshape"), transpose = op("transpose"), broadcast = op("broadcast"), slice = op("slice");
  const auto pad = op("pad"), concat = op("concat");

  return {
      // Arithmetic.
      {add(x, minus_zero), x, of_floats},
      {add(minus_zero, x), x, of_floats},
      {add(x, zero), x, of_integers},
      {add(zero, x), x, of_integers},
      {sub(x, zero), x},
      {mul(x, one), x},
      {mul(one, x), x},
      {div(x, one), x},
      {neg(neg(x)), x},
      {abs(abs(x)), abs(x)},
      {abs(neg(x)), abs(x), of_floats},
      {maximum(x, x), x},
      {minimum(x, x), x},
      {relu(relu(x)), relu(x)},
      {sign(sign(x)), sign(x)},
      {ceil(ceil(x)), ceil(x)},
      {floor(floor(x)), floor(x)},
      {round(round(x)), round(x)},
      {trunc(trunc(x)), trunc(x)},
      // Truth and bits.
      {logical_not(logical_not(x)), x},
      {logical_and(x, x), x},
      {logical_and(x, yes), x},
      {logical_and(yes, x), x},
      {logical_or(x, x), x},
      {logical_or(x, no), x},
      {logical_or(no, x), x},
      {bit_not(bit_not(x)), x},
      {bit_and(x, x), x},
      {bit_or(x, x), x},
      {bit_or(x, zero), x},
      {bit_or(zero, x), x},
      {bit_xor(x, zero), x},
      {bit_xor(zero, x), x},
      {shift_left(x, zero), x},
      {shift_right(x, zero), x},
      // Choice.
      {select(yes, x, y), x},
      {select(no, x, y), y},
      {select(c, x, x), x},
      {select(logical_not(c), x, y), select(c, y, x)},
      // Conversion.
      {cast(x), x, same_type},
      {cast(cast(x)), x, there_and_back},
      // Views.
      {reshape(x), x, same_type},
      {reshape(reshape(x)), reshape(x), {}, outer_attrs},
      {transpose(x), x, keeps_order},
      {transpose(transpose(x)), transpose(x), {}, composed_perm},
      {broadcast(x), x, same_type},
      {broadcast(broadcast(x)), broadcast(x), {}, outer_attrs},
      {slice(x), x, same_type},
      {pad(x), x, pads_nothing},
      {concat(x), x},
  };
}

}  // namespace

const RuleSet& simplify_rules() {
  static const RuleSet rules(table());
  return rules;
}

Graph simplify(const Graph& graph) {
  Rebuild rebuild(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const Node& node = graph.node(id);
    rebuild.set(id, is_signature(node) ? rebuild.copy(id)
                                       : simplify_rules().emit(rebuild.to(), node.op->name, rebuild.operands(id),
                                                               node.attrs, node.type));
  }
  return rebuild.finish();
}

}  // namespace wholestep::passes
