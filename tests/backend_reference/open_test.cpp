#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backend/backend.h"
#include "expect_error.h"

namespace wholestep::backend {
namespace {

/// A folder of loadable parts that exists while the test runs.
struct PluginFolder {
  std::filesystem::path path;
  PluginFolder() {
    path = std::filesystem::path(::testing::TempDir()) / ("parts" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
    ::setenv("WHOLESTEP_PLUGIN_PATH", ("/nowhere:" + path.string() + "::").c_str(), 1);
  }
  ~PluginFolder() {
    ::unsetenv("WHOLESTEP_PLUGIN_PATH");
    std::filesystem::remove_all(path);
  }
};

TEST(Open, GivesOneSharedBackendPerDeviceToAllThreads) {
  std::vector<std::shared_ptr<Backend>> opened(8);
  std::vector<std::thread> threads;
  for (auto& slot : opened) threads.emplace_back([&slot] { slot = open(Device::reference()); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& backend : opened) EXPECT_EQ(backend, opened[0]);
  EXPECT_EQ(open({"reference", 4}), opened[0]) << "the interpreter has one thread whatever is asked";
  EXPECT_EQ(opened[0]->consumes(), Consumes::graph);
  EXPECT_TRUE(opened[0]->info().available);
}

TEST(Open, SaysWhichFileIsMissingAndWhereItLooked) {
  const PluginFolder folder;
  expect_error(ErrorCode::device_unavailable,
               {"'quantum'", "libwholestep_quantum.so", WHOLESTEP_BUILD_DIR, "/nowhere", folder.path},
               [] { open({"quantum", 0}); });
}

TEST(Open, SaysWhyAPartDoesNotLoad) {
  const PluginFolder folder;
  std::ofstream(folder.path / "libwholestep_garbage.so") << "not a library";
  expect_error(ErrorCode::device_unavailable, {"'garbage'", "does not load", "libwholestep_garbage.so"},
               [] { open({"garbage", 0}); });
}

TEST(Open, RefusesALibraryThatIsNoPart) {
  const PluginFolder folder;
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<const void*>(&::getenv), &info), 0);
  std::filesystem::create_symlink(std::filesystem::absolute(info.dli_fname), folder.path / "libwholestep_other.so");
  expect_error(ErrorCode::device_unavailable, {"'other'", "wholestep_open_backend"}, [] { open({"other", 0}); });
}

TEST(Open, RefusesNamesThatCouldLeaveTheFolder) {
  for (const char* name : {"", "../cpu", "CPU", "cpu ", "a/b", "a.b"})
    expect_error(ErrorCode::unknown_name, {"not the name of a device", "reference"}, [&] { open({name, 0}); });
  expect_error(ErrorCode::invalid_argument, {"-1"}, [] { open({"cpu", -1}); });
}

TEST(Open, ListsEveryKnownDeviceAvailableOrNot) {
  const std::vector<DeviceInfo> infos = devices();
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].name, "cpu");
  EXPECT_EQ(infos[1].name, "reference");
  for (const DeviceInfo& info : infos) EXPECT_FALSE(info.description.empty());
  EXPECT_TRUE(infos[1].available);
}

}  // namespace
}  // namespace wholestep::backend
