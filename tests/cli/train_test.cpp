#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint.h"
#include "process.h"
#include "wholestep/data.h"
#include "wholestep/io.h"
#include "wholestep/nn.h"
#include "wholestep/schedule.h"
#include "wholestep/trainer.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

TEST(Train, LearnsAndReportsEveryFieldOfItsContract) {
  const DataFolder folder;
  const json result = result_of(run(folder, {"train", "mlp", "--data", folder.data(), "--batch", "16", "--epochs", "6",
                                             "--lr", "0.003", "--save", "a.safetensors", "--json"}));
  EXPECT_EQ(result.at("steps"), 6 * 13) << "200 images: twelve batches of 16 and one of 8";
  EXPECT_GT(result.at("test_accuracy").get<double>(), 0.9);
  EXPECT_LT(result.at("final_loss").get<double>(), 1.0);
  EXPECT_GT(result.at("step_us_median").get<double>(), 0);
  EXPECT_EQ(result.at("resident"), true);
  EXPECT_EQ(result.at("checkpoint"), "a.safetensors");
  ASSERT_EQ(result.at("epochs").size(), 6u);
  EXPECT_LT(result.at("epochs")[5].at("train_loss"), result.at("epochs")[0].at("train_loss"));
  EXPECT_EQ(steps_in(folder.file("a.safetensors")), "78");
}

