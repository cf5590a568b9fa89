#include <gtest/gtest.h>

#include <fstream>

#include "process.h"

namespace wholestep::test {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// A log as `train --log` writes it, whose loss falls as 1 / step.
void write_log(const Folder& folder, const std::string& name, int steps) {
  std::filesystem::create_directories(folder.file(name));
  std::ofstream file(folder.file(name) + "/train.jsonl");
  for (int step = 1; step <= steps; ++step) {
    file << R"({"event": "step", "step": )" << step << R"(, "epoch": 1, "loss": )" << 1.0 / step
         << R"(, "lr": 0.001, "us": 40.0})" << '\n';
  }
  file << R"({"event": "epoch", "step": )" << steps
       << R"(, "epoch": 1, "train_loss": 0.5, "test_loss": 0.4, "test_accuracy": 0.75, "step_us_median": 40.0})"
       << '\n';
}

TEST(Plot, DrawsALineForEachLogWithAxesAndALegend) {
  const Folder folder;
  write_log(folder, "a & <b>", 50);
  write_log(folder, "c", 20);
  ASSERT_EQ(run(folder, {"plot", "a & <b>", "c/train.jsonl", "-o", "loss.svg"}).status, 0);
  const std::string svg = read_file(folder.file("loss.svg"));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg.substr(0, 80);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count_of(svg, "<polyline"), 2u);
  EXPECT_TRUE(holds(svg, ">a &amp; &lt;b&gt;</text>"));
  EXPECT_TRUE(holds(svg, ">c/train.jsonl</text>"));
  EXPECT_TRUE(holds(svg, ">training loss</text>"));
  for (const char* tick : {">10</text>", ">50</text>", ">0.2</text>", ">1.0</text>"})
    EXPECT_TRUE(holds(svg, tick)) << tick;
  EXPECT_TRUE(holds(svg, "prefers-color-scheme: dark"));
  EXPECT_FALSE(holds(svg, "href")) << "nothing from elsewhere";
}

TEST(Plot, SmoothsOverTheValuesThatItDrawsFaintly) {
  const Folder folder;
  write_log(folder, "a", 5000);
  ASSERT_EQ(run(folder, {"plot", "a", "-o", "a.svg", "--smooth", "0.9"}).status, 0);
  const std::string svg = read_file(folder.file("a.svg"));
  EXPECT_EQ(count_of(svg, "<polyline"), 2u);
  EXPECT_EQ(count_of(svg, "faint\""), 1u);
  EXPECT_LT(svg.size(), 60000u) << "thinned to what can be seen";
}

TEST(Plot, DrawsEveryQuantityOfTheLog) {
  const DataFolder folder;
  ASSERT_EQ(run(folder, {"train", "--data", folder.data(), "--epochs", "2", "--log", "log"}).status, 0);
  for (const char* what : {"loss", "lr", "us", "train-loss", "test-loss", "test-accuracy"}) {
    ASSERT_EQ(run(folder, {"plot", "log", "-o", "x.svg", "--what", what}).status, 0) << what;
    EXPECT_TRUE(holds(read_file(folder.file("x.svg")), "<polyline")) << what;
  }
}

TEST(Plot, ShowsWhatAResumedRunDidLast) {
  const Folder folder;
  write_log(folder, "a", 10);
  std::ofstream(folder.file("a/train.jsonl"), std::ios::app) << R"({"event": "step", "step": 3, "loss": 1000})" << '\n'
                                                             << R"({"event": "step", "st)";
  ASSERT_EQ(run(folder, {"plot", "a", "-o", "a.svg"}).status, 0) << "the last line is being written";
  const std::string svg = read_file(folder.file("a.svg"));
  EXPECT_TRUE(holds(svg, ">1000</text>"));
  EXPECT_FALSE(holds(svg, ">10</text>")) << "steps after the third are gone";
}

TEST(Plot, PlacesNumbersOfAnySizeInTheFrame) {
  const Folder folder;
  for (const auto& [low, high] : std::vector<std::pair<std::string, std::string>>{
           {"-1e308", "1e308"}, {"-1.7e308", "1.7e308"}, {"1.7e308", "1.7e308"}, {"0", "5e-324"}, {"1e15", "1e15"}}) {
    {
      std::ofstream file(folder.file("a.jsonl"));
      for (int step = 1; step <= 3000; ++step) {
        file << R"({"event": "step", "step": )" << step << R"(, "loss": )" << (step % 7 == 0 ? low : high) << "}\n";
      }
    }
    ASSERT_EQ(run(folder, {"plot", "a.jsonl", "-o", "a.svg", "--smooth", "0.5"}).status, 0);
    const std::string svg = read_file(folder.file("a.svg"));
    EXPECT_FALSE(holds(svg, "nan")) << low;
    EXPECT_FALSE(holds(svg, "inf")) << low;
    for (std::size_t at = svg.find("points=\""); at != std::string::npos; at = svg.find("points=\"", at + 1)) {
      std::istringstream points(svg.substr(at + 8, svg.find('"', at + 8) - at - 8));
      char comma = 0;
      for (double x = 0, y = 0; points >> x >> comma >> y;) {
        ASSERT_TRUE(x >= 74 && x <= 836 && y >= 24 && y <= 424) << low << ": " << x << ' ' << y;
      }
    }
  }
}

