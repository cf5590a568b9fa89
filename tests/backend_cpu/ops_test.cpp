#include <cmath>
#include <limits>
#include <type_traits>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

class CpuOps : public OnEveryPath {};

template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return {T(0),
            T(-0.0),
            T(1),
            T(-1),
            T(0.5),
            T(-0.5),
            T(1.5),
            T(2.5),
            T(-2.5),
            T(3.75),
            T(-7),
            T(1e6),
            Limits::min(),
            Limits::denorm_min(),
            -Limits::denorm_min(),
            Limits::max(),
            Limits::lowest(),
            Limits::infinity(),
            -Limits::infinity(),
            Limits::quiet_NaN()};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else {
    return {T(0),          T(1),
            T(2),          T(3),
            T(5),          T(7),
            T(31),         T(63),
            T(64),         T(100),
            T(-1),         T(-2),
            T(-7),         T(-100),
            Limits::min(), T(Limits::min() + 1),
            Limits::max(), T(Limits::max() - 1)};
  }
}

template <class T>
Array array_of(const std::vector<T>& values) {
  Array array(dtype_of<T>(), {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) array.as<T>()[i] = values[i];
  return array;
}

/// Equal, where any NaN equals any other.
template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b && std::signbit(a) == std::signbit(b);
  } else {
    return a == b;
  }
}

template <class T>
T wrap(__int128 value) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value));
}

/// What scalar.h says of `op` in dtype T, boolean results as T.
template <class T>
T expected_binary(BinaryOp op, T a, T b) {
  constexpr bool real = std::is_floating_point_v<T>;
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
      break;
  }
  if constexpr (real) {
    switch (op) {
      case BinaryOp::add:
        return a + b;
      case BinaryOp::sub:
        return a - b;
      case BinaryOp::mul:
        return a * b;
      case BinaryOp::div:
        return a / b;
      case BinaryOp::rem:
        return std::fmod(a, b);
      case BinaryOp::pow:
        return std::pow(a, b);
      case BinaryOp::atan2:
        return std::atan2(a, b);
      case BinaryOp::max:
        return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
      case BinaryOp::min:
        return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? a : b;
      default:
        return 0;
    }
  } else {
    const __int128 x = a, y = b;
    constexpr int bits = sizeof(T) * 8;
    const bool counts = y >= 0 && y < bits;
    switch (op) {
      case BinaryOp::add:
        return wrap<T>(x + y);
      case BinaryOp::sub:
        return wrap<T>(x - y);
      case BinaryOp::mul:
        return wrap<T>(x * y);
      case BinaryOp::div:
        return y == 0 ? wrap<T>(-1) : wrap<T>(x / y);
      case BinaryOp::rem:
        return y == 0 ? a : wrap<T>(x % y);
      case BinaryOp::max:
        return std::max(a, b);
      case BinaryOp::min:
        return std::min(a, b);
      case BinaryOp::bit_and:
        return a & b;
      case BinaryOp::bit_or:
        return a | b;
      case BinaryOp::bit_xor:
        return a ^ b;
      case BinaryOp::shift_left:
        return counts ? wrap<T>(x << static_cast<int>(y)) : T(0);
      case BinaryOp::shift_right:
        return counts ? wrap<T>(x >> static_cast<int>(y)) : x < 0 ? T(-1) : T(0);
      default:
        return 0;
    }
  }
}

template <class T>
T expected_unary(UnaryOp op, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case UnaryOp::neg:
        return -x;
      case UnaryOp::abs:
        return std::fabs(x);
      case UnaryOp::sign:
        return x > 0 ? T(1) : x < 0 ? T(-1) : x;
      case UnaryOp::ceil:
        return std::ceil(x);
      case UnaryOp::floor:
        return std::floor(x);
      case UnaryOp::round:
        return std::nearbyint(x);
      case UnaryOp::trunc:
        return std::trunc(x);
      case UnaryOp::sqrt:
        return std::sqrt(x);
      default:
        return 0;
    }
  } else {
    switch (op) {
      case UnaryOp::neg:
        return wrap<T>(-static_cast<__int128>(x));
      case UnaryOp::abs:
        return x < 0 ? wrap<T>(-static_cast<__int128>(x)) : x;
      case UnaryOp::sign:
        return x > 0 ? T(1) : x < 0 ? T(-1) : T(0);
      case UnaryOp::bit_not:
        return static_cast<T>(~x);
      default:
        return x;
    }
  }
}

