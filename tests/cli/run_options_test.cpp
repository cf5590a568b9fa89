// What `train` can be asked to do besides training: stop early, keep checkpoints, take its options from a file.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "checkpoint.h"
#include "process.h"
#include "wholestep/io.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

std::vector<std::string> train(const DataFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> words{"train", "--data", folder.data(), "--batch", "16", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> files_of(const Folder& folder, const std::string& start) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    if (name.starts_with(start)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Train, LossOfAnEpochCoversWhatCameBeforeAResumeToo) {
  const DataFolder folder;
  const json whole = result_of(run(folder, train(folder, {"--steps", "26"})));
  ASSERT_EQ(run(folder, train(folder, {"--steps", "17", "--save", "a.safetensors"})).status, 0);
  const json resumed = result_of(run(folder, train(folder, {"--steps", "26", "--resume", "a.safetensors"})));
  ASSERT_EQ(resumed.at("epochs").size(), 1u);
  EXPECT_EQ(resumed.at("epochs")[0].at("epoch"), 2);
  EXPECT_EQ(resumed.at("epochs")[0].at("train_loss"), whole.at("epochs")[1].at("train_loss"));
}

TEST(Train, ResumedAtItsEndSaysThatNothingIsLeft) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, train(folder, {"--steps", "3", "--save", "a.safetensors"})).status, 0);
  const Finished again = run(folder, {"train", "--data", folder.data(), "--resume", "a.safetensors"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.out.find("nothing left to train: 3 steps of 3 are done"), std::string::npos) << again.out;
}

