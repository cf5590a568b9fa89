// Random numbers: a function of a key, a stream and a position, never of what was drawn before.
#include "core/random.h"

#include <array>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/shape_rules.h"

namespace wholestep {
namespace {

using elementwise::Scalar;
using loops::BinaryOp;
using Extents = std::vector<std::int64_t>;

constexpr std::int64_t kWord = std::int64_t{1} << 32;

/// Words that an element takes from the stream.
std::int64_t words_of(DType dtype) { return dtype == DType::i64 ? 2 : 1; }

TensorType infer_bits(const InferArgs& args) {
  const TensorType& key = args.operands[0];
  const Extents& shape = args.attrs.get<Extents>("shape");
  const DType dtype = args.attrs.get<DType>("dtype");
  const std::int64_t stream = args.attrs.get<std::int64_t>("stream");
  if (key.dtype != DType::i32) args.fail(ErrorCode::dtype_mismatch, "expected an i32 key");
  if (key.shape != Shape{4}) args.fail(ErrorCode::shape_mismatch, "expected a key of shape [4]");
  if (dtype != DType::i32 && dtype != DType::i64) args.fail(ErrorCode::dtype_mismatch, "gives bits as i32 or i64");
  if (stream < 0 || stream >= kWord) {
    args.fail(ErrorCode::invalid_argument, "expected 0 <= stream < 2^32, got " + std::to_string(stream));
  }
  rules::check_shape(args, shape);
  if (rules::elements(shape) > 4 * kWord / words_of(dtype)) {
    args.fail(ErrorCode::invalid_argument, to_string(shape) + " needs more than the 2^34 words of a stream");
  }
  return {dtype, shape};
}

void evaluate_bits(const EvalArgs& args) {
  const auto key = [&](std::size_t i) { return static_cast<std::uint32_t>(args.operands[0]->integer[i]); };
  const auto stream = static_cast<std::uint32_t>(args.node.attrs.get<std::int64_t>("stream"));
  const auto word = [&](std::int64_t position) {
    const auto block =
        random::philox({static_cast<std::uint32_t>(position / 4), stream, key(2), key(3)}, {key(0), key(1)});
    return std::uint64_t{block[static_cast<std::size_t>(position % 4)]};
  };
  const std::int64_t words = words_of(args.result.type.dtype);
  for (std::int64_t i = 0; i < args.result.size(); ++i) {
    const std::uint64_t bits = words == 1 ? word(i) : word(2 * i + 1) << 32 | word(2 * i);
    args.result.integer[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(bits);
  }
}

// A word is the lower half of an i64, whose upper half means nothing. Masked in front of a multiplication alone, so
// that this is one of halves wherever a machine has that.
Scalar low_word(Scalar x) {
  auto& exprs = x.exprs();
  return {exprs, exprs.binary(BinaryOp::bit_and, x.id(), exprs.constant(static_cast<double>(kWord - 1), DType::i64))};
}
Scalar high_word(Scalar x) { return elementwise::apply(BinaryOp::shift_right, x, x.constant(32)); }
Scalar exclusive_or(Scalar a, Scalar b) { return elementwise::apply(BinaryOp::bit_xor, a, b); }

// `random::philox` as expressions.
std::array<Scalar, 4> philox(std::array<Scalar, 4> counter, std::array<Scalar, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const Scalar even = low_word(counter[0]) * counter[0].constant(0xD2511F53);
    const Scalar odd = low_word(counter[2]) * counter[2].constant(0xCD9E8D57);
    counter = {exclusive_or(high_word(odd), exclusive_or(counter[1], key[0])), odd,
               exclusive_or(high_word(even), exclusive_or(counter[3], key[1])), even};
    key = {key[0] + key[0].constant(0x9E3779B9), key[1] + key[1].constant(0xBB67AE85)};
  }
  return counter;
}

loops::ExprId lower_bits(LowerContext& ctx, const loops::Index& at) {
  loops::ExprBuilder& exprs = ctx.exprs();
  const Node& node = ctx.node();
  const auto stream = static_cast<double>(node.attrs.get<std::int64_t>("stream"));
  const DType dtype = node.type.dtype;
  const auto key = [&](std::int64_t i) {
    return Scalar{exprs, exprs.cast(ctx.operand(0, {loops::Affine(i)}), DType::i64)};
  };
  const Scalar position{exprs, exprs.index(loops::flatten(at, node.type.shape))};
  const Scalar per_block = position.constant(words_of(dtype) == 1 ? 2 : 1);  // logarithm of elements in a block
  const Scalar block = elementwise::apply(BinaryOp::shift_right, position, per_block);
  const auto words = philox({block, position.constant(stream), key(2), key(3)}, {key(0), key(1)});

  const auto position_has = [&](double bit) {
    const Scalar bits = elementwise::apply(BinaryOp::bit_and, position, position.constant(bit));
    return elementwise::apply(BinaryOp::ne, bits, bits.constant(0));
  };
  if (words_of(dtype) == 1) {
    const Scalar odd = position_has(1);
    const Scalar word = elementwise::select(position_has(2), elementwise::select(odd, words[3], words[2]),
                                            elementwise::select(odd, words[1], words[0]));
    return exprs.cast(word.id(), dtype);
  }
  const Scalar odd = position_has(1);
  const Scalar high = elementwise::select(odd, words[3], words[1]), low = elementwise::select(odd, words[2], words[0]);
  return elementwise::apply(BinaryOp::bit_or, elementwise::apply(BinaryOp::shift_left, high, high.constant(32)),
                            low_word(low))
      .id();
}

/// Bits of the significand, the hidden one included.
int precision(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 53;
    case DType::f32:
      return 24;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    default:
      throw Error(ErrorCode::dtype_mismatch,
                  "random_uniform: expected a floating-point type, got " + std::string(to_string(dtype)));
  }
}

}  // namespace