template <class T>
void check_binary(backend::Backend& cpu, int lanes, const std::vector<BinaryOp>& ops) {
  std::vector<T> a, b;
  for (const T x : edges<T>()) {
    for (const T y : edges<T>()) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const auto count = static_cast<std::int64_t>(a.size());
  for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
    TestNest test(lanes);
    const int left = test.buffer(array_of(a)), right = test.buffer(array_of(b));
    ExprBuilder exprs = test.exprs();
    Block body;
    std::vector<int> outputs;
    for (const BinaryOp op : ops) {
      ExprId value = exprs.binary(op, load(exprs, test, left, var(0)), load(exprs, test, right, var(0)));
      if (exprs[value].dtype != dtype_of<T>()) value = exprs.cast(value, dtype_of<T>());
      outputs.push_back(test.output(dtype_of<T>(), count));
      body.push_back(store(outputs.back(), var(0), value));
    }
    test.nest.body.push_back(loop(0, count, kind, body));
    test.run(cpu);
    for (std::size_t o = 0; o < ops.size(); ++o) {
      const auto result = test.arrays[static_cast<std::size_t>(outputs[o])].template as<T>();
      for (std::size_t i = 0; i < a.size(); ++i) {
        const T expected = expected_binary<T>(ops[o], a[i], b[i]);
        EXPECT_TRUE(same<T>(result[i], expected))
            << loops::to_string(ops[o]) << "(" << +a[i] << ", " << +b[i] << ") of " << to_string(dtype_of<T>()) << " = "
            << +result[i] << ", not " << +expected;
      }
    }
  }
}

template <class T>
void check_unary(backend::Backend& cpu, int lanes, const std::vector<UnaryOp>& ops) {
  const std::vector<T> values = edges<T>();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
    TestNest test(lanes);
    const int in = test.buffer(array_of(values));
    ExprBuilder exprs = test.exprs();
    Block body;
    std::vector<int> outputs;
    for (const UnaryOp op : ops) {
      outputs.push_back(test.output(dtype_of<T>(), count));
      body.push_back(store(outputs.back(), var(0), exprs.unary(op, load(exprs, test, in, var(0)))));
    }
    test.nest.body.push_back(loop(0, count, kind, body));
    test.run(cpu);
    for (std::size_t o = 0; o < ops.size(); ++o) {
      const auto result = test.arrays[static_cast<std::size_t>(outputs[o])].template as<T>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const T expected = expected_unary<T>(ops[o], values[i]);
        EXPECT_TRUE(same<T>(result[i], expected))
            << loops::to_string(ops[o]) << "(" << +values[i] << ") of " << to_string(dtype_of<T>()) << " = "
            << +result[i] << ", not " << +expected;
      }
    }
  }
}

const std::vector<BinaryOp> kComparisons = {BinaryOp::eq, BinaryOp::ne, BinaryOp::lt,
                                            BinaryOp::le, BinaryOp::gt, BinaryOp::ge};

TEST_P(CpuOps, BinaryOpsOfFloatsDoWhatTheTableSays) {
  std::vector<BinaryOp> ops = {BinaryOp::add, BinaryOp::sub,   BinaryOp::mul, BinaryOp::div, BinaryOp::rem,
                               BinaryOp::pow, BinaryOp::atan2, BinaryOp::max, BinaryOp::min};
  ops.insert(ops.end(), kComparisons.begin(), kComparisons.end());
  check_binary<float>(*cpu, lanes(), ops);
  check_binary<double>(*cpu, lanes(), ops);
}

TEST_P(CpuOps, BinaryOpsOfIntegersWrapAndNeverTrap) {
  std::vector<BinaryOp> ops = {BinaryOp::add,    BinaryOp::sub,     BinaryOp::mul,        BinaryOp::div,
                               BinaryOp::rem,    BinaryOp::max,     BinaryOp::min,        BinaryOp::bit_and,
                               BinaryOp::bit_or, BinaryOp::bit_xor, BinaryOp::shift_left, BinaryOp::shift_right};
  ops.insert(ops.end(), kComparisons.begin(), kComparisons.end());
  check_binary<std::int32_t>(*cpu, lanes(), ops);
  check_binary<std::int64_t>(*cpu, lanes(), ops);
  check_binary<std::uint8_t>(*cpu, lanes(), ops);
}