TEST(Train, WithoutATerminalPrintsResultsAloneAndNoBar) {
  const DataFolder folder;
  const Finished result = run(folder, {"train", "--data", folder.data(), "--epochs", "2"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("epoch   2/2"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("resident: yes"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find('\r'), std::string::npos);
}

TEST(Train, WithoutSaveKeepsNothing) {
  const DataFolder folder;
  const json result = result_of(run(folder, {"train", "--data", folder.data(), "--steps", "3", "--json"}));
  EXPECT_TRUE(result.at("checkpoint").is_null());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_NE(entry.path().extension(), ".safetensors");
}

TEST(Eval, OfACheckpointIsWhatTrainingReported) {
  const DataFolder folder;
  const json trained =
      result_of(run(folder, {"train", "--data", folder.data(), "--steps", "20", "--save", "a.safetensors", "--json"}));
  const json evaluated =
      result_of(run(folder, {"eval", "mlp", "--data", folder.data(), "--load", "a.safetensors", "--json"}));
  EXPECT_EQ(evaluated.at("test_accuracy"), trained.at("test_accuracy"));
  EXPECT_EQ(evaluated.at("final_loss"), trained.at("test_loss"));
  EXPECT_EQ(evaluated.at("steps"), 20);
  EXPECT_EQ(evaluated.at("checkpoint"), "a.safetensors");
  for (const char* field : {"step_us_median", "resident"}) EXPECT_TRUE(evaluated.contains(field)) << field;
}

TEST(Eval, OfAFileWithoutTheModelsTensorsIsAnErrorThatNamesOne) {
  const DataFolder folder;
  const Array stray = Array::from(std::vector<float>{1, 2});
  io::write_safetensors(folder.file("other.safetensors"), {{"stray", stray}});
  const Finished result = run(folder, {"eval", "mlp", "--data", folder.data(), "--load", "other.safetensors"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("fc1.weight"), std::string::npos) << result.err;
}

TEST(Train, IsTheLibrarysStepsOnBatchesFromTheHostBitForBit) {
  const DataFolder folder;
  const json result = result_of(
      run(folder, {"train", "--data", folder.data(), "--batch", "16", "--steps", "30", "--lr", "0.002", "--schedule",
                   "linear", "--seed", "7", "--log", "log", "--save", "a.safetensors", "--json"}));
  const data::ImageSet training = data::read_idx(folder.data(), data::Split::train);
  const Graph graph = models::mlp(16);
  ResidentTrainer trainer(graph, trainable(graph), initial_values(graph, 7), AdamW{.lr = 0.002});
  trainer.set_graph_builder(models::by_name("mlp"));
  const Schedule schedule = Schedule::parse("linear", 30);
  std::istringstream log(read_file(folder.file("log/train.jsonl")));
  std::string line;
  while (trainer.steps() < 30) {
    for (const data::Batch& batch :
         training.shuffled(7, static_cast<std::uint64_t>(trainer.steps() / 13)).batches(16)) {
      trainer.set_lr(0.002 * schedule.at(trainer.steps()));
      const float loss = trainer.step({{"x", batch.images}, {"y", batch.labels}}).loss();
      while (std::getline(log, line) && json::parse(line).at("event") != "step") continue;
      const json record = json::parse(line);
      EXPECT_EQ(record.at("loss"), loss) << line;
      EXPECT_EQ(record.at("lr"), trainer.lr()) << line;
      if (trainer.steps() == 30) break;
    }
  }
  const io::SafeTensors file = io::read_safetensors(folder.file("a.safetensors"));
  for (const auto& [name, value] : trainer.params()) EXPECT_TRUE(value.same_bits(*find(file.tensors, name))) << name;

  const data::ImageSet test = data::read_idx(folder.data(), data::Split::test);
  double loss = 0, correct = 0;
  for (const data::Batch& batch : test.batches(16)) {
    const std::vector<Array> values = trainer.forward_only({{"x", batch.images}, {"y", batch.labels}}).values;
    loss += values[0].item() * static_cast<double>(batch.count);
    correct += values[1].item();
  }
  EXPECT_EQ(result.at("test_loss"), loss / static_cast<double>(test.size()));
  EXPECT_EQ(result.at("test_accuracy"), correct / static_cast<double>(test.size()));
}

TEST(Train, ResumedInTheMiddleOfAnEpochEndsWithTheSameBits) {
  const DataFolder folder;
  const std::vector<std::string> common{"train", "--data", folder.data(), "--batch", "16", "--seed", "5", "--save"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run(folder, more);
  };
  ASSERT_EQ(with({"whole.safetensors", "--steps", "31"}).status, 0);
  ASSERT_EQ(with({"part.safetensors", "--steps", "17"}).status, 0);
  ASSERT_EQ(with({"part.safetensors", "--steps", "31", "--resume", "part.safetensors"}).status, 0);
  expect_same_checkpoint(folder.file("whole.safetensors"), folder.file("part.safetensors"));
}

TEST(Train, ResumeTakesFromTheCheckpointWhatIsNotGiven) {
  const DataFolder folder;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--data", folder.data()});
    return run(folder, more);
  };
  const std::vector<std::string> settings{"--optimizer", "sgd", "--lr", "0.1", "--batch", "20", "--seed", "9"};
  std::vector<std::string> whole = settings, part = settings;
  whole.insert(whole.end(), {"--steps", "14", "--save", "whole.safetensors"});
  part.insert(part.end(), {"--steps", "6", "--save", "part.safetensors"});
  ASSERT_EQ(train(whole).status, 0);
  ASSERT_EQ(train(part).status, 0);
  ASSERT_EQ(train({"--steps", "14", "--resume", "part.safetensors", "--save", "part.safetensors"}).status, 0);
  expect_same_checkpoint(folder.file("whole.safetensors"), folder.file("part.safetensors"));
}

TEST(Train, RefusesToResumeAnotherRunAndNamesBoth) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--batch", "16", "--seed", "5", "--steps", "3", "--save",
                         "a.safetensors"})
                .status,
            0);
  const auto refused = [&](const std::string& flag, const std::string& asked, const std::string& had) {
    const Finished result =
        run(folder, {"train", "--data", folder.data(), "--resume", "a.safetensors", "--steps", "5", flag, asked});
    EXPECT_EQ(result.status, 1) << flag;
    EXPECT_NE(result.err.find(flag + " " + asked), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(had), std::string::npos) << result.err;
  };
  refused("--batch", "32", "16");
  refused("--seed", "6", "5");
  refused("--optimizer", "sgd", "adamw");

  const DataFolder smaller(120);
  const Finished other_data =
      run(folder, {"train", "--data", smaller.data(), "--resume", "a.safetensors", "--steps", "5"});
  EXPECT_EQ(other_data.status, 1);
  EXPECT_NE(other_data.err.find("120"), std::string::npos) << other_data.err;
  EXPECT_NE(other_data.err.find("200"), std::string::npos) << other_data.err;
}

