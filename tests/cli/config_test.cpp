// FILE.json beside a checkpoint FILE: the configuration of the run that wrote FILE, or nothing.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint.h"
#include "process.h"
#include "wholestep/io.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

std::vector<std::string> train(const DataFolder& folder, const std::string& seed, std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {"train", "--data", folder.data(), "--steps", "3", "--seed", seed, "--save", "a.safetensors"});
  return more;
}

std::string seed_in(const std::string& checkpoint) {
  for (const auto& [key, value] : io::read_safetensors(checkpoint).metadata) {
    if (key == "extra/seed") return value;
  }
  return "none";
}

/// Kills a process the moment `condition` holds.
template <class Condition>
void kill_when(Process process, const Condition& condition) {
  while (!condition() && !process.ended()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  process.send(SIGKILL);
  process.wait();
}

TEST(Config, IsNeverThatOfAnotherRunThanTheCheckpointItStandsBeside) {
  const DataFolder folder;
  const std::string checkpoint = folder.file("a.safetensors"), config = checkpoint + ".json";
  ASSERT_EQ(run(folder, train(folder, "0")).status, 0);
  for (int seed = 1; seed <= 6; ++seed) {
    ASSERT_EQ(run(folder, train(folder, "0")).status, 0);
    const std::string before = read_file(config);
    kill_when(start(folder, train(folder, std::to_string(seed))), [&] { return read_file(config) != before; });
    if (!std::filesystem::exists(config)) {
      const Finished resumed = run(folder, {"train", "--config", "a.safetensors.json", "--resume", "a.safetensors"});
      EXPECT_EQ(resumed.status, 1);
      EXPECT_NE(resumed.err.find("--resume a.safetensors --data PATH"), std::string::npos) << resumed.err;
    } else {
      EXPECT_EQ(json::parse(read_file(config)).at("seed").dump(), seed_in(checkpoint));
    }
  }
}

TEST(Config, IsThereBeforeTheFirstCheckpointIs) {
  const DataFolder folder;
  const std::string checkpoint = folder.file("a.safetensors");
  for (int attempt = 0; attempt < 4; ++attempt) {
    kill_when(start(folder, train(folder, "7")), [&] { return std::filesystem::exists(checkpoint); });
    EXPECT_EQ(json::parse(read_file(checkpoint + ".json")).at("seed"), 7);
    EXPECT_EQ(seed_in(checkpoint), "7");
    std::filesystem::remove(checkpoint);
    std::filesystem::remove(checkpoint + ".json");
  }
}

TEST(Config, StaysAsItWasWhereTheCheckpointCannotBeWritten) {
  const DataFolder folder;
  const std::string command = "ulimit -f 8; exec wholestep train --data data --steps 3 --save a.safetensors --seed ";
  ASSERT_EQ(run_shell(folder, command + "1").status, 1);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.safetensors.json")));
  ASSERT_EQ(run(folder, train(folder, "1")).status, 0);
  const std::string before = read_file(folder.file("a.safetensors.json"));
  ASSERT_EQ(run_shell(folder, command + "2").status, 1);
  EXPECT_EQ(read_file(folder.file("a.safetensors.json")), before);
  EXPECT_EQ(seed_in(folder.file("a.safetensors")), "1");
}

TEST(Config, ThatCannotBeWrittenIsFoundBeforeTraining) {
  const DataFolder folder;
  std::filesystem::create_directory(folder.file("a.safetensors.json"));
  const Finished result = run(folder, train(folder, "1"));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("a.safetensors.json is a folder"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace wholestep::test
