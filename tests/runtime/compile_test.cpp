#include "runtime/compile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "runtime/fingerprint.h"
#include "support/devices.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

Graph affine(const std::string& name, const std::string& input, Shape shape, DType dtype, double factor, bool update) {
  Graph graph(name);
  Tensor x = graph.input(input, shape, dtype), w = graph.param("w", shape, dtype);
  Tensor y = x * factor + w;
  graph.set_outputs({y});
  if (update) graph.set_update(w, y);
  return graph;
}

std::string fingerprint(const Graph& graph) {
  runtime::Fingerprint out;
  out.add(graph);
  return out.hex();
}

TEST(Fingerprint, IsTheSameForEqualGraphs) {
  EXPECT_EQ(fingerprint(affine("g", "x", {2}, DType::f32, 3, true)),
            fingerprint(affine("g", "x", {2}, DType::f32, 3, true)));
}

TEST(Fingerprint, DiffersWhereGraphsDiffer) {
  const std::set<std::string> different{
      fingerprint(affine("g", "x", {2}, DType::f32, 3, true)),
      fingerprint(affine("h", "x", {2}, DType::f32, 3, true)),
      fingerprint(affine("g", "z", {2}, DType::f32, 3, true)),
      fingerprint(affine("g", "x", {3}, DType::f32, 3, true)),
      fingerprint(affine("g", "x", {2}, DType::f64, 3, true)),
      fingerprint(affine("g", "x", {2}, DType::f32, 4, true)),
      fingerprint(affine("g", "x", {2}, DType::f32, 3, false)),
      fingerprint(affine("g", "x", {2, 1}, DType::f32, 3, true)),
  };
  EXPECT_EQ(different.size(), 8u);
}

TEST(Fingerprint, TellsTextsApartThatJoinToTheSame) {
  runtime::Fingerprint a, b;
  a.add(std::string_view("ab"));
  a.add(std::string_view("c"));
  b.add(std::string_view("a"));
  b.add(std::string_view("bc"));
  EXPECT_NE(a.hex(), b.hex());
}

/// Sets an environment variable for one test; nullptr removes it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const { value ? setenv(name_, value, 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(CacheDirectory, IsTheFirstOfOptionAndEnvironmentThatIsSet) {
  const Variable own("WHOLESTEP_CACHE_DIR", "/own"), xdg("XDG_CACHE_HOME", "/xdg"), home("HOME", "/home/a");
  EXPECT_EQ(runtime::cache_directory({.cache_dir = "/option"}), "/option");
  EXPECT_EQ(runtime::cache_directory({}), "/own");
  const Variable no_own("WHOLESTEP_CACHE_DIR", "");
  EXPECT_EQ(runtime::cache_directory({}), "/xdg/wholestep");
  const Variable no_xdg("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(runtime::cache_directory({}), "/home/a/.cache/wholestep");
  const Variable no_home("HOME", nullptr);
  EXPECT_EQ(runtime::cache_directory({}), "");
}

TEST(CacheDirectory, IsNoneWhereTheDiskCacheIsOff) {
  EXPECT_EQ(runtime::cache_directory({.disk_cache = false, .cache_dir = "/option"}), "");
}

TEST(Compile, ReportsEveryStage) {
  const std::string report =
      Session(Device::reference()).compile(affine("staged", "x", {2}, DType::f32, 3, true)).explain();
  for (const char* stage : {"verify", "fingerprint", "index bounds", "build"}) {
    EXPECT_NE(report.find(stage), std::string::npos) << stage << " in\n" << report;
  }
}

TEST(Compile, LowersAnEqualGraphOnce) {
  const Session session(Device::reference());
  const Graph graph = affine("lowered once", "x", {2}, DType::f32, 3, true);
  EXPECT_NE(session.compile(graph).explain().find("index bounds"), std::string::npos);
  EXPECT_EQ(session.compile(Graph(graph)).explain().find("index bounds"), std::string::npos);
  EXPECT_NE(session.compile(graph, {.fusion = false}).explain().find("index bounds"), std::string::npos);
}

TEST(Compile, TakesCodeFromMemoryAndFromDisk) {
  if (testing::built_devices().size() < 2) GTEST_SKIP() << "the CPU part is not in this build";
  const auto folder = std::filesystem::temp_directory_path() / "wholestep-code-cache-test";
  std::filesystem::remove_all(folder);
  const Session session(Device::cpu(1));
  const Graph graph = affine("cached", "x", {2}, DType::f32, 3, true);
  const CompileOptions in_memory{.disk_cache = false}, on_disk{.cache_dir = folder.string()};
  EXPECT_FALSE(session.compile(graph, in_memory).stats().from_cache);
  EXPECT_TRUE(session.compile(graph, in_memory).stats().from_cache);
  EXPECT_FALSE(std::filesystem::exists(folder));
  const Graph other = affine("kept", "x", {2}, DType::f32, 3, true);
  EXPECT_FALSE(session.compile(other, on_disk).stats().from_cache);
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(Compile, IsDoneOnceForAnyNumberOfThreads) {
  if (testing::built_devices().size() < 2) GTEST_SKIP() << "the CPU part is not in this build";
  const Graph graph = affine("of any threads", "x", {2}, DType::f32, 3, true);
  const CompileOptions in_memory{.disk_cache = false};
  EXPECT_FALSE(Session(Device::cpu(1)).compile(graph, in_memory).stats().from_cache);
  const CompiledGraph again = Session(Device::cpu(3)).compile(graph, in_memory);
  EXPECT_TRUE(again.stats().from_cache);
  EXPECT_EQ(again.explain().find("index bounds"), std::string::npos) << "lowered again";
  EXPECT_NE(again.explain().find("3 threads"), std::string::npos) << again.explain();
}

TEST(Compile, SurvivesMoreGraphsThanTheCacheHolds) {
  const Session session(Device::reference());
  for (int i = 0; i < 40; ++i) {
    CompiledGraph program = session.compile(affine("many", "x", {1}, DType::f32, i, false));
    const std::vector<float> one{1};
    EXPECT_EQ(program.run({{"x", one}})[0].item(), i);
  }
}

}  // namespace
}  // namespace wholestep