TEST(Train, ResumedWithAScheduleEndsWithTheSameBits) {
  const DataFolder folder;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--data", folder.data(), "--lr", "0.002"});
    return run(folder, more);
  };
  ASSERT_EQ(train({"--schedule", "cosine", "--steps", "3000", "--save", "whole.safetensors"}).status, 0);
  Process process = start(folder, {"train", "--data", folder.data(), "--lr", "0.002", "--schedule", "cosine", "--steps",
                                   "3000", "--save", "part.safetensors", "--save-every", "20"});
  while (!std::filesystem::exists(folder.file("part.safetensors")) && !process.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGKILL);
  ASSERT_EQ(process.wait().status, 128 + SIGKILL);
  const Finished other_goal = train({"--resume", "part.safetensors", "--steps", "4000"});
  EXPECT_EQ(other_goal.status, 1);
  EXPECT_NE(other_goal.err.find("4000"), std::string::npos) << other_goal.err;
  EXPECT_NE(other_goal.err.find("3000"), std::string::npos) << other_goal.err;
  ASSERT_EQ(train({"--resume", "part.safetensors", "--save", "part.safetensors"}).status, 0);
  expect_same_checkpoint(folder.file("whole.safetensors"), folder.file("part.safetensors"));
}

TEST(Train, RefusesAGarbledCheckpoint) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--steps", "3", "--save", "a.safetensors"}).status, 0);
  const std::string whole = read_file(folder.file("a.safetensors"));
  std::ofstream(folder.file("b.safetensors"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  const Finished result = run(folder, {"train", "--data", folder.data(), "--steps", "5", "--resume", "b.safetensors"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.err.starts_with("wholestep: error: ")) << result.err;
}

TEST(Train, RefusesACheckpointWhoseRunNoOptionsCouldHaveSaid) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--steps", "3", "--clip-norm", "1", "--ema", "0.5", "--save",
                         "a.safetensors", "--save-best", "c.safetensors"})
                .status,
            0);
  const io::SafeTensors good = io::read_safetensors(folder.file("c.safetensors"));
  std::vector<std::pair<std::string, ArrayView>> tensors;
  for (const auto& [name, value] : good.tensors) tensors.emplace_back(name, value);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"model", "resnet9000"},
                                                        {"precision", "f8"},
                                                        {"schedule", "cosine(warmup=4)"},
                                                        {"monitor", "weather"},
                                                        {"goal", "9223372036854775807"},
                                                        {"batch", "0"},
                                                        {"lr", "nan"},
                                                        {"accumulate", "-1"},
                                                        {"examples", "9223372036854775807"},
                                                        {"clip_norm", "-inf"},
                                                        {"ema", "1.5"},
                                                        {"epoch_loss_sum", "nan"},
                                                        {"epoch_examples", "-1"},
                                                        {"best_epoch", "-9223372036854775808"}}) {
    auto metadata = good.metadata;
    bool found = false;
    for (auto& [name, text] : metadata) {
      if (name != "extra/" + key) continue;
      text = value;
      found = true;
    }
    ASSERT_TRUE(found) << key;
    io::write_safetensors(folder.file("b.safetensors"), tensors, metadata);
    const Finished result =
        run(folder, {"train", "--data", folder.data(), "--resume", "b.safetensors", "--steps", "9"});
    EXPECT_EQ(result.status, 1) << key;
    EXPECT_TRUE(result.err.starts_with("wholestep: error: b.safetensors: ")) << key << ": " << result.err;
    EXPECT_EQ(result.out, "") << key;
  }
}

TEST(Train, GivesTheSameBitsOnOneTwoAndFourThreads) {
  const DataFolder folder;
  for (const char* threads : {"1", "2", "4"}) {
    const std::string file = std::string(threads) + ".safetensors";
    ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--batch", "64", "--steps", "20", "--threads", threads,
                           "--save", file})
                  .status,
              0);
  }
  expect_same_checkpoint(folder.file("1.safetensors"), folder.file("2.safetensors"));
  expect_same_checkpoint(folder.file("1.safetensors"), folder.file("4.safetensors"));
}