TEST(Train, InterruptedBeforeTheFirstStepSaysSoAndCanGoOn) {
  const DataFolder folder;
  for (int attempt = 0; attempt < 20; ++attempt) {
    // Without compiled programs, there is time before the first step.
    const std::string command = "WHOLESTEP_CACHE_DIR=cold" + std::to_string(attempt) +
                                " exec wholestep train --data data --steps 5000 --save a.safetensors --json";
    std::filesystem::remove(folder.file("stderr"));
    Process process(folder, {"/bin/sh", "-c", "PATH=" + std::string(WHOLESTEP_BUILD_DIR) + ":$PATH; " + command});
    // What is said last before the first step is made ready.
    while (!process.ended() && read_file(folder.file("stderr")).find("parameters") == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.send(SIGINT);
    const Finished stopped = process.wait();
    if (stopped.err.find("interrupted before the first step, at step 0 of 5000") == std::string::npos) continue;
    EXPECT_EQ(stopped.status, 130);
    const Finished resumed = run_shell(folder, last_line(stopped.err) + " --steps 4");
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(steps_in(folder.file("a.safetensors")), "4");
    return;
  }
  FAIL() << "no signal came between the start of the process and its first step";
}

TEST(Train, StopsEarlyWhereTheTestLossGetsNoBetterAndStaysStopped) {
  const DataFolder folder;
  const json result = result_of(
      run(folder, train(folder, {"--epochs", "20", "--lr", "0", "--patience", "3", "--save", "a.safetensors"})));
  EXPECT_EQ(result.at("stopped_early"), true);
  EXPECT_EQ(result.at("best_epoch"), 1);
  EXPECT_EQ(result.at("epochs").size(), 4u) << "the best one and three that are no better";
  EXPECT_EQ(result.at("best"), result.at("epochs")[0].at("test_loss"));
  const Finished again = run(folder, train(folder, {"--patience", "3", "--resume", "a.safetensors"}));
  EXPECT_NE(again.err.find("stopped early at step 52 of 260"), std::string::npos) << again.err;
  EXPECT_EQ(result_of(again).at("epochs").size(), 0u);
}

TEST(Train, SavesTheEpochThatDidBest) {
  const DataFolder folder;
  for (const std::string monitor : {"loss", "accuracy"}) {
    const json result = result_of(run(folder, train(folder, {"--epochs", "6", "--lr", "0.02", "--save-best",
                                                             "b.safetensors", "--monitor", monitor})));
    const json* best = nullptr;
    const std::string field = "test_" + monitor;
    for (const json& epoch : result.at("epochs")) {
      if (!best || (monitor == "loss" ? epoch.at(field) < best->at(field) : epoch.at(field) > best->at(field)))
        best = &epoch;
    }
    EXPECT_EQ(result.at("best_epoch"), best->at("epoch"));
    EXPECT_EQ(result.at("best"), best->at(field));
    EXPECT_EQ(steps_in(folder.file("b.safetensors")), best->at("steps").dump());
    const json evaluated =
        result_of(run(folder, {"eval", "--data", folder.data(), "--load", "b.safetensors", "--batch", "16", "--json"}));
    EXPECT_EQ(evaluated.at(monitor == "loss" ? "final_loss" : "test_accuracy"), result.at("best"));
  }
}

TEST(Train, KeepsTheNewestOfItsNumberedCheckpointsEvenAcrossAResume) {
  const DataFolder folder;
  std::ofstream(folder.file("a-900.safetensors")) << "of another run, and ahead of this one";
  ASSERT_EQ(run(folder, train(folder, {"--steps", "25", "--save", "a.safetensors", "--save-every", "5", "--keep", "2"}))
                .status,
            0);
  const std::vector<std::string> after_25{"a-20.safetensors",      "a-20.safetensors.json", "a-25.safetensors",
                                          "a-25.safetensors.json", "a-900.safetensors",     "a.safetensors",
                                          "a.safetensors.json"};
  EXPECT_EQ(files_of(folder, "a"), after_25);
  EXPECT_EQ(steps_in(folder.file("a-20.safetensors")), "20");
  ASSERT_EQ(run(folder, train(folder, {"--steps", "31", "--save", "a.safetensors", "--save-every", "5", "--keep", "2",
                                       "--resume", "a-25.safetensors"}))
                .status,
            0);
  EXPECT_EQ(files_of(folder, "a-"),
            (std::vector<std::string>{"a-25.safetensors", "a-25.safetensors.json", "a-30.safetensors",
                                      "a-30.safetensors.json", "a-900.safetensors"}));
  ASSERT_EQ(run(folder, train(folder, {"--steps", "31", "--save", "whole.safetensors"})).status, 0);
  expect_same_checkpoint(folder.file("whole.safetensors"), folder.file("a.safetensors"));
}

TEST(Train, TheConfigurationBesideACheckpointIsTheWholeRun) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, train(folder, {"--steps",      "20",
                                       "--optimizer",  "lion",
                                       "--lr",         "0.0003",
                                       "--schedule",   "cosine(warmup=5, final=0.1)",
                                       "--seed",       "18446744073709551615",
                                       "--clip-norm",  "0.5",
                                       "--ema",        "0.9",
                                       "--accumulate", "2",
                                       "--threads",    "1",
                                       "--patience",   "9",
                                       "--log",        "log",
                                       "--save",       "a.safetensors"}))
                .status,
            0);
  const json config = json::parse(read_file(folder.file("a.safetensors.json")));
  EXPECT_EQ(config.at("model"), "mlp");
  EXPECT_EQ(config.at("lr"), 0.0003);
  EXPECT_EQ(config.at("schedule"), "cosine(warmup=5, final=0.1)");
  EXPECT_EQ(config.at("seed"), 18446744073709551615u);
  EXPECT_EQ(config.at("steps"), 20);
  EXPECT_EQ(config.at("clip-norm"), 0.5);
  EXPECT_EQ(config.at("log"), "log");
  ASSERT_EQ(run(folder, {"train", "--config", "a.safetensors.json", "--save", "b.safetensors"}).status, 0);
  expect_same_checkpoint(folder.file("a.safetensors"), folder.file("b.safetensors"));
  json expected = config;
  expected["save"] = "b.safetensors";
  EXPECT_EQ(json::parse(read_file(folder.file("b.safetensors.json"))), expected) << "the command line overrides";
  ASSERT_EQ(run(folder, {"train", "--config", "a.safetensors.json", "--epochs", "1", "--save", "c.safetensors"}).status,
            0);
  EXPECT_EQ(steps_in(folder.file("c.safetensors")), "7") << "epochs on the command line stand for steps in the file";
}

