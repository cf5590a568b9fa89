#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

namespace fs = std::filesystem;

/// A program that multiplies by `factor`, built with a cache in a folder of the test's own.
class CpuCache : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("wholestep-cache-test-" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Builds and runs with a fresh backend: where it is the only one, nothing is in memory. The program's note on its
  /// code.
  std::string build(float factor = 3, const std::string& key = "key", bool fast_math = false) {
    const auto cpu = open_cpu("");
    return build_on(*cpu, factor, key, fast_math);
  }
  std::string build_on(backend::Backend& cpu, float factor = 3, const std::string& key = "key",
                       bool fast_math = false) {
    TestNest test(4);
    const int in = test.buffer(std::vector<float>{1, 2, 3, 4, 5}), out = test.output(f32, 5);
    ExprBuilder exprs = test.exprs();
    const ExprId y = exprs.binary(BinaryOp::mul, load(exprs, test, in, var(0)), exprs.constant(factor, f32));
    test.nest.body.push_back(loop(0, 5, LoopKind::vector, {store(out, var(0), y)}));
    auto program = cpu.build(test.plan(), Graph("test"),
                             {.fast_math = fast_math, .cache_key = key, .cache_dir = folder_.string()});
    for (std::size_t i = 0; i < 2; ++i) program->bind_host(static_cast<int>(i), test.arrays[i].data());
    program->run();
    EXPECT_EQ(test.arrays[1].to_doubles()[4], 5 * factor);
    return program->notes().at(0);
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (fs::exists(folder_)) {
      for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    }
    return found;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  fs::path folder_;
};

bool says(const std::string& note, const char* what) { return note.find(what) != std::string::npos; }

TEST_F(CpuCache, KeepsCodeInMemoryAndOnDisk) {
  {
    const auto cpu = open_cpu("");
    EXPECT_TRUE(says(build_on(*cpu), "compiled now"));
    EXPECT_TRUE(says(build_on(*cpu), "memory cache"));
  }
  EXPECT_TRUE(says(build(), "disk cache"));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CpuCache, AFolderThatCannotBeWrittenIsNamedAndNoError) {
  write(folder_, "a file");
  EXPECT_TRUE(says(build(), "compiled now, and not kept"));
  EXPECT_EQ(read(folder_), "a file");
}

TEST_F(CpuCache, SharesCodeInMemoryAmongBackendsWhateverTheirThreads) {
  const auto one = open_cpu("", 1), four = open_cpu("", 4);
  EXPECT_TRUE(says(build_on(*one), "compiled now"));
  fs::remove_all(folder_);
  EXPECT_TRUE(says(build_on(*four), "memory cache"));
  EXPECT_TRUE(files().empty());
}

TEST_F(CpuCache, TellsCodePathsApart) {
  const auto best = open_cpu(""), generic = open_cpu("generic");
  if (best->target().name == generic->target().name) GTEST_SKIP() << "this processor has one code path";
  EXPECT_TRUE(says(build_on(*best), "compiled now"));
  EXPECT_TRUE(says(build_on(*generic), "compiled now"));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(CpuCache, TellsProgramsApartThatShareAKey) {
  build(3);
  EXPECT_TRUE(says(build(4), "compiled now"));
  EXPECT_TRUE(says(build(3, "other"), "compiled now"));
  EXPECT_TRUE(says(build(3, "key", true), "compiled now"));
  EXPECT_TRUE(says(build(3), "disk cache"));
  EXPECT_EQ(files().size(), 4u);
}

TEST_F(CpuCache, KeepsNothingWithoutAKey) {
  EXPECT_TRUE(says(build(3, ""), "compiled now"));
  EXPECT_TRUE(says(build(3, ""), "compiled now"));
  EXPECT_TRUE(files().empty());
}

TEST_F(CpuCache, RewritesAFileDamagedAnywhere) {
  build();
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const std::string whole = read(path);
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 23) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write(path, damaged);
    EXPECT_TRUE(says(build(), "compiled now")) << "byte " << at;
    EXPECT_EQ(read(path), whole);
  }
}

TEST_F(CpuCache, RewritesATruncatedOverlongOrForeignFile) {
  build();
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const std::string whole = read(path);
  for (const std::string& wrong : {std::string(), whole.substr(0, 7), whole.substr(0, 32),
                                   whole.substr(0, whole.size() - 1), whole + "x", std::string(4096, 'z')}) {
    write(path, wrong);
    EXPECT_TRUE(says(build(), "compiled now")) << wrong.size() << " bytes";
    EXPECT_EQ(read(path), whole);
  }
}

TEST_F(CpuCache, RefusesTheFileOfAnotherProgramUnderThisName) {
  build(3);
  const fs::path mine = files()[0];
  const std::string whole = read(mine);
  build(4);
  for (const fs::path& path : files()) {
    if (path != mine) write(mine, read(path));
  }
  EXPECT_TRUE(says(build(3), "compiled now"));
  EXPECT_EQ(read(mine), whole);
}

TEST_F(CpuCache, WorksWhereTheFolderCannotBeWritten) {
  write(folder_, "a file where the folder should be");
  EXPECT_TRUE(says(build(), "compiled now"));
  EXPECT_TRUE(fs::is_regular_file(folder_));
}

TEST_F(CpuCache, WorksWhereTheFileIsAFolder) {
  build();
  const fs::path path = files()[0];
  fs::remove(path);
  fs::create_directories(path / "inner");
  EXPECT_TRUE(says(build(), "compiled now"));
  EXPECT_EQ(files().size(), 1u);
}

}  // namespace
}  // namespace wholestep::test