/// Interrupts a run once it has saved, runs the command that it prints, and compares with a run that was left alone.
void expect_interruption_is_harmless(int signal) {
  const DataFolder folder;
  const std::vector<std::string> common{"train", "--data", folder.data(), "--batch", "16", "--steps", "2000", "--save"};
  std::vector<std::string> interrupted = common, whole = common;
  interrupted.insert(interrupted.end(), {"it's.safetensors", "--save-every", "50"});
  whole.emplace_back("whole.safetensors");

  Process process = start(folder, interrupted);
  const std::string checkpoint = folder.file("it's.safetensors");
  while (!std::filesystem::exists(checkpoint) && !process.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(signal);
  if (signal == SIGHUP) process.send(signal);  // by the terminal, and by its shell
  const Finished stopped = process.wait();
  ASSERT_EQ(stopped.status, 130) << stopped.err;
  const std::string steps = steps_in(checkpoint);
  EXPECT_NE(stopped.err.find("interrupted at step " + steps + " of 2000"), std::string::npos) << stopped.err;

  const Finished resumed = run_shell(folder, last_line(stopped.err));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  ASSERT_EQ(run(folder, whole).status, 0);
  expect_same_checkpoint(folder.file("whole.safetensors"), checkpoint);
}

TEST(Train, AfterCtrlCThePrintedCommandEndsWithTheBitsOfTheRunThatWasLeftAlone) {
  expect_interruption_is_harmless(SIGINT);
}
TEST(Train, AfterSigtermThePrintedCommandEndsWithTheBitsOfTheRunThatWasLeftAlone) {
  expect_interruption_is_harmless(SIGTERM);
}
TEST(Train, AfterItsTerminalWentAwayThePrintedCommandEndsWithTheBitsOfTheRunThatWasLeftAlone) {
  expect_interruption_is_harmless(SIGHUP);
}

TEST(Train, UnderNohupHearsOfNoHangUp) {
  const DataFolder folder;
  Process process(folder, {"/bin/sh", "-c",
                           "trap '' HUP; PATH=" + std::string(WHOLESTEP_BUILD_DIR) +
                               ":$PATH; exec wholestep train --data data --steps 1000 --log log --json"});
  while (read_file(folder.file("log/train.jsonl")).empty() && !process.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGHUP);
  EXPECT_EQ(result_of(process.wait()).at("steps"), 1000);
}

TEST(Train, GoesOnWithoutAReaderOfItsOutputAndSaysSoAtTheEnd) {
  const DataFolder folder;
  for (const std::string to : {"| head -1", "> /dev/full", ">&-"}) {
    const Finished result = run_shell(
        folder, "{ wholestep train --data data --epochs 3 --log log --save a.safetensors; echo $? > status; } " + to);
    EXPECT_EQ(read_file(folder.file("status")), "1\n") << to;
    EXPECT_EQ(result.err, "wholestep: error: cannot write to standard output\n") << to;
    EXPECT_EQ(steps_in(folder.file("a.safetensors")), "12") << to;
    std::istringstream log(read_file(folder.file("log/train.jsonl")));
    for (std::string line; std::getline(log, line);) EXPECT_TRUE(json::accept(line)) << to << ": " << line;
    std::filesystem::remove(folder.file("a.safetensors"));
  }
}

TEST(Train, PrintsANameThatIsNoTextAsWellAsJsonCan) {
  const DataFolder folder;
  const json result =
      result_of(run(folder, {"train", "--data", folder.data(), "--steps", "1", "--save", "\xff.s", "--json"}));
  EXPECT_EQ(result.at("checkpoint"), "\xEF\xBF\xBD.s");
}

TEST(Train, InterruptedWithoutSaveKeepsTheStateAnyway) {
  const DataFolder folder;
  Process process = start(folder, {"train", "--data", folder.data(), "--steps", "100000000", "--log", "log"});
  while (read_file(folder.file("log/train.jsonl")).empty() && !process.ended())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  process.send(SIGINT);
  const Finished stopped = process.wait();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_NE(last_line(stopped.err).find("--resume mlp-interrupted.safetensors"), std::string::npos) << stopped.err;
  EXPECT_NE(steps_in(folder.file("mlp-interrupted.safetensors")), "none");
}

TEST(Train, StopsAtALossThatIsNotFiniteAndLeavesTheLastGoodCheckpoint) {
  const DataFolder folder;
  const Finished result = run(folder, {"train", "--data", folder.data(), "--optimizer", "sgd", "--lr", "1e30",
                                       "--steps", "50", "--save", "a.safetensors", "--save-every", "1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("training stopped at step "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("a.safetensors (step "), std::string::npos) << result.err;
  for (const auto& [name, value] : io::read_safetensors(folder.file("a.safetensors")).tensors) {
    for (const double element : value.to_doubles()) ASSERT_TRUE(std::isfinite(element)) << name;
  }
}

TEST(Train, FindsATargetThatCannotBeWrittenBeforeItTrains) {
  const DataFolder folder;
  for (const std::string& target : {folder.file("no/such/folder/a.safetensors"), folder.data()}) {
    const Finished result = run(folder, {"train", "--data", folder.data(), "--epochs", "1", "--save", target});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "") << "nothing was trained";
    EXPECT_NE(result.err.find(target), std::string::npos) << result.err;
  }
  std::filesystem::create_symlink("not-there", folder.file("link"));
  std::filesystem::create_symlink("loop", folder.file("loop"));
  for (const char* target : {"link", "loop"}) {
    const Finished result = run(folder, {"train", "--data", folder.data(), "--epochs", "1", "--save", target});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.out, "") << "nothing was trained";
    EXPECT_NE(result.err.find("a link to nothing"), std::string::npos) << result.err;
  }
}

TEST(Train, AFullTargetIsAnErrorThatKeepsTheOldCheckpoint) {
  const DataFolder folder;
  const std::string command = "wholestep train --data data --save a.safetensors";
  ASSERT_EQ(run_shell(folder, command + " --steps 3").status, 0);
  const std::string before = read_file(folder.file("a.safetensors"));
  // Files may grow to a few KiB; without the trap, the signal for growing further would end the process.
  const Finished result = run_shell(folder, "trap '' XFSZ; ulimit -f 8; exec " + command + " --steps 5");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("a.safetensors"), std::string::npos) << result.err;
  EXPECT_EQ(read_file(folder.file("a.safetensors")), before);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(name == "data" || name == "a.safetensors" || name == "a.safetensors.json" || name == "stdout" ||
                name == "stderr")
        << name << " was left behind";
  }
}