TEST(Train, AWrongValueInAConfigurationIsAWrongCommandLineAndTheMessageNamesTheKey) {
  const DataFolder folder;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    std::ofstream(folder.file("run.json")) << text;
    const Finished result = run(folder, train(folder, {"--config", "run.json", "--log", "l"}));
    EXPECT_EQ(result.status, 2) << text;
    EXPECT_TRUE(result.err.starts_with("run.json: ")) << result.err;
    for (const std::string& part : parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  refused("{\"stepz\": 3}", {"\"stepz\"", "steps"});
  refused("{\"config\": \"other.json\"}", {"\"config\""});
  refused("{\"lr\": -1}", {"--lr", "-1"});
  refused("{\"lr\": [1]}", {"\"lr\"", "array"});
  refused("{\"optimizer\": null}", {"\"optimizer\"", "null"});
  refused("{\"optimizer\": \"adamm\"}", {"--optimizer", "adamm", "adamw"});
  refused("{\"seed\": -1}", {"--seed", "-1"});
  refused("{\"seed\": 1.5}", {"--seed", "1.5"});
  refused("{\"steps\": 1, \"epochs\": 1}", {"exclude"});
  refused("{\"seed\": 1, \"seed\": 2}", {"\"seed\" comes twice"});
  refused("{\"save\": \"a\\u0000b\"}", {"\"save\"", "zero byte"});
  EXPECT_FALSE(std::filesystem::exists(folder.file("l"))) << "nothing was begun";
}

TEST(Train, RefusesAConfigurationThatIsNoneOrMissing) {
  const DataFolder folder;
  const auto refused = [&](const std::string& name, const std::vector<std::string>& parts) {
    const Finished result = run(folder, train(folder, {"--config", name, "--log", "l"}));
    EXPECT_EQ(result.status, 1) << name;
    EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
    for (const std::string& part : parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  };
  std::ofstream(folder.file("array.json")) << "[]";
  refused("array.json", {"object", "array"});
  std::ofstream(folder.file("cut.json")) << "{\"lr\": ";
  refused("cut.json", {"no JSON"});
  refused("none.json", {"cannot open"});
  refused("/dev/zero", {"regular file"});
  refused("data", {"directory"});
  EXPECT_FALSE(std::filesystem::exists(folder.file("l"))) << "nothing was begun";
}

TEST(Train, AccumulatedBatchesAreOneLargeBatchToRounding) {
  const DataFolder folder(192);
  const json large = result_of(
      run(folder, {"train", "--data", folder.data(), "--batch", "32", "--steps", "4", "--optimizer", "sgd", "--json"}));
  const json small = result_of(run(folder, train(folder, {"--accumulate", "2", "--steps", "4", "--optimizer", "sgd"})));
  EXPECT_NEAR(small.at("final_loss").get<double>(), large.at("final_loss").get<double>(), 1e-5);
  EXPECT_NEAR(small.at("test_loss").get<double>(), large.at("test_loss").get<double>(), 1e-5);
}

TEST(Train, SaysWhereAStepIsMadeOfLessThanWasAskedFor) {
  const DataFolder folder;
  const Finished batch = run(folder, {"train", "--data", folder.data(), "--steps", "1", "--batch", "201"});
  EXPECT_EQ(batch.status, 0);
  EXPECT_EQ(batch.err, "--batch 201: the training set has 200 examples, so each step takes all of them\n");
  const Finished accumulate = run(folder, {"train", "--data", folder.data(), "--steps", "1", "--accumulate", "4"});
  EXPECT_EQ(accumulate.status, 0);
  EXPECT_EQ(accumulate.err, "--accumulate 4: an epoch has 3 batches of 64, so a step takes no more\n");
}

TEST(Train, ResumedWhileAccumulatingEndsWithTheSameBits) {
  const DataFolder folder;
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--accumulate", "5", "--clip-norm", "0.1", "--ema", "0.8"});
    return run(folder, train(folder, more));
  };
  ASSERT_EQ(with({"--steps", "9", "--save", "whole.safetensors"}).status, 0) << "epochs of 5, 5, 2 and a smaller batch";
  for (const char* steps : {"3", "4", "9"}) {
    std::vector<std::string> words{"--steps", steps, "--save", "part.safetensors"};
    if (std::filesystem::exists(folder.file("part.safetensors")))
      words.insert(words.end(), {"--resume", "part.safetensors"});
    ASSERT_EQ(with(words).status, 0);
  }
  expect_same_checkpoint(folder.file("whole.safetensors"), folder.file("part.safetensors"));
  const Finished other = run(folder, train(folder, {"--ema", "0.7", "--resume", "part.safetensors"}));
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("--ema 0.7"), std::string::npos) << other.err;
}

