#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "process.h"
#include "wholestep/graph.h"
#include "wholestep/ops.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

TEST(CommandLine, EndsWithStatus2WhereItIsWrong) {
  const Folder folder;
  EXPECT_EQ(run(folder, {}).status, 2);
  EXPECT_EQ(run(folder, {"tarin"}).status, 2);
  EXPECT_EQ(run(folder, {"train"}).status, 2) << "--data is required";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--batch", "0"}).status, 2);
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--epochs", "1", "--steps", "1"}).status, 2);
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save-every", "1"}).status, 2) << "--save-every needs --save";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save", "f", "--keep", "1"}).status, 2) << "needs --save-every";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save", "f", "--save-best", "./f"}).status, 2) << "one file";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save", "f", "--log", "./f"}).status, 2) << "a folder in its place";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save-best", "f", "--log", "f.json"}).status, 2);
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save", "f", "--save-best", "f.json"}).status, 2)
      << "f.json is of f";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--save", "f.json", "--save-best", "f"}).status, 2)
      << "f.json is of f";
  for (const char* target : {"l/train.jsonl", "d/train-images-idx3-ubyte", "d/t10k-labels-idx1-ubyte.gz"}) {
    EXPECT_EQ(run(folder, {"train", "--data", "d", "--log", "l", "--save", target}).status, 2) << target;
    EXPECT_EQ(run(folder, {"train", "--data", "d", "--log", "l", "--save-best", target}).status, 2) << target;
  }
  const std::vector<std::string> rotating{"train",        "--data", "d",      "--save", "f.st",
                                          "--save-every", "5",      "--keep", "1",      "--save-best"};
  for (const auto& [best, status] : {std::pair("f-15.st", 2), {"g/f-15.st", 1}, {"f-best.st", 1}}) {
    std::vector<std::string> words = rotating;
    words.emplace_back(best);
    EXPECT_EQ(run(folder, words).status, status) << best;
  }
  std::ofstream(folder.file("c.json")) << R"({"data": "d", "save": "c.json"})";
  EXPECT_EQ(run(folder, {"train", "--config", "c.json"}).status, 2) << "the configuration would be gone";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--lr", "1e39"}).status, 2) << "a rate is a float";
  EXPECT_EQ(run(folder, {"eval", "--data", "d", "--average"}).status, 2) << "--average needs --load";
  EXPECT_EQ(run(folder, {"train", "--data", "d", "--device", "abacus"}).status, 2);
  EXPECT_EQ(run(folder, {"show"}).status, 2);
  EXPECT_EQ(run(folder, {"bench"}).status, 2);
}