TEST(Train, LogsEveryStepAndEpochAsJsonLinesAndAppends) {
  const DataFolder folder;
  for (const char* steps : {"20", "26"}) {
    std::vector<std::string> words{"train", "--data", folder.data(), "--batch", "16",           "--steps",
                                   steps,   "--log",  "log",         "--save",  "a.safetensors"};
    if (std::filesystem::exists(folder.file("a.safetensors"))) words.insert(words.end(), {"--resume", "a.safetensors"});
    ASSERT_EQ(run(folder, words).status, 0);
  }
  std::istringstream lines(read_file(folder.file("log/train.jsonl")));
  std::int64_t steps = 0;
  int epochs = 0;
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (record.at("event") == "step") {
      EXPECT_EQ(record.at("step"), ++steps);
    } else {
      EXPECT_EQ(record.at("event"), "epoch");
      EXPECT_EQ(record.at("step"), steps);
      ++epochs;
    }
  }
  EXPECT_EQ(steps, 26);
  EXPECT_EQ(epochs, 3) << "one whole, one to step 20, its rest";

  int event_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("log"))) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    ++event_files;
    EXPECT_NE(read_file(entry.path()).find("epoch/test_accuracy"), std::string::npos);
  }
  EXPECT_EQ(event_files, 2) << "one for each process";
}

}  // namespace
}  // namespace wholestep::test
