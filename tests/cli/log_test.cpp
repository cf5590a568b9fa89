// What a log holds after a run was killed and goes on.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint.h"
#include "process.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

Finished train(const DataFolder& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {"train", "--data", folder.data(), "--batch", "16"});
  return run(folder, more);
}

/// The steps of the records of one kind.
std::vector<std::int64_t> steps_of(const std::string& log, const std::string& event) {
  std::vector<std::int64_t> steps;
  std::istringstream lines(read_file(log));
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (record.at("event") == event) steps.push_back(record.at("step"));
  }
  return steps;
}

std::vector<std::int64_t> from_1_to(std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = 1; step <= last; ++step) steps.push_back(step);
  return steps;
}

TEST(Log, HoldsEachStepOnceAfterARunThatLoggedMoreThanItSavedGoesOn) {
  const DataFolder folder;
  const std::string log = folder.file("log/train.jsonl");
  ASSERT_EQ(train(folder, {"--steps", "13", "--log", "log", "--save", "a.safetensors"}).status, 0);
  ASSERT_EQ(train(folder, {"--steps", "40", "--log", "log", "--resume", "a.safetensors"}).status, 0);
  ASSERT_EQ(steps_of(log, "step"), from_1_to(40));
  std::ofstream(log, std::ios::app) << R"({"event": "step", "st)";

  const Finished resumed = train(folder, {"--steps", "20", "--log", "log", "--resume", "a.safetensors"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(steps_of(log, "step"), from_1_to(20));
  EXPECT_EQ(steps_of(log, "epoch"), (std::vector<std::int64_t>{13, 20})) << "the one at the checkpoint stays";
  EXPECT_NE(resumed.out.find("log/train.jsonl: cut off 30 records of steps after 13"), std::string::npos)
      << "27 steps and three epochs: " << resumed.out;
}

TEST(Log, OfEarlierRunsStaysWhereALaterRunInTheSameFolderGoesOn) {
  const DataFolder folder;
  const std::string log = folder.file("log/train.jsonl");
  ASSERT_EQ(train(folder, {"--steps", "9", "--log", "log"}).status, 0);
  ASSERT_EQ(train(folder, {"--steps", "3", "--log", "log", "--save", "a.safetensors"}).status, 0);
  {
    std::ofstream file(log, std::ios::app);
    for (int step = 4; step <= 3000; ++step)
      file << R"({"event": "step", "step": )" << step << R"(, "loss": 1})" << '\n';
    file << "no record\n";
  }
  ASSERT_EQ(train(folder, {"--steps", "5", "--log", "log", "--resume", "a.safetensors"}).status, 0);
  std::vector<std::int64_t> expected = from_1_to(9);
  for (const std::int64_t step : from_1_to(5)) expected.push_back(step);
  EXPECT_EQ(steps_of(log, "step"), expected);
}

TEST(Log, IsLeftAloneWhereNothingIsLeftToTrain) {
  const DataFolder folder;
  ASSERT_EQ(train(folder, {"--steps", "3", "--save", "a.safetensors"}).status, 0);
  ASSERT_EQ(train(folder, {"--steps", "6", "--log", "log", "--resume", "a.safetensors"}).status, 0);
  const std::string before = read_file(folder.file("log/train.jsonl"));
  ASSERT_EQ(train(folder, {"--log", "log", "--resume", "a.safetensors"}).status, 0);
  EXPECT_EQ(read_file(folder.file("log/train.jsonl")), before);
}

TEST(Log, ThatCannotBeWrittenLosesNoStepAndIsNoSuccess) {
  const DataFolder folder;
  std::filesystem::create_directory(folder.file("log"));
  std::filesystem::create_symlink("/dev/full", folder.file("log/train.jsonl"));
  const Finished result =
      train(folder, {"--steps", "20", "--log", "log", "--save", "a.safetensors", "--save-every", "6"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "--log log: log/train.jsonl: cannot write: No space left on device; the run goes on without\n"
            "wholestep: error: --log log does not hold all steps\n");
  EXPECT_EQ(steps_in(folder.file("a.safetensors")), "20");
}

TEST(Log, IsNoPipe) {
  const DataFolder folder;
  std::filesystem::create_directory(folder.file("log"));
  ASSERT_EQ(mkfifo(folder.file("log/train.jsonl").c_str(), 0600), 0);
  const Finished result = run(folder, {"train", "--data", folder.data(), "--steps", "1", "--log", "log"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("expected a file, log/train.jsonl is a pipe"), std::string::npos) << result.err;
}

TEST(Log, TellsTensorBoardAtWhichStepARunGoesOn) {
  const DataFolder folder;
  ASSERT_EQ(train(folder, {"--steps", "3", "--save", "a.safetensors", "--log", "whole"}).status, 0);
  ASSERT_EQ(train(folder, {"--steps", "5", "--resume", "a.safetensors", "--log", "rest"}).status, 0);
  const auto events = [&](const std::string& log) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.file(log))) {
      if (entry.path().filename().string().starts_with("events.")) return read_file(entry.path());
    }
    return std::string();
  };
  // The fields of an Event: step (2) is 4, session_log (7) is a message whose status (1) is START.
  const std::string start{0x10, 0x04, 0x3A, 0x02, 0x08, 0x01};
  EXPECT_NE(events("rest").find(start), std::string::npos);
  EXPECT_EQ(events("whole").find("\x3A\x02\x08\x01"), std::string::npos) << "a new run takes nothing away";
}

}  // namespace
}  // namespace wholestep::test