TEST(CommandLine, HelpIsASuccessOnStandardOutput) {
  const Folder folder;
  const Finished help = run(folder, {"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* command : {"train", "eval", "bench", "show", "devices"})
    EXPECT_NE(help.out.find(command), std::string::npos) << command;
}

TEST(CommandLine, WhatCannotBePrintedIsNoSuccess) {
  const DataFolder folder;
  for (const std::string command : {"--help", "--version", "train --help", "devices", "devices --json",
                                    "show --workload mlp", "eval --data data"}) {
    for (const std::string to : {">&-", ">/dev/full"}) {
      const Finished result = run_shell(folder, "wholestep " + command + ' ' + to);
      EXPECT_EQ(result.status, 1) << command << to;
      EXPECT_EQ(result.err, "wholestep: error: cannot write to standard output\n") << command << to;
    }
  }
}

TEST(CommandLine, AnErrorIsOneLineOnStandardErrorAndStatus1) {
  const Folder folder;
  const Finished missing = run(folder, {"train", "--data", folder.file("nowhere")});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(missing.err.starts_with("wholestep: error: ")) << missing.err;
  EXPECT_NE(missing.err.find("nowhere"), std::string::npos) << missing.err;
  EXPECT_EQ(missing.out, "");
}

TEST(CommandLine, ANameThatIsNotThereIsAWrongCommandLineAndTheMessageListsThoseThatAre) {
  const Folder folder;
  struct Case {
    std::vector<std::string> words;
    std::vector<std::string> parts;
  };
  for (const Case& wrong : std::vector<Case>{{{"train", "resnet9000", "--data", "d"}, {"resnet9000", "mlp"}},
                                             {{"train", "--data", "d", "--optimizer", "adan"}, {"adan", "adamw"}},
                                             {{"train", "--data", "d", "--device", "gpu"}, {"gpu", "cpu", "reference"}},
                                             {{"train", "--data", "d", "--precision", "f8"}, {"f8", "f32"}},
                                             {{"train", "--data", "d", "--schedule", "cosin"}, {"cosin", "cosine"}},
                                             {{"bench", "everything"}, {"everything", "mlp"}},
                                             {{"bench", "mlp", "surplus"}, {"surplus"}},
                                             {{"show", "--workload", "resnet9000"}, {"resnet9000", "mlp"}}}) {
    const Finished result = run(folder, wrong.words);
    EXPECT_EQ(result.status, 2) << wrong.parts.front();
    for (const std::string& part : wrong.parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(CommandLine, ANumberOutOfRangeIsAWrongCommandLineAndTheMessageIsShort) {
  const Folder folder;
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--seed", "-1"},
                                                        {"--seed", "18446744073709551616"},
                                                        {"--seed", "0x10"},
                                                        {"--lr", "nan"},
                                                        {"--lr", "inf"},
                                                        {"--lr", "-1"},
                                                        {"--lr", "1e400"},
                                                        {"--batch", "1.5"},
                                                        {"--steps", "1e3"},
                                                        {"--threads", "-2"},
                                                        {"--keep", "0"},
                                                        {"--clip-norm", "0"},
                                                        {"--clip-norm", "1e39"},
                                                        {"--ema", "1"},
                                                        {"--patience", "0"}}) {
    const Finished result = run(folder, {"train", "--data", "d", option, value});
    EXPECT_EQ(result.status, 2) << option << ' ' << value;
    EXPECT_NE(result.err.find(option + ": expected a "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("got " + value), std::string::npos) << result.err;
    EXPECT_LT(result.err.size(), 200u) << result.err;
  }
  for (const char* seconds : {"0", "nan", "-1", "3601"})
    EXPECT_EQ(run(folder, {"bench", "mlp", "--seconds", seconds}).status, 2) << seconds;
}

TEST(CommandLine, OptionsThatDoNotGoTogetherAreAWrongCommandLineAndBeginNothing) {
  const DataFolder folder;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& message) {
    const Finished result = run(folder, words);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_TRUE(result.err.starts_with(message)) << result.err;
    EXPECT_EQ(result.out, "");
  };
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--data", folder.data(), "--log", "log"});
    return more;
  };
  refused(train({"--steps", "10", "--schedule", "cosine(warmup=100)"}),
          "--schedule: schedule cosine: expected fewer steps");
  EXPECT_FALSE(std::filesystem::exists(folder.file("log")));
}

TEST(CommandLine, AnEmptyNameIsAWrongCommandLine) {
  const Folder folder;
  for (const char* option : {"--data", "--save", "--save-best", "--log", "--resume", "--config"}) {
    const Finished result = run(folder, {"train", "--data", "d", option, ""});
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_NE(result.err.find(option), std::string::npos) << result.err;
  }
  EXPECT_EQ(run(folder, {"eval", "--data", "d", "--load", ""}).status, 2);
}

TEST(Devices, ListsTheReferenceAndTheCpuAsAvailable) {
  const Folder folder;
  const Finished result = run(folder, {"devices", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  std::vector<std::string> available;
  const json object = json::parse(last_line(result.out));
  for (const json& device : object.at("devices")) {
    if (device.at("available")) available.push_back(device.at("name"));
  }
  EXPECT_NE(std::find(available.begin(), available.end(), "reference"), available.end()) << result.out;
  EXPECT_NE(std::find(available.begin(), available.end(), "cpu"), available.end()) << result.out;
}

TEST(Show, PrintsAWorkloadsStepAsTextThatParsesBack) {
  const Folder folder;
  const Finished result = run(folder, {"show", "--workload", "mlp", "--batch", "8"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Graph graph = Graph::parse(result.out);
  EXPECT_FALSE(graph.updates().empty());
  EXPECT_FALSE(graph.nodes_of("matmul").empty());
}

TEST(Show, PrintsAFileAsItIs) {
  const Folder folder;
  Graph graph("squares");
  const Tensor x = graph.input("x", {4});
  const Tensor p = graph.param("p", {4});
  graph.set_outputs({squared_error(p * p, x)});
  std::ofstream(folder.file("squares.ws")) << graph.to_text();
  const Finished plain = run(folder, {"show", "squares.ws"});
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_TRUE(Graph::parse(plain.out) == graph) << plain.out;
  const Finished with_update = run(folder, {"show", "squares.ws", "--optimizer", "sgd"});
  ASSERT_EQ(with_update.status, 0) << with_update.err;
  EXPECT_EQ(Graph::parse(with_update.out).updates().size(), 1u) << with_update.out;
}

TEST(Show, AWrongPassIsAWrongCommandLineAndTheMessageListsThePasses) {
  const Folder folder;
  const Finished result = run(folder, {"show", "--workload", "mlp", "--after", "magic"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("magic"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("decompose"), std::string::npos) << result.err;
}

TEST(Show, OfAFileThatIsNoGraphNamesTheFileThePlaceAndWhatCame) {
  const Folder folder;
  const auto expect = [&](const std::string& name, const std::string& message) {
    const Finished result = run(folder, {"show", name});
    EXPECT_EQ(result.status, 1) << name;
    EXPECT_EQ(result.err, "wholestep: error: " + message + "\n");
  };
  std::ofstream(folder.file("bad.ws")) << "graph of the wrong kind";
  expect("bad.ws", "bad.ws: line 1, column 7: expected '\"', got 'of'");
  std::ofstream(folder.file("bytes.ws")) << "\n\x8F\x01 graph";
  expect("bytes.ws", "bytes.ws: line 2, column 1: expected 'graph', got byte 0x8f");
  std::ofstream(folder.file("empty.ws")).flush();
  expect("empty.ws", "empty.ws: line 1, column 1: expected 'graph', got the end of the text");
  expect("missing.ws", "cannot open missing.ws: No such file or directory");
  expect(folder.path(), "cannot read " + folder.path().string() + ": Is a directory");
  expect("/dev/zero", "cannot read /dev/zero: not a regular file");
  EXPECT_EQ(run(folder, {"show", "model.onnx"}).status, 1);
}

TEST(Show, OfAStepOfAGraphThatHasNoneSaysWhatIsMissing) {
  const Folder folder;
  const auto expect = [&](const std::string& text, const std::string& message) {
    std::ofstream(folder.file("a.ws")) << text;
    const Finished result = run(folder, {"show", "a.ws", "--optimizer", "adamw"});
    EXPECT_EQ(result.status, 1) << text;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  };
  expect("graph \"g\"\n", "no outputs");
  expect("graph \"g\"\n%0 = input \"x\" : f32[]\noutputs %0\n", "trainable parameters is empty");
}

TEST(CommandLine, OfTheDataSaysWhatIsThereInPlaceOfTheFolder) {
  const Folder folder;
  std::ofstream(folder.file("file")) << "x";
  std::filesystem::create_directory(folder.file("empty"));
  for (const auto& [data, part] : {std::pair("nowhere", "nowhere: no such folder"),
                                   {"file", "it is a file"},
                                   {"empty", "no t10k-images-idx3-ubyte in empty"}}) {
    const Finished result = run(folder, {"eval", "--data", data});
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(CommandLine, AFileAtItsLimitIsAnErrorOfEveryCommand) {
  const Folder folder;
  std::ofstream(folder.file("a.jsonl")) << "{\"event\": \"step\", \"step\": 1, \"loss\": 1}\n";
  const Finished result = run_shell(folder, "ulimit -f 0; exec wholestep plot a.jsonl -o a.svg");
  EXPECT_EQ(result.status, 1) << result.err;
}

TEST(Show, PrintsPlanLoopsAndReport) {
  const DataFolder folder;
  for (const char* what : {"--plan", "--nests", "--explain"}) {
    const Finished result = run(folder, {"show", "--workload", "mlp", "--batch", "8", what});
    EXPECT_EQ(result.status, 0) << what << ": " << result.err;
    EXPECT_NE(result.out.find("matmul"), std::string::npos) << what << ": " << result.out;
  }
}

TEST(Bench, PrintsEveryFieldOfItsContract) {
  const DataFolder folder;
  const Finished result = run(folder, {"bench", "mlp", "--threads", "1", "--seconds", "0.01", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json object = json::parse(last_line(result.out));
  for (const char* field : {"step_us_median", "step_us_min", "compile_ms", "first_step_ms", "state_bytes",
                            "scratch_bytes", "peak_rss_bytes", "gflops", "peak_gflops", "fraction_of_peak",
                            "host_optimizer_step_us", "grads_only_us", "dataset_step_us", "host_batch_step_us"}) {
    ASSERT_TRUE(object.contains(field) && object.at(field).is_number()) << field;
    EXPECT_GT(object.at(field).get<double>(), 0) << field;
  }
  EXPECT_EQ(object.at("workload"), "mlp");
  EXPECT_EQ(object.at("device"), "cpu");
  EXPECT_EQ(object.at("threads"), 1);
  EXPECT_EQ(object.at("precision"), "f32");
  EXPECT_EQ(object.at("optimizer"), "adamw");
  EXPECT_EQ(object.at("params"), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(object.at("steps_per_launch"), 1);
  EXPECT_EQ(object.at("resident"), true);
  EXPECT_EQ(object.at("state_bytes"), 3 * 4 * (784 * 128 + 128 + 128 * 10 + 10)) << "parameters, m and v, nothing else";
  // Forward twice, the gradient of both weights, and the gradient of the hidden layer: the images need none.
  EXPECT_EQ(object.at("flops_per_step"), 2.0 * 64 * (2 * 784 * 128 + 3 * 128 * 10));
}

// One that is made of others, and one whose refreshes need second derivatives.
TEST(Bench, MeasuresOptimizersOfSeveralProgramsOrRules) {
  const DataFolder folder;
  for (const char* optimizer : {"muon", "sophia"}) {
    const Finished result =
        run(folder, {"bench", "mlp", "--optimizer", optimizer, "--threads", "1", "--seconds", "0.01", "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const json object = json::parse(last_line(result.out));
    EXPECT_EQ(object.at("optimizer"), optimizer);
    for (const char* field : {"step_us_median", "host_optimizer_step_us", "grads_only_us"}) {
      EXPECT_GT(object.at(field).get<double>(), 0) << optimizer << " " << field;
    }
  }
}

}  // namespace
}  // namespace wholestep::test
