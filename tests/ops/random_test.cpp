#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "evaluate.h"
#include "passes/passes.h"
#include "support/devices.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

using Words = std::vector<std::int64_t>;

constexpr std::uint64_t kSeed = 0xfedcba9876543210, kStep = 0x00000003'80000001;

Array key_of(std::uint64_t seed, std::uint64_t step) {
  const auto word = [](std::uint64_t value) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(value)); };
  return Array::from<std::int32_t>({word(seed), word(seed >> 32), word(step), word(step >> 32)});
}

/// The value of `build(graph, key)` on the reference interpreter.
template <class Build>
Array value_of(const Array& key, const Build& build) {
  Graph graph;
  return testing::evaluate(build(graph.input("key", {4}, i32)), {{"key", key}});
}

Words as_words(const Array& bits) {
  Words words;
  for (const std::int32_t word : bits.as<std::int32_t>()) words.push_back(static_cast<std::uint32_t>(word));
  return words;
}

/// As in Random123's kat_vectors: four words of the block with this counter and key, on the compiled device, where the
/// words before it are never made.
Words known_answer(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  Graph graph;
  const Tensor bits = random_bits(graph.input("key", {4}, i32), {std::int64_t{1} << 34}, counter[1]);
  const std::int64_t first = 4 * std::int64_t{counter[0]};
  graph.set_outputs({slice(bits, {first}, {first + 4})});
  const Array value = key_of(std::uint64_t{key[1]} << 32 | key[0], std::uint64_t{counter[3]} << 32 | counter[2]);
  CompiledGraph program = Session(Device::cpu(1)).compile(graph, {.disk_cache = false});
  return as_words(program.run({{"key", value}})[0]);
}