TEST_P(CpuOps, UnaryOpsDoWhatTheTableSays) {
  const std::vector<UnaryOp> real = {UnaryOp::neg,   UnaryOp::abs,   UnaryOp::sign,  UnaryOp::ceil,
                                     UnaryOp::floor, UnaryOp::round, UnaryOp::trunc, UnaryOp::sqrt};
  check_unary<float>(*cpu, lanes(), real);
  check_unary<double>(*cpu, lanes(), real);
  const std::vector<UnaryOp> integer = {UnaryOp::neg, UnaryOp::abs, UnaryOp::sign, UnaryOp::bit_not};
  check_unary<std::int32_t>(*cpu, lanes(), integer);
  check_unary<std::int64_t>(*cpu, lanes(), integer);
  check_unary<std::uint8_t>(*cpu, lanes(), integer);
}

TEST_P(CpuOps, BooleansCombineAndSelect) {
  TestNest test(lanes());
  const std::vector<float> x = {1, std::nanf(""), 3, -4, 0};
  const auto count = static_cast<std::int64_t>(x.size());
  const int in = test.buffer(x), out = test.output(boolean, count), chosen = test.output(f32, count);
  ExprBuilder exprs = test.exprs();
  const ExprId value = load(exprs, test, in, var(0));
  const ExprId nan = exprs.unary(UnaryOp::is_nan, value);
  const ExprId positive = exprs.binary(BinaryOp::gt, value, exprs.constant(0, f32));
  const ExprId either = exprs.binary(BinaryOp::logical_or, nan, positive);
  const ExprId neither = exprs.unary(UnaryOp::logical_not, either);
  const ExprId odd = exprs.binary(BinaryOp::logical_xor, neither, exprs.binary(BinaryOp::logical_and, nan, positive));
  test.nest.body.push_back(
      loop(0, count, LoopKind::vector,
           {store(out, var(0), odd), store(chosen, var(0), exprs.select(either, value, exprs.constant(9, f32)))}));
  test.run(*cpu);
  const auto flags = std::as_const(test.arrays[1]).as<bool>();
  EXPECT_EQ(std::vector<bool>(flags.begin(), flags.end()), (std::vector<bool>{false, false, false, true, true}));
  const auto values = std::as_const(test.arrays[2]).as<float>();
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[0] + values[2] + values[3] + values[4], 1 + 3 + 9 + 9);
}

/// Casts `values` to `to`; element i of the result as double.
template <class T>
std::vector<double> cast_to(backend::Backend& cpu, int lanes, const std::vector<T>& values, DType to, LoopKind kind) {
  TestNest test(lanes);
  const auto count = static_cast<std::int64_t>(values.size());
  const int in = test.buffer(array_of(values)), out = test.output(to, count);
  ExprBuilder exprs = test.exprs();
  test.nest.body.push_back(loop(0, count, kind, {store(out, var(0), exprs.cast(load(exprs, test, in, var(0)), to))}));
  test.run(cpu);
  return test.arrays[static_cast<std::size_t>(out)].to_doubles();
}

TEST_P(CpuOps, CastsOfFloatsToIntegersSaturate) {
  for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
    const std::vector<double> values = {0.9,  -0.9, 2.5,   -2.5, 300,      -5,       3e9,
                                        -3e9, 1e30, -1e30, NAN,  INFINITY, -INFINITY};
    const auto i32s = cast_to(*cpu, lanes(), values, i32, kind);
    EXPECT_EQ(i32s, (std::vector<double>{0, 0, 2, -2, 300, -5, 2147483647.0, -2147483648.0, 2147483647.0, -2147483648.0,
                                         0, 2147483647.0, -2147483648.0}));
    const auto u8s = cast_to(*cpu, lanes(), values, u8, kind);
    EXPECT_EQ(u8s, (std::vector<double>{0, 0, 2, 0, 255, 0, 255, 0, 255, 0, 0, 255, 0}));
    const auto i64s = cast_to(*cpu, lanes(), values, i64, kind);
    EXPECT_EQ(i64s[6], 3e9);
    EXPECT_EQ(i64s[8], 9223372036854775807.0);
    EXPECT_EQ(i64s[9], -9223372036854775808.0);
    EXPECT_EQ(i64s[10], 0);
    const auto flags = cast_to(*cpu, lanes(), values, boolean, kind);
    EXPECT_EQ(flags, std::vector<double>(values.size(), 1));
    const std::vector<float> singles(values.begin(), values.end());
    EXPECT_EQ(cast_to(*cpu, lanes(), singles, i32, kind), i32s);
    EXPECT_EQ(cast_to(*cpu, lanes(), singles, u8, kind), u8s);
  }
}

