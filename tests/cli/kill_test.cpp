// A training run that is killed at any moment loses no more than the steps since its last save.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "process.h"
#include "wholestep/io.h"
#include "wholestep/nn.h"
#include "wholestep/trainer.h"

namespace wholestep::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kKills = 8;  // starting a process takes ten times as long
#else
constexpr int kKills = 50;
#endif
constexpr std::int64_t kSteps = 600;
constexpr std::int64_t kSaveEvery = 7;

void expect_same_tensors(const std::string& left, const std::string& right) {
  const io::SafeTensors a = io::read_safetensors(left);
  const io::SafeTensors b = io::read_safetensors(right);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, value] : a.tensors) {
    const Array* other = find(b.tensors, name);
    ASSERT_NE(other, nullptr) << name;
    ASSERT_TRUE(value.same_bits(*other)) << name;
  }
}

TEST(Train, KilledAtRandomMomentsResumesToTheBitsOfTheRunThatNeverStopped) {
  const DataFolder folder;
  const std::string checkpoint = folder.file("a.safetensors");
  const auto command = [&](const std::string& target) {
    std::vector<std::string> words{"train",
                                   "--data",
                                   folder.data(),
                                   "--batch",
                                   "16",
                                   "--steps",
                                   std::to_string(kSteps),
                                   "--save",
                                   target,
                                   "--save-every",
                                   std::to_string(kSaveEvery)};
    if (std::filesystem::exists(target)) words.insert(words.end(), {"--resume", target});
    return words;
  };
  ASSERT_EQ(run(folder, command(folder.file("warm.safetensors"))).status, 0) << "fills the cache of compiled programs";
  const auto begin = std::chrono::steady_clock::now();
  const std::string whole = folder.file("whole.safetensors");
  ASSERT_EQ(run(folder, command(whole)).status, 0);
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;

  const Graph graph = models::mlp(16);
  ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, 1), AdamW{});
  std::mt19937 random(20);
  std::uniform_real_distribution<double> moment(0, 0.8 * duration.count());
  int completed = 0;
  for (int kills = 0; kills < kKills;) {
    ASSERT_LT(completed, 10 * kKills) << "the run ends before it can be killed";
    Process process = start(folder, command(checkpoint));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(moment(random));
    while (std::chrono::steady_clock::now() < deadline && !process.ended())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    process.send(SIGKILL);
    const Finished finished = process.wait();
    if (finished.status == 0) {
      expect_same_tensors(whole, checkpoint);
      std::filesystem::remove(checkpoint);
      ++completed;
      continue;
    }
    ASSERT_EQ(finished.status, 128 + SIGKILL) << finished.err;
    ++kills;
    if (!std::filesystem::exists(checkpoint)) continue;
    ASSERT_NO_THROW(trainer.load(checkpoint)) << "after kill " << kills;
    ASSERT_TRUE(trainer.steps() % kSaveEvery == 0 || trainer.steps() == kSteps) << trainer.steps();
  }
  const Finished last = run(folder, command(checkpoint));
  ASSERT_EQ(last.status, 0) << last.err;
  expect_same_tensors(whole, checkpoint);
}

}  // namespace
}  // namespace wholestep::test