/// Random bits by Philox4x32-10 (Salmon et al., 2011). `key` is i32 [4]: the low and high word of a seed, then those of
/// a step. `stream` in [0, 2^32) sets uses of one key apart. Word w of a stream is word w % 4 of the block with counter
/// (w / 4, stream, step low, step high) under key (seed low, seed high); as i32, element i in row-major order is word
/// i, as i64 it is words 2i (low) and 2i + 1 (high). Equal on every device. Throws `shape_mismatch`, `dtype_mismatch`,
/// `invalid_argument` (stream; more than 2^34 words).
Tensor random_bits(Tensor key, Shape shape, std::int64_t stream, DType dtype /* = DType::i32 */) {
  Graph& graph = rules::graph_of("random_bits", key);
  return graph.apply("random_bits", {key}, {{"shape", std::move(shape)}, {"stream", stream}, {"dtype", dtype}});
}

/// Uniform in [0, 1): the upper bits of `random_bits`, as many as the significand of `dtype` holds, scaled exactly. f64
/// takes i64 bits. Equal on every device. Throws as `random_bits`.
Tensor random_uniform(Tensor key, Shape shape, std::int64_t stream, DType dtype /* = DType::f32 */) {
  Graph& graph = rules::graph_of("random_uniform", key);
  const int kept = precision(dtype);
  const DType whole = dtype == DType::f64 ? DType::i64 : DType::i32;
  const Tensor bits = random_bits(key, std::move(shape), stream, whole);
  const Tensor upper = elementwise::apply_broadcast(
      "shift_right", {bits, graph.constant(static_cast<double>(8 * size_of(whole)) - kept, whole)});
  const Tensor mask = graph.constant(static_cast<double>((std::int64_t{1} << kept) - 1), whole);
  return mul(cast(elementwise::apply_broadcast("bit_and", {upper, mask}), dtype),
             1 / static_cast<double>(std::int64_t{1} << kept));
}

/// Standard normal: sqrt(-2 log(1 - u)) cos(2 pi v) (Box and Muller, 1958), element i from u, v = elements 2i and 2i +
/// 1 of `random_uniform` in `dtype`, or in f32 for bf16 and f16. Devices agree to the rounding of their functions.
/// Throws as `random_bits`.
Tensor random_normal(Tensor key, Shape shape, std::int64_t stream, DType dtype /* = DType::f32 */) {
  rules::graph_of("random_normal", key);
  Shape pairs = shape;
  pairs.push_back(2);
  const Tensor uniform = random_uniform(key, pairs, stream, rules::is_half(dtype) ? DType::f32 : dtype);
  const auto half = [&](std::int64_t index) {
    Extents starts(pairs.size(), 0), limits = pairs;
    starts.back() = index;
    limits.back() = index + 1;
    return reshape(slice(uniform, starts, limits), shape);
  };
  const Tensor radius = sqrt(mul(log(sub(1.0, half(0))), -2.0));
  return rules::narrow(mul(radius, cos(mul(half(1), 2 * std::numbers::pi))), dtype);
}

void register_random(OpTable& table) {
  OpDef bits{.name = "random_bits",
             .doc = "Bits of Philox4x32-10 as a function of a key (seed and step), a stream and the position.",
             .kind = OpKind::view};
  bits.attrs = {
      {"shape", "extents"}, {"stream", "sets uses of one key apart, in [0, 2^32)"}, {"dtype", "i32: a word; i64: two"}};
  bits.infer = infer_bits;
  bits.evaluate = evaluate_bits;
  bits.gradient = NotDifferentiable{"bits are no function of real numbers"};
  bits.lower = lower_bits;
  const auto of = [](Extents shape, std::int64_t stream, DType dtype) {
    return OpExample{
        {{DType::i32, {4}}}, {{"shape", std::move(shape)}, {"stream", stream}, {"dtype", dtype}}, {{-0x1p31, 0x1p31}}};
  };
  bits.examples = {of({}, 0, i32),     of({7}, 1, i32),        of({3, 37}, kWord - 1, i32),
                   of({2, 0}, 0, i32), of({2, 3, 17}, 5, i64), of({1}, 2, i64)};
  table.add(std::move(bits));
}

}  // namespace wholestep