TEST_P(CpuOps, CastsOfIntegersWrap) {
  for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
    const std::vector<std::int64_t> values = {
        0, -1, 255, 256, 257, std::int64_t{1} << 40, (std::int64_t{1} << 40) + 3, -129};
    EXPECT_EQ(cast_to(*cpu, lanes(), values, u8, kind), (std::vector<double>{0, 255, 255, 0, 1, 0, 3, 127}));
    EXPECT_EQ(cast_to(*cpu, lanes(), values, i32, kind), (std::vector<double>{0, -1, 255, 256, 257, 0, 3, -129}));
    EXPECT_EQ(cast_to(*cpu, lanes(), values, boolean, kind), (std::vector<double>{0, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(cast_to(*cpu, lanes(), values, f64, kind)[6], 1099511627779.0);
    const std::vector<std::uint8_t> bytes = {0, 1, 200, 255};
    EXPECT_EQ(cast_to(*cpu, lanes(), bytes, f32, kind), (std::vector<double>{0, 1, 200, 255}));
    EXPECT_EQ(cast_to(*cpu, lanes(), bytes, i32, kind), (std::vector<double>{0, 1, 200, 255}));
    const std::vector<bool> flags = {false, true};
    EXPECT_EQ(cast_to(*cpu, lanes(), flags, f32, kind), (std::vector<double>{0, 1}));
  }
}

TEST_P(CpuOps, CastsToNarrowFloatsRoundOnceToNearestEven) {
  // Around every tie of both formats, from doubles that f32 cannot hold.
  std::vector<double> values = {0.0,     -0.0,      65504,       65519.99, 65520,   65536,    1e6,
                                -1e6,    3.3895e38, 3.4e38,      1e39,     5.96e-8, 2.98e-8,  2.9802322387695312e-08,
                                2.99e-8, 1e-45,     -1e-50,      9.2e-41,  4.6e-41, INFINITY, -INFINITY,
                                NAN,     6.1e-5,    6.0975552e-5};
  for (int exponent = -30; exponent < 20; ++exponent) {
    for (int step = 0; step < 64; ++step) {
      const double tie = std::ldexp(1 + (2 * step + 1) / 256.0, exponent),
                   narrow_tie = std::ldexp(1 + (2 * step + 1) / 2048.0, exponent);
      for (const double x : {tie, narrow_tie}) {
        for (const double nudge : {-1e-12, 0.0, 1e-12}) values.push_back((step % 2 ? 1 : -1) * x * (1 + nudge));
      }
    }
  }
  for (const DType to : {bf16, f16}) {
    Array exact = Array::from_doubles({to, {static_cast<std::int64_t>(values.size())}}, values);
    for (const LoopKind kind : {LoopKind::vector, LoopKind::serial}) {
      const std::vector<double> result = cast_to(*cpu, lanes(), values, to, kind), expected = exact.to_doubles();
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(same(result[i], expected[i]))
            << to_string(to) << "(" << values[i] << ") = " << result[i] << ", not " << expected[i];
      }
    }
  }
}

TEST_P(CpuOps, NarrowFloatsOfEveryBitPatternBecomeTheirValue) {
  for (const DType from : {bf16, f16}) {
    std::vector<std::uint16_t> patterns(65536);
    for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
    TestNest test(lanes());
    const int in = test.buffer(Array::from_bytes({from, {65536}}, patterns.data(), 131072)),
              out = test.output(f32, 65536), back = test.output(from, 65536);
    ExprBuilder exprs = test.exprs();
    const ExprId wide = exprs.cast(load(exprs, test, in, var(0)), f32);
    test.nest.body.push_back(
        loop(0, 65536, LoopKind::vector, {store(out, var(0), wide), store(back, var(0), exprs.cast(wide, from))}));
    test.run(*cpu);
    const std::vector<double> expected = test.arrays[0].to_doubles(), result = test.arrays[1].to_doubles(),
                              again = test.arrays[2].to_doubles();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(same(result[i], expected[i])) << to_string(from) << " " << i;
      ASSERT_TRUE(same(again[i], expected[i])) << to_string(from) << " " << i;
    }
  }
}

