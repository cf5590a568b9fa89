#include <cmath>
#include <limits>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

class CpuMath : public OnEveryPath {
 protected:
  /// out = op(in), element by element, as vectors or one at a time.
  template <class T>
  std::vector<T> apply(UnaryOp op, const std::vector<T>& values, bool vector) {
    TestNest test(lanes());
    const auto count = static_cast<std::int64_t>(values.size());
    const int in = test.buffer(values), out = test.output(dtype_of<T>(), count);
    const ExprId y = test.exprs().unary(op, load(test.exprs(), test, in, var(0)));
    test.nest.body.push_back(loop(0, count, vector ? LoopKind::vector : LoopKind::serial, {store(out, var(0), y)}));
    test.run(*cpu);
    const auto result = std::as_const(test.arrays[static_cast<std::size_t>(out)]).as<T>();
    return {result.begin(), result.end()};
  }
};

/// Floats from all of the number line: every exponent, mantissas at its ends and in between.
std::vector<float> sample() {
  std::vector<float> values;
  for (std::uint32_t exponent = 0; exponent <= 255; ++exponent) {
    for (std::uint32_t step = 0; step < 600; ++step) {
      const std::uint32_t mantissa = step < 3     ? step
                                     : step > 596 ? 0x7fffff - (600 - step)
                                                  : (step * 2654435761u) & 0x7fffff;
      for (const std::uint32_t sign : {0u, 0x80000000u})
        values.push_back(std::bit_cast<float>(sign | exponent << 23 | mantissa));
    }
  }
  for (int i = -60000; i <= 60000; ++i) values.push_back(static_cast<float>(i) * 0.0017f);
  return values;
}

double ulp_of(double x) {
  const float rounded = std::fabs(static_cast<float>(x));
  if (rounded < 0x1p-126f) return 0x1p-149;
  return std::ldexp(1.0, std::ilogb(rounded) - 23);
}

struct Function {
  UnaryOp op;
  double (*exact)(double);
  double limit;  // in units of the last place
};

const Function kFunctions[] = {
    {UnaryOp::exp, std::exp, 1.25},    {UnaryOp::expm1, std::expm1, 2.0}, {UnaryOp::log, std::log, 1.0},
    {UnaryOp::log1p, std::log1p, 2.0}, {UnaryOp::tanh, std::tanh, 2.0},   {UnaryOp::sqrt, std::sqrt, 0.5},
    {UnaryOp::sin, std::sin, 2.0},     {UnaryOp::cos, std::cos, 2.0},     {UnaryOp::erf, std::erf, 2.0},
    {UnaryOp::atan, std::atan, 2.0},   {UnaryOp::sinh, std::sinh, 3.0},   {UnaryOp::erfc, std::erfc, 6.0},
};

TEST_P(CpuMath, StaysWithinAFewUnitsOfTheLastPlaceEverywhere) {
  const std::vector<float> values = sample();
  for (const Function& f : kFunctions) {
    const std::vector<float> results = apply(f.op, values, true);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double exact = f.exact(values[i]);
      const auto rounded = static_cast<float>(exact);
      if (std::isnan(exact) || std::isinf(rounded) || exact == 0) {
        const bool same = std::isnan(exact) ? std::isnan(results[i]) : results[i] == rounded;
        // Where the last float and infinity are neighbours, either is within the limit.
        const bool edge = std::isinf(rounded) && std::fabs(results[i]) == std::numeric_limits<float>::max();
        EXPECT_TRUE(same || edge) << loops::to_string(f.op) << "(" << values[i] << ") = " << results[i] << ", not "
                                  << rounded;
        continue;
      }
      const double off = std::fabs(results[i] - exact) / ulp_of(exact);
      if (!(off <= worst)) {
        worst = off;
        at = values[i];
      }
    }
    EXPECT_LE(worst, f.limit) << loops::to_string(f.op) << " at " << at;
    RecordProperty(std::string(loops::to_string(f.op)), std::to_string(worst));
  }
}

TEST_P(CpuMath, RoundsSquareRootsCorrectly) {
  std::vector<float> values;
  for (const std::uint32_t exponent : {1u, 20u, 37u, 38u, 126u, 127u, 253u, 254u})
    for (std::uint32_t mantissa = 0; mantissa < 1u << 23; mantissa += 41)
      values.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
  const std::vector<float> results = apply(UnaryOp::sqrt, values, true);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(results[i], std::sqrt(values[i])) << values[i];
}

TEST_P(CpuMath, GivesTheSameBitsInAVectorAndAlone) {
  const std::vector<float> values = sample();
  for (int op = 0; op <= static_cast<int>(UnaryOp::erfc); ++op) {
    const auto unary = static_cast<UnaryOp>(op);
    const auto together = apply(unary, values, true), alone = apply(unary, values, false);
    int different = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool nan = std::isnan(together[i]) && std::isnan(alone[i]);
      if (!nan && std::bit_cast<std::uint32_t>(together[i]) != std::bit_cast<std::uint32_t>(alone[i])) ++different;
    }
    EXPECT_EQ(different, 0) << loops::to_string(unary);
  }
}

TEST_P(CpuMath, KeepsTheSignOfZeroInOddFunctions) {
  for (const UnaryOp op : {UnaryOp::expm1, UnaryOp::log1p, UnaryOp::tanh, UnaryOp::sin, UnaryOp::sqrt, UnaryOp::erf}) {
    const auto result = apply<float>(op, {-0.0f, 0.0f}, true);
    EXPECT_TRUE(std::signbit(result[0])) << loops::to_string(op);
    EXPECT_FALSE(std::signbit(result[1])) << loops::to_string(op);
  }
}

TEST_P(CpuMath, ComputesDoublesWithTheSystemsLibrary) {
  const std::vector<double> values = {-2.5, -0.5, 0.0, 0.3, 1.0, 7.25, 700.0};
  EXPECT_EQ(apply(UnaryOp::exp, values, true)[3], std::exp(0.3));
  EXPECT_EQ(apply(UnaryOp::log, values, true)[5], std::log(7.25));
  EXPECT_EQ(apply(UnaryOp::tanh, values, true)[1], std::tanh(-0.5));
  EXPECT_EQ(apply(UnaryOp::erf, values, true)[1], std::erf(-0.5));
}

ON_EVERY_PATH(CpuMath);

}  // namespace
}  // namespace wholestep::test
