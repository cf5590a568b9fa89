// What TensorBoard itself reads from a log, where it is installed: see scripts/tensorboard-venv.sh.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "process.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

/// Values by tag, then by step.
using Scalars = std::map<std::string, std::map<std::int64_t, float>>;

Scalars scalars_of_records(const std::string& log) {
  const std::map<std::string, std::map<std::string, std::string>> tags{
      {"step", {{"loss", "train/loss"}, {"lr", "train/lr"}}},
      {"epoch",
       {{"train_loss", "epoch/train_loss"},
        {"test_loss", "epoch/test_loss"},
        {"test_accuracy", "epoch/test_accuracy"}}}};
  Scalars scalars;
  std::istringstream lines(read_file(log));
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    for (const auto& [field, tag] : tags.at(record.at("event"))) {
      scalars[tag][record.at("step")] = record.at(field).get<float>();
    }
  }
  return scalars;
}

TEST(Log, IsWhatTensorBoardReads) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--batch", "16", "--epochs", "2", "--schedule", "cosine",
                         "--log", "log"})
                .status,
            0);
  const std::string root = std::string(WHOLESTEP_TEST_DATA) + "/../..";
  const Finished read = run_shell(folder, "for python in '" + root + "/.venv-tensorboard/bin/python' python3; do\n" +
                                              "  \"$python\" -c 'import tensorboard' && exec \"$python\" '" + root +
                                              "/tests/tools/print_events.py' log\ndone\nexit 77");
  if (read.status == 77) GTEST_SKIP() << "no TensorBoard: scripts/tensorboard-venv.sh installs it";
  ASSERT_EQ(read.status, 0) << read.err;

  Scalars scalars;
  std::istringstream lines(read.out);
  std::string tag, word;
  std::int64_t step = 0, count = 0;
  for (float value = 0; lines >> tag >> word >> step >> word >> value; ++count) scalars[tag][step] = value;
  EXPECT_EQ(count, 3 * 26 + 3 * 2) << "each once: " << read.out;
  EXPECT_EQ(scalars["train/step_us"].size(), 26u);
  scalars.erase("train/step_us");
  EXPECT_EQ(scalars, scalars_of_records(folder.file("log/train.jsonl")));
}

}  // namespace
}  // namespace wholestep::test