TEST(Plot, LeavesOutAStepWithoutALoss) {
  const Folder folder;
  write_log(folder, "a", 10);
  write_log(folder, "b", 9);
  std::ofstream(folder.file("b/train.jsonl"), std::ios::app)
      << R"({"event": "step", "step": 10, "loss": null, "skipped": true})" << '\n';
  ASSERT_EQ(run(folder, {"plot", "a", "-o", "a.svg"}).status, 0);
  ASSERT_EQ(run(folder, {"plot", "b", "-o", "b.svg"}).status, 0);
  EXPECT_TRUE(holds(read_file(folder.file("a.svg")), ">10</text>"));
  EXPECT_FALSE(holds(read_file(folder.file("b.svg")), ">10</text>"));
}

TEST(Plot, DoesNotDrawOverALog) {
  const Folder folder;
  const std::string log = "{\"event\": \"step\", \"step\": 1, \"loss\": 1}\n";
  std::filesystem::create_directory(folder.file("a"));
  std::ofstream(folder.file("a/train.jsonl")) << log;
  const Finished result = run(folder, {"plot", "a", "-o", "./a/train.jsonl"});
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(holds(result.err, "./a/train.jsonl: it is the log to be drawn")) << result.err;
  EXPECT_EQ(read_file(folder.file("a/train.jsonl")), log);
}

TEST(Plot, RefusesALogThatIsNoneAndNamesTheLine) {
  const Folder folder;
  const auto refused = [&](const std::string& text, const std::string& part) {
    std::ofstream(folder.file("bad.jsonl")) << text;
    const Finished result = run(folder, {"plot", "bad.jsonl", "-o", "bad.svg"});
    EXPECT_EQ(result.status, 1) << text;
    EXPECT_TRUE(holds(result.err, "bad.jsonl")) << result.err;
    EXPECT_TRUE(holds(result.err, part)) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder.file("bad.svg")));
  };
  const std::string good = R"({"event": "step", "step": 1, "loss": 1})"
                           "\n";
  refused("", "no \"step\" record");
  refused(good + "loss: 3\n", "line 2");
  refused(good + "[1]\n", "line 2");
  refused(good + R"({"event": "step", "step": 2})"
                 "\n",
          "line 2: no \"loss\"");
  refused(good + R"({"event": "step", "step": 2, "loss": "low"})"
                 "\n",
          "expected a number");
  refused(good + R"({"event": "step", "step": 2, "loss": 1e999})"
                 "\n",
          "line 2");
  EXPECT_EQ(run(folder, {"plot", "missing", "-o", "x.svg"}).status, 1);
  EXPECT_EQ(run(folder, {"plot", "/dev/zero", "-o", "x.svg"}).status, 1) << "which has no end";
  EXPECT_EQ(run(folder, {"plot", "bad.jsonl"}).status, 2) << "-o is required";
  EXPECT_EQ(run(folder, {"plot", "bad.jsonl", "-o", "x.svg", "--smooth", "1"}).status, 2);
  EXPECT_EQ(run(folder, {"plot", "bad.jsonl", "-o", "x.svg", "--what", "colour"}).status, 2);
}

TEST(Plot, ReadsALogThatWentOnAfterAKillInTheMiddleOfALine) {
  const DataFolder folder;
  const std::vector<std::string> train{"train", "--data", folder.data(), "--epochs", "1", "--log", "log"};
  ASSERT_EQ(run(folder, train).status, 0);
  const std::string before = read_file(folder.file("log/train.jsonl"));
  std::ofstream(folder.file("log/train.jsonl"), std::ios::app) << R"({"event": "step", "st)";
  ASSERT_EQ(run(folder, train).status, 0);
  const std::string after = read_file(folder.file("log/train.jsonl"));
  EXPECT_TRUE(after.starts_with(before + R"({"event")")) << after.substr(before.size(), 60);
  EXPECT_EQ(after.find(R"("st{)"), std::string::npos);
  EXPECT_EQ(run(folder, {"plot", "log", "-o", "x.svg"}).status, 0);
}

}  // namespace
}  // namespace wholestep::test
