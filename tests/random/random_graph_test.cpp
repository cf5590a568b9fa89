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
  for (const OpDef* op : op_table().all()) missing.insert(op->name);
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const Node& node : random.graph.nodes()) missing.erase(node.op->name);
  }
  std::string names;
  for (const std::string& name : missing) names += " " + name;
  EXPECT_TRUE(missing.empty()) << "no random graph has" << names;
}

TEST(RandomGraphs, PassesKeepTheirValues) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomGraph random = random_graph(seed);
    const Graph lowered = passes::run_pipeline(random.graph, {}, true);
    Results results;
    for (const HostValue& value : interpret(lowered, random.values, false))
      results.push_back(reference::to_array(value));
    const std::string found = difference(expect(random.graph, random.values), results);
    ASSERT_EQ(found, "") << "seed " << seed << "\n" << random.graph.to_text();
  }
}

class Shard : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(WHOLESTEP_BUILD_DIR "/libwholestep_cpu.so")) {
      GTEST_SKIP() << "the cpu device is not part of this build (WHOLESTEP_CPU is off)";
    }
  }
};

TEST_P(Shard, OnCpuAgreesWithTheReferenceAndIsTheSameFusedOrNotOnAnyNumberOfThreads) {
  const auto agrees = [](const Graph& graph, const NamedArrays& values) {
    return difference(expect(graph, values), run_on(Device::cpu(1), true, graph, values));
  };
  const auto same = [](const Graph& graph, const NamedArrays& values, int threads, bool fusion) -> std::string {
    const Results one = run_on(Device::cpu(1), true, graph, values),
                  other = run_on(Device::cpu(threads), fusion, graph, values);
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (!one[i].same_bits(other[i])) return "result " + std::to_string(i) + " has other bits";
    }
    return {};
  };
  using Check = std::function<std::string(const Graph&, const NamedArrays&)>;
  const std::vector<std::pair<std::string, Check>> checks = {
      {"cpu and reference", agrees},
      {"fused or not", [&](const Graph& g, const NamedArrays& v) { return same(g, v, 1, false); }},
      {"1 or 2 threads", [&](const Graph& g, const NamedArrays& v) { return same(g, v, 2, true); }},
      {"1 or 4 threads", [&](const Graph& g, const NamedArrays& v) { return same(g, v, 4, true); }},
  };
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerShard; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const auto& [what, check] : checks) {
      const auto attempt = [&, &check = check](const Graph& graph, const NamedArrays& values) -> std::string {
        try {
          return check(graph, values);
        } catch (const Error& error) {
          return std::string(to_string(error.code())) + ": " + error.what();
        }
      };
      const std::string found = attempt(random.graph, random.values);
      if (found.empty()) continue;
      // A computed index that has become an input may be refused: that is another matter.
      const auto differs = [&](const Graph& graph, const NamedArrays& values) {
        const std::string text = attempt(graph, values);
        return !text.empty() && !text.starts_with("index_out_of_range");
      };
      ADD_FAILURE() << "seed " << seed << ", " << what << ": " << found << "\n"
                    << minimised(random.graph, random.values, differs);
      break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Shard, ::testing::Range<std::uint64_t>(0, kGraphs, kPerShard),
                         [](const auto& info) { return "From" + std::to_string(info.param); });

}  // namespace
}  // namespace wholestep