TEST(RandomBits, GiveTheAnswersThatRandom123Publishes) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(known_answer({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(known_answer({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(known_answer({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomBits, OfStreamZeroAreTheHostsStreamOfThatStep) {
  random::Stream host(kSeed, kStep);
  for (const std::int64_t word :
       as_words(value_of(key_of(kSeed, kStep), [](Tensor key) { return random_bits(key, {3, 7}, 0); }))) {
    EXPECT_EQ(word, host.next());
  }
}

TEST(RandomBits, OfTwoWordsAreNeighboursInTheStream) {
  const Array key = key_of(kSeed, kStep);
  const Words words = as_words(value_of(key, [](Tensor k) { return random_bits(k, {12}, 9); }));
  const Array pairs = value_of(key, [](Tensor k) { return random_bits(k, {6}, 9, i64); });
  for (std::size_t i = 0; i < 6; ++i) {
    const std::uint64_t pair =
        static_cast<std::uint64_t>(words[2 * i + 1]) << 32 | static_cast<std::uint64_t>(words[2 * i]);
    EXPECT_EQ(static_cast<std::uint64_t>(pairs.as<std::int64_t>()[i]), pair);
  }
}

TEST(RandomBits, OfAnotherStreamSeedOrStepAreOthers) {
  const auto bits = [](std::uint64_t seed, std::uint64_t step, std::int64_t stream) {
    return as_words(value_of(key_of(seed, step), [&](Tensor key) { return random_bits(key, {8}, stream); }));
  };
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  const std::set<Words> different{bits(1, 2, 3), bits(2, 2, 3), bits(1, 3, 3),         bits(1, 2, 4),
                                  bits(2, 1, 3), bits(1, 3, 2), bits(1 + kHigh, 2, 3), bits(1, 2 + kHigh, 3)};
  EXPECT_EQ(different.size(), 8U);
}

/// Bits, numbers and masks behind every kind of view, at a key that is computed.
Graph views_of_random_numbers() {
  Graph graph;
  const Tensor key = add(graph.input("key", {4}, i32), graph.constant(1, i32));
  const Tensor bits = random_bits(key, {6, 35}, 1), wide = random_bits(key, {5, 7}, 2, i64);
  const Tensor uniform = random_uniform(key, {6, 35}, 1), real = random_uniform(key, {35}, 3, f64);
  const Tensor kept = greater_equal(uniform, 0.25);
  graph.set_outputs({transpose(bits), slice(bits, {1, 2}, {6, 33}, {2, 3}), reshape(bits, {10, 21}),
                     concat({bits, bits}, 1), wide, uniform, real, kept, select(kept, uniform, 0.0),
                     reduce_sum(cast(kept, i32), {0}), random_uniform(key, {33}, 4, bf16),
                     random_uniform(key, {33}, 4, f16)});
  return graph;
}

TEST(RandomNumbers, AreTheSameBitsOnEveryDeviceWithAnyThreadsAndFusion) {
  const Graph graph = views_of_random_numbers();
  const Array key = key_of(kSeed, kStep);
  const auto run = [&](const Device& device, bool fusion) {
    return Session(device).compile(graph, {.fusion = fusion, .disk_cache = false}).run({{"key", key}});
  };
  const std::vector<Array> expected = run(Device::reference(), true);
  const auto expect_same = [&](const std::vector<Array>& actual) {
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].same_bits(expected[i])) << "output " << i;
  };
  for (const int threads : {1, 2, 4}) expect_same(run(Device::cpu(threads), true));
  expect_same(run(Device::cpu(2), false));
}

TEST(RandomUniform, IsTheHostsUniformInDoublePrecision) {
  random::Stream host(kSeed, kStep);
  for (const double x :
       value_of(key_of(kSeed, kStep), [](Tensor k) { return random_uniform(k, {50}, 0, f64); }).to_doubles()) {
    EXPECT_EQ(x, host.uniform());
  }
}

TEST(RandomUniform, FillsTheUnitIntervalEvenlyAndNeverReachesOne) {
  constexpr int kBins = 16, kCount = 32'000;
  for (const DType dtype : {f64, f32, f16, bf16}) {
    std::array<int, kBins> bins{};
    for (const double x :
         value_of(key_of(1, 2), [&](Tensor k) { return random_uniform(k, {kCount}, 3, dtype); }).to_doubles()) {
      ASSERT_GE(x, 0);
      ASSERT_LT(x, 1);
      ++bins[static_cast<std::size_t>(x * kBins)];
    }
    double chi_square = 0;
    for (const int count : bins) chi_square += std::pow(count - kCount / kBins, 2) / (kCount / kBins);
    EXPECT_LT(chi_square, 37.7) << to_string(dtype);  // 15 degrees of freedom: exceeded once in a thousand seeds
  }
}

TEST(RandomNormal, IsTheHostsNormalInDoublePrecision) {
  random::Stream host(kSeed, kStep);
  for (const double x :
       value_of(key_of(kSeed, kStep), [](Tensor k) { return random_normal(k, {5, 10}, 0, f64); }).to_doubles()) {
    EXPECT_NEAR(x, host.normal(), 1e-14);
  }
}

TEST(RandomNormal, HasTheMomentsOfTheStandardNormal) {
  constexpr int kCount = 40'000;
  for (const DType dtype : {f32, bf16}) {
    double sum = 0, squares = 0, fourths = 0;
    for (const double x :
         value_of(key_of(1, 2), [&](Tensor k) { return random_normal(k, {kCount}, 3, dtype); }).to_doubles()) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourths += x * x * x * x;
    }
    EXPECT_NEAR(sum / kCount, 0, 0.02);
    EXPECT_NEAR(squares / kCount, 1, 0.03);
    EXPECT_NEAR(fourths / kCount, 3, 0.2);
  }
}

TEST(RandomBits, AreOneValueOnlyForOneKeyStreamShapeAndType) {
  Graph graph;
  const Tensor key = graph.input("key", {4}, i32), other = graph.input("other", {4}, i32);
  graph.set_outputs({random_bits(key, {6}, 1), random_bits(key, {6}, 1), random_bits(key, {6}, 2),
                     random_bits(other, {6}, 1), random_bits(key, {2, 3}, 1), random_bits(key, {6}, 1, i64)});
  const std::vector<NodeId> outputs = passes::run_pipeline(graph).outputs();
  EXPECT_EQ(outputs[0], outputs[1]);
  EXPECT_EQ(std::set<NodeId>(outputs.begin(), outputs.end()).size(), 5U);
}

TEST(RandomBits, RefuseKeysStreamsTypesAndSizesThatTheyDoNotHave) {
  Graph graph;
  const Tensor key = graph.input("key", {4}, i32);
  using testing::expect_error;
  expect_error(ErrorCode::dtype_mismatch, {"random_bits", "i32 key"},
               [&] { random_bits(graph.input("f", {4}), {2}, 0); });
  expect_error(ErrorCode::shape_mismatch, {"random_bits", "[4]", "[2]"},
               [&] { random_bits(graph.input("short", {2}, i32), {2}, 0); });
  expect_error(ErrorCode::dtype_mismatch, {"i32 or i64"}, [&] { random_bits(key, {2}, 0, u8); });
  expect_error(ErrorCode::dtype_mismatch, {"random_uniform", "i32"}, [&] { random_uniform(key, {2}, 0, i32); });
  expect_error(ErrorCode::dtype_mismatch, {"bool"}, [&] { random_normal(key, {2}, 0, boolean); });
  expect_error(ErrorCode::invalid_argument, {"stream", "-1"}, [&] { random_bits(key, {2}, -1); });
  expect_error(ErrorCode::invalid_argument, {"stream", "4294967296"},
               [&] { random_bits(key, {2}, std::int64_t{1} << 32); });
  expect_error(ErrorCode::invalid_argument, {"2^34"}, [&] { random_bits(key, {(std::int64_t{1} << 34) + 1}, 0); });
  expect_error(ErrorCode::invalid_argument, {"2^34"}, [&] { random_bits(key, {1 << 20, 1 << 14}, 0, i64); });
  expect_error(ErrorCode::invalid_argument, {"negative"}, [&] { random_bits(key, {-1}, 0); });
  expect_error(ErrorCode::invalid_argument, {"no graph"}, [&] { random_normal(Tensor(), {2}, 0); });
}

}  // namespace
}  // namespace wholestep