TEST_P(CpuOps, BitcastsKeepTheBits) {
  TestNest test(lanes());
  const std::vector<float> values = edges<float>();
  const auto count = static_cast<std::int64_t>(values.size());
  const int in = test.buffer(values), bits = test.output(i32, count), back = test.output(f32, count);
  ExprBuilder exprs = test.exprs();
  const ExprId as_bits = exprs.bitcast(load(exprs, test, in, var(0)), i32);
  test.nest.body.push_back(loop(0, count, LoopKind::vector,
                                {store(bits, var(0), as_bits), store(back, var(0), exprs.bitcast(as_bits, f32))}));
  test.run(*cpu);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::as_const(test.arrays[1]).as<std::int32_t>()[i], std::bit_cast<std::int32_t>(values[i]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(std::as_const(test.arrays[2]).as<float>()[i]),
              std::bit_cast<std::uint32_t>(values[i]));
  }
}

TEST_P(CpuOps, FmaRoundsOnceWhereTheTargetSaysSo) {
  TestNest test(lanes());
  const float x = 1 + 0x1p-12f;
  const int in = test.buffer(std::vector<float>{x, -(1 + 0x1p-11f)}), out = test.output(f32, 1);
  ExprBuilder exprs = test.exprs();
  const ExprId a = load(exprs, test, in, 0), c = load(exprs, test, in, 1);
  test.nest.body.push_back(store(out, 0, exprs.fma(a, a, c)));
  test.run(*cpu);
  EXPECT_EQ(std::as_const(test.arrays[1]).as<float>()[0], cpu->target().has_fma ? 0x1p-24f : 0.0f);
}

// A maximum of what was f16, made f16 again: no processor but the newest has that, and no library either.
TEST_P(CpuOps, HalvesAreComputedInSingle) {
  for (const int lanes : {1, this->lanes()}) {
    TestNest test(lanes);
    const std::vector<float> values{-2, -0.0F, 0.5F, 3, std::numeric_limits<float>::quiet_NaN()};
    const auto count = static_cast<std::int64_t>(values.size());
    const int single = test.buffer(values), chosen = test.buffer(array_of<bool>({1, 1, 1, 0, 1}));
    const int out = test.output(f16, count), wide = test.output(f32, count), half = test.local(f16, count);
    ExprBuilder exprs = test.exprs();
    const ExprId x = exprs.cast(load(exprs, test, half, var(1)), f32);
    const ExprId larger = exprs.cast(exprs.binary(BinaryOp::max, x, exprs.constant(0, f32)), f16);
    const ExprId value = exprs.select(load(exprs, test, chosen, var(1)), larger, exprs.constant(0, f16));
    test.nest.body.push_back(
        loop(0, count, LoopKind::vector, {store(half, var(0), exprs.cast(load(exprs, test, single, var(0)), f16))}));
    test.nest.body.push_back(loop(1, count, LoopKind::vector, {store(out, var(1), value)}));
    test.nest.body.push_back(
        loop(2, count, LoopKind::vector, {store(wide, var(2), exprs.cast(load(exprs, test, out, var(2)), f32))}));
    test.run(*cpu);
    const auto result = test.arrays.back().as<float>();
    EXPECT_EQ(std::vector<float>(result.begin(), result.begin() + 4), (std::vector<float>{0, 0, 0.5F, 0}));
    EXPECT_TRUE(std::isnan(result[4]));
  }
}

ON_EVERY_PATH(CpuOps);

}  // namespace
}  // namespace wholestep::test