TEST(Eval, OfAveragesIsWhatTrainingReported) {
  const DataFolder folder;
  const json trained =
      result_of(run(folder, train(folder, {"--steps", "13", "--ema", "0.9", "--save", "a.safetensors"})));
  const auto eval = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--data", folder.data(), "--load", "a.safetensors", "--batch", "16", "--json"});
    return result_of(run(folder, more));
  };
  EXPECT_EQ(eval({"--average"}).at("final_loss"), trained.at("test_loss"));
  EXPECT_NE(eval({}).at("final_loss"), trained.at("test_loss"));
}

TEST(Eval, OfAScheduleFreeCheckpointIsAtThePointThatTrainingEvaluated) {
  const DataFolder folder;
  const json trained = result_of(
      run(folder, train(folder, {"--steps", "13", "--optimizer", "schedule_free_adamw", "--save", "a.safetensors"})));
  const json evaluated =
      result_of(run(folder, {"eval", "--data", folder.data(), "--load", "a.safetensors", "--batch", "16", "--json"}));
  EXPECT_NEAR(evaluated.at("final_loss").get<double>(), trained.at("test_loss").get<double>(), 1e-6);
}

TEST(Train, RotationLeavesFilesAloneThatOtherRunsOrPeopleWrote) {
  const DataFolder folder;
  const auto save = [&](const std::string& seed, const std::string& steps, const std::string& to) {
    ASSERT_EQ(run(folder, train(folder, {"--steps", steps, "--seed", seed, "--save", to})).status, 0);
  };
  save("1", "7", "a-1.safetensors");
  save("2", "5", "a-5.safetensors");
  save("0", "9", "a-4.safetensors");
  std::ofstream(folder.file("a-3.safetensors")) << "precious";
  const std::vector<std::string> before = files_of(folder, "a-");
  save("0", "10", "a.safetensors");
  ASSERT_EQ(run(folder, train(folder, {"--steps", "22", "--save", "a.safetensors", "--save-every", "5", "--keep", "1",
                                       "--resume", "a.safetensors"}))
                .status,
            0);
  std::vector<std::string> after = files_of(folder, "a-");
  EXPECT_EQ(std::erase_if(after, [](const std::string& name) { return name.starts_with("a-20."); }), 2);
  EXPECT_EQ(after, before);
}

TEST(Eval, OfWeightsThatAreNotFiniteIsAnErrorThatNamesThem) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, train(folder, {"--steps", "1", "--save", "a.safetensors"})).status, 0);
  io::SafeTensors file = io::read_safetensors(folder.file("a.safetensors"));
  std::vector<std::pair<std::string, ArrayView>> tensors;
  for (auto& [name, value] : file.tensors) {
    if (name == "fc2.bias") value.as<float>()[3] = -std::numeric_limits<float>::quiet_NaN();
    tensors.emplace_back(name, value);
  }
  io::write_safetensors(folder.file("a.safetensors"), tensors, file.metadata);
  const Finished result = run(folder, {"eval", "--data", folder.data(), "--load", "a.safetensors"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("\"fc2.bias\" holds nan"), std::string::npos) << result.err;
  for (const char* steps : {"1", "9"}) {
    const Finished resumed = run(folder, train(folder, {"--resume", "a.safetensors", "--steps", steps}));
    EXPECT_EQ(resumed.status, 1);
    EXPECT_NE(resumed.err.find("a.safetensors: tensor \"fc2.bias\" holds nan"), std::string::npos) << resumed.err;
  }
}

TEST(Train, FindsAFileSystemWithoutRoomBeforeItTrains) {
  const DataFolder folder;
  const std::string mount = "mkdir small && mount -t tmpfs -o size=64k none small";
  if (run_shell(folder, "unshare -rm sh -c '" + mount + "' && rmdir small").status != 0)
    GTEST_SKIP() << "no file systems of one's own here";
  const Finished result = run_shell(folder, "unshare -rm sh -c '" + mount +
                                                " && wholestep train --data data --steps 3 --save small/a.safetensors; "
                                                "status=$?; ls -A small; exit $status'");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("--save small/a.safetensors: no space"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "") << "nothing was trained, nothing left behind";

  // Enough for the tensors, too little for all that goes with them.
  const std::string tight = "mkdir tight && mount -t tmpfs -o size=1196k none tight";
  const Finished header = run_shell(
      folder, "unshare -rm sh -c '" + tight + " && wholestep train --data data --steps 3 --save tight/a.safetensors'");
  EXPECT_NE(header.err.find("--save tight/a.safetensors: no space"), std::string::npos) << header.err;
}

}  // namespace
}  // namespace wholestep::test
