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
    for (const Node& node : random_graph(seed).graph.nodes()) missing.erase(node.op->name);
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
  const auto same = [](const Graph& graph, const NamedArrays& values) -> std::string {
    const Results fused = run_on(Device::cpu(1), true, graph, values);
    for (const auto& [threads, fusion] : {std::pair(1, false), std::pair(2, true), std::pair(4, true)}) {
      const Results other = run_on(Device::cpu(threads), fusion, graph, values);
      for (std::size_t i = 0; i < fused.size(); ++i) {
        if (!fused[i].same_bits(other[i])) {
          return "result " + std::to_string(i) + " has other bits with " + std::to_string(threads) +
                 " threads and fusion " + (fusion ? "on" : "off");
        }
      }
    }
    return {};
  };
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kPerShard; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const std::function<std::string(const Graph&, const NamedArrays&)>& check :
         {std::function<std::string(const Graph&, const NamedArrays&)>(agrees), {same}}) {
      const auto attempt = [&](const Graph& graph, const NamedArrays& values) -> std::string {
        try {
          return check(graph, values);
        } catch (const Error& error) {
          return error.what();
        }
      };
      const std::string found = attempt(random.graph, random.values);
      if (found.empty()) continue;
      const auto differs = [&](const Graph& graph, const NamedArrays& values) {
        return !attempt(graph, values).empty();
      };
      ADD_FAILURE() << "seed " << seed << ": " << found << "\n" << minimised(random.graph, random.values, differs);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Shard, ::testing::Range<std::uint64_t>(0, kGraphs, kPerShard),
                         [](const auto& info) { return "From" + std::to_string(info.param); });

}  // namespace
}  // namespace wholestep
