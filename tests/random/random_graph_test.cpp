// Random graphs: every device must agree with the reference interpreter, and with itself.
#include "random/random_graph.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "passes/passes.h"
#include "random/compare.h"

namespace wholestep {
namespace {

using namespace testing;

constexpr std::uint64_t kGraphs = 2000, kPerShard = 50;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kStride = 10;  // slower builds, which look at memory, take every tenth graph
#else
constexpr std::uint64_t kStride = 1;
#endif

TEST(RandomGraphs, AreValidAndTheirTextParsesBack) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const RandomGraph random = random_graph(seed);
    verify(random.graph);
    EXPECT_TRUE(Graph::parse(random.graph.to_text()) == random.graph) << random.graph.to_text();
  }
}

TEST(RandomGraphs, HaveFiniteValues) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const HostValue& value : interpret(random.graph, random.values, false)) {
      for (const double x : value.real)
        ASSERT_TRUE(std::isfinite(x)) << "seed " << seed << "\n" << random.graph.to_text();
    }
  }
}

TEST(RandomGraphs, UseEveryOpOfTheTable) {
  std::set<std::string> missing;
  // Factorisations of random matrices are as ill-conditioned as it happens; their own tests choose what they factor.
  const std::set<std::string> chosen = {"eigenvectors",     "householder", "qr_q",          "qr_r",
                                        "triangular_solve", "tridiagonal", "tridiagonal_qr"};
  for (const OpDef* op : op_table().all())
    if (!chosen.contains(op->name)) missing.insert(op->name);
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const Node& node : random.graph.nodes()) missing.erase(node.op->name);
  }
  std::string names;
  for (const std::string& name : missing) names += " " + name;
  EXPECT_TRUE(missing.empty()) << "no random graph has" << names;
}

TEST(RandomGraphs, PassesKeepTheirValues) {
  for (std::uint64_t seed = 0; seed < 300; seed += kStride) {
    const RandomGraph random = random_graph(seed);
    const Graph lowered = passes::run_pipeline(random.graph, {}, true);
    Results results;
    for (const HostValue& value : interpret(lowered, random.values, false))
      results.push_back(reference::to_array(value));
    const std::string found = difference(expect(random.graph, random.values), results);
    ASSERT_EQ(found, "") << "seed " << seed << "\n" << random.graph.to_text();
  }
}

TEST(Comparison, SeesAnElementThatIsOff) {
  Graph g;
  g.set_outputs({exp(g.input("x", {3}))});
  const NamedArrays values{{"x", Array::from<float>({0, 1, 2})}};
  const Expected expected = expect(g, values);
  Array result = reference::to_array(expected.values[0]);
  EXPECT_EQ(difference(expected, {result}), "");
  result.as<float>()[1] += 1e-4f;
  EXPECT_NE(difference(expected, {result}).find("element 1"), std::string::npos);
  result.as<float>()[1] = std::nanf("");
  EXPECT_NE(difference(expected, {result}), "");
}

TEST(Comparison, MinimisesToTheNodeThatDiffers) {
  Graph g;
  Tensor x = g.input("x", {3}), state = g.state("s", {3});
  Tensor y = exp(tanh(square(x)));
  g.set_outputs({sum(y), mul(y, x)});
  g.set_update(state, y);
  const NamedArrays values{{"x", Array::from<float>({0, 1, 2})}, {"s", Array(f32, {3})}};
  const std::string text =
      minimised(g, values, [](const Graph& part, const NamedArrays&) { return !part.nodes_of("tanh").empty(); });
  const Graph smallest = Graph::parse(text);
  EXPECT_EQ(smallest.nodes_of("tanh").size(), 1U);
  EXPECT_TRUE(smallest.nodes_of("square").empty()) << text;
  EXPECT_TRUE(smallest.updates().empty()) << text;
  EXPECT_EQ(smallest.outputs().size(), 1U) << text;
}

bool has_cpu() { return std::filesystem::exists(WHOLESTEP_BUILD_DIR "/libwholestep_cpu.so"); }

TEST(Chains, OfTwoOpsThatRoundOnceAreExactOnCpuForAllKindsOfNumbers) {
  if (!has_cpu()) GTEST_SKIP() << "the cpu device is not part of this build (WHOLESTEP_CPU is off)";
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  // Not -0: which zero is the larger is left open.
  std::vector<float> numbers = {0, kNan, kInfinity, -kInfinity, 1e-40f, -1e-40f, 3e38f, -3e38f};
  for (int i = -14; i <= 14; ++i) numbers.push_back(0.25f * static_cast<float>(i));
  const NamedArrays values{{"x", Array::from(numbers)}};
  const std::vector<const char*> ops = {"neg",   "abs",  "relu",       "sign",   "ceil",   "floor",
                                        "round", "sqrt", "reciprocal", "square", "is_nan", "trunc"};
  for (const char* first : ops) {
    Graph g;
    Tensor x = g.input("x", {static_cast<std::int64_t>(numbers.size())});
    Tensor y = g.apply(first, {x});
    if (y.dtype() == boolean) y = cast(y, f32);
    std::vector<Tensor> outputs;
    for (const char* second : ops) outputs.push_back(g.apply(second, {y}));
    outputs.insert(outputs.end(), {maximum(y, 0.5), minimum(y, -0.5), maximum(y, x), minimum(x, y), cast(y, i32)});
    g.set_outputs(outputs);
    Expected exact = expect(g, values);
    std::fill(exact.tolerances.begin(), exact.tolerances.end(), 0);
    EXPECT_EQ(difference(exact, run_on(Device::cpu(1), {.flush_subnormals = false}, g, values)), "") << first << "\n"
                                                                                                     << g.to_text();
  }
}

class Shard : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    if (!has_cpu()) GTEST_SKIP() << "the cpu device is not part of this build (WHOLESTEP_CPU is off)";
  }
};

/// What is wrong with the results of one graph on the cpu; empty where nothing is.
std::string problem(const Graph& graph, const NamedArrays& values) {
  try {
    const Results results = run_on(Device::cpu(1), {}, graph, values);
    if (const std::string found = difference(expect(graph, values), results); !found.empty()) return found;
    const auto same = [&](int count, bool fusion) {
      const Results others = run_on(Device::cpu(count), {.fusion = fusion}, graph, values);
      return std::equal(results.begin(), results.end(), others.begin(), others.end(),
                        [](const Array& a, const Array& b) { return a.same_bits(b); });
    };
    if (!same(1, false)) return "other bits without fusion";
    if (!same(2, true)) return "other bits on 2 threads";
    if (!same(4, true)) return "other bits on 4 threads";
    return {};
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
}

TEST_P(Shard, OnCpuAgreesWithTheReferenceAndIsTheSameFusedOrNotOnAnyNumberOfThreads) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerShard; seed += kStride) {
    const RandomGraph random = random_graph(seed);
    const std::string found = problem(random.graph, random.values);
    if (found.empty()) continue;
    // A computed index that has become an input may be refused: that is another matter.
    const auto differs = [&](const Graph& graph, const NamedArrays& values) {
      const std::string text = problem(graph, values);
      return !text.empty() && !text.starts_with("index_out_of_range");
    };
    ADD_FAILURE() << "seed " << seed << ": " << found << "\n" << minimised(random.graph, random.values, differs);
  }
}

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Shard, ::testing::Range<std::uint64_t>(0, kGraphs, kPerShard),
                         [](const auto& info) { return "From" + std::to_string(info.param); });

}  // namespace
}  // namespace wholestep
