// Steps that are skipped because a gradient is not finite belong to a run; losses that are not finite otherwise end it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint.h"
#include "process.h"

namespace wholestep::test {
namespace {

using nlohmann::json;

/// Weights that are moved far in f16 overflow for white images, and never for black ones: every second training image
/// is white, no test image is.
class BlackAndWhite : public DataFolder {
 public:
  explicit BlackAndWhite(std::uint32_t training) {
    std::vector<std::uint8_t> images(std::size_t{training} * 784), labels(training);
    for (std::uint32_t i = 1; i < training; i += 2) {
      std::fill_n(images.begin() + std::size_t{i} * 784, 784, std::uint8_t{255});
      labels[i] = static_cast<std::uint8_t>(1 + i % 9);
    }
    write_idx(data() + "/train-images-idx3-ubyte", {training, 28, 28}, images);
    write_idx(data() + "/train-labels-idx1-ubyte", {training}, labels);
    write_idx(data() + "/t10k-images-idx3-ubyte", {8, 28, 28}, std::vector<std::uint8_t>(8 * 784));
    write_idx(data() + "/t10k-labels-idx1-ubyte", {8}, std::vector<std::uint8_t>(8));
  }
  Finished train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "--data", data(), "--batch", "1", "--optimizer", "sgd", "--json"});
    return run(*this, more);
  }
};

void expect_skips_in_log(const std::vector<std::string>& options) {
  const BlackAndWhite folder(40);
  std::vector<std::string> words{"--precision", "mixed_f16", "--lr", "100", "--epochs", "2", "--log", "log"};
  words.insert(words.end(), options.begin(), options.end());
  const json result = result_of(folder.train(words));
  std::istringstream lines(read_file(folder.file("log/train.jsonl")));
  std::int64_t steps = 0, skipped = 0, without_loss = 0;
  for (std::string line; std::getline(lines, line);) {
    const json record = json::parse(line);
    if (record.at("event") == "epoch") {
      EXPECT_TRUE(record.at("train_loss").is_number()) << "of the steps that have a loss";
      continue;
    }
    EXPECT_EQ(record.at("step"), ++steps);
    skipped += record.value("skipped", false);
    if (!record.at("loss").is_null()) continue;
    ++without_loss;
    EXPECT_TRUE(record.contains("skipped")) << line;
  }
  EXPECT_EQ(result.at("steps"), steps);
  EXPECT_EQ(result.at("skipped_steps"), skipped);
  EXPECT_GT(without_loss, 0);
  EXPECT_LT(skipped, steps);
  EXPECT_EQ(run(folder, {"plot", "log", "-o", "loss.svg"}).status, 0);
}

TEST(Train, LogsStepsThatWereSkippedAndGoesOn) { expect_skips_in_log({}); }
TEST(Train, LogsAccumulatedStepsThatWereSkippedAndGoesOn) { expect_skips_in_log({"--accumulate", "2"}); }

TEST(Train, SaysHowManyStepsWereSkipped) {
  const BlackAndWhite folder(40);
  const std::vector<std::string> words{"train", "--data", folder.data(), "--batch", "1", "--optimizer",
                                       "sgd",   "--lr",   "100",         "--steps", "30"};
  std::vector<std::string> in_f16 = words;
  in_f16.insert(in_f16.end(), {"--precision", "mixed_f16"});
  const Finished result = run(folder, in_f16);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("skipped: "), std::string::npos) << result.out;
  EXPECT_EQ(run(folder, words).out.find("skipped: "), std::string::npos);
}

TEST(Train, EndsWhereEveryStepIsSkippedAndNamesTheLastGoodCheckpoint) {
  const BlackAndWhite folder(1100);
  const Finished result = folder.train(
      {"--precision", "mixed_f16", "--lr", "1e4", "--epochs", "1", "--save", "a.safetensors", "--save-every", "500"});
  EXPECT_EQ(result.status, 1);
  for (const char* part : {"training stopped at step ", "1000 steps in a row", "a.safetensors (step 1000)"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

}  // namespace
}  // namespace wholestep::test
