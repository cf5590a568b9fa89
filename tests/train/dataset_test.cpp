#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "models.h"
#include "support/devices.h"
#include "support/folder.h"
#include "train/dataset_programs.h"
#include "wholestep/data.h"

namespace wholestep {
namespace {

using testing::expect_error;
using testing::kClasses;
using testing::kIn;
using testing::same_bits;

constexpr int kExamples = 50, kBatch = 16;
constexpr std::int64_t kPerEpoch = 4;  // three batches of 16, one of 2
constexpr std::uint64_t kShuffle = 5;

/// Inputs "x" u8 [batch, 6] and "y" i32 [batch], with dropout.
Graph classifier(std::int64_t batch) {
  Graph graph("images");
  const Tensor x = graph.input("x", {batch, kIn}, u8), y = graph.input("y", {batch}, i32);
  const Tensor h = relu(nn::linear(graph, "fc1", div(cast(x, f32), 255.0), testing::kHidden));
  const Tensor logits = nn::linear(graph, "fc2", nn::dropout(graph, h, 0.25), kClasses);
  graph.set_outputs({cross_entropy(logits, y), count_correct(logits, y), logits, reduce_mean(logits)});
  return graph;
}

Array images() {
  Array all(u8, {kExamples, 2, 3});
  for (std::size_t i = 0; i < all.bytes(); ++i) all.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7919 % 251);
  return all;
}

Array labels() {
  Array all(i32, {kExamples});
  for (std::size_t i = 0; i < kExamples; ++i) all.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % kClasses);
  return all;
}

/// What a trainer is given besides data.
ResidentTrainer make_trainer(const Device& device, std::int64_t batch = kBatch, bool with_builder = true) {
  const Graph graph = classifier(batch);
  ResidentTrainer trainer(graph, trainable(graph), testing::small_values(), AdamW{.lr = 0.02}, device);
  trainer.set_seed(9);
  if (with_builder) trainer.set_graph_builder(classifier);
  return trainer;
}

double rate(std::int64_t step) { return 0.01 / (1 + static_cast<double>(step)); }

/// The same steps on batches made on the host.
std::vector<float> host_steps(ResidentTrainer& trainer, std::int64_t n, bool scheduled = false) {
  const data::ImageSet set(images(), labels());
  std::vector<float> losses;
  while (std::ssize(losses) < n) {
    const auto epoch = static_cast<std::uint64_t>(trainer.steps() / kPerEpoch);
    const data::ImageSet order = set.shuffled(kShuffle, epoch);
    for (const data::Batch& batch : order.batches(kBatch, trainer.steps() % kPerEpoch)) {
      if (std::ssize(losses) == n) break;
      if (scheduled) trainer.set_lr(rate(trainer.steps()));
      losses.push_back(trainer.step({{"x", batch.images}, {"y", batch.labels}}).loss());
    }
  }
  return losses;
}

class Dataset : public testing::OnEachDevice {
 protected:
  DeviceDataset dataset() const { return DeviceDataset({{"x", images()}, {"y", labels()}}, GetParam()); }
};

TEST_P(Dataset, GivesTheLossesOfStepsOnHostBatchesBitForBitOverEpochsWithPartialBatches) {
  ResidentTrainer on_device = make_trainer(GetParam()), on_host = make_trainer(GetParam());
  EXPECT_EQ(on_device.run(dataset(), 11, {.shuffle_seed = kShuffle}), host_steps(on_host, 11));
  EXPECT_TRUE(same_bits(on_device, on_host));
}

TEST_P(Dataset, FollowsAScheduleAndFrozenParametersAsStepsDo) {
  ResidentTrainer on_device = make_trainer(GetParam()), on_host = make_trainer(GetParam());
  for (ResidentTrainer* trainer : {&on_device, &on_host}) trainer->set_frozen("fc1.weight", true);
  EXPECT_EQ(on_device.run(dataset(), 5, {.shuffle_seed = kShuffle, .lr = rate}), host_steps(on_host, 5, true));
  EXPECT_EQ(on_device.lr(), rate(4));
  EXPECT_TRUE(same_bits(on_device, on_host));
}

TEST_P(Dataset, TakesManyStepsInOneCallAsInMany) {
  ResidentTrainer at_once = make_trainer(GetParam()), one_by_one = make_trainer(GetParam());
  const DeviceDataset data = dataset();
  const std::vector<float> expected = at_once.run(data, 9, {.shuffle_seed = kShuffle});
  std::vector<float> losses;
  for (int i = 0; i < 9; ++i) losses.push_back(one_by_one.run(data, 1, {.shuffle_seed = kShuffle})[0]);
  EXPECT_EQ(losses, expected);
  EXPECT_TRUE(same_bits(at_once, one_by_one));
  EXPECT_TRUE(at_once.run(data, 0).empty());
}

TEST_P(Dataset, ResumesAtAnyStepBitForBit) {
  const std::string path = ::testing::TempDir() + "dataset_" + GetParam().name + ".safetensors";
  const DeviceDataset data = dataset();
  ResidentTrainer whole = make_trainer(GetParam());
  std::vector<float> expected = whole.run(data, 3, {.shuffle_seed = kShuffle});
  whole.save(path);
  expected = whole.run(data, 6, {.shuffle_seed = kShuffle});
  ResidentTrainer resumed = make_trainer(GetParam());
  resumed.load(path);
  EXPECT_EQ(resumed.run(data, 6, {.shuffle_seed = kShuffle}), expected);
  EXPECT_TRUE(same_bits(resumed, whole));
  std::filesystem::remove(path);
}

TEST_P(Dataset, KeepsItsOwnOrderWhereNotShuffled) {
  ResidentTrainer on_device = make_trainer(GetParam()), on_host = make_trainer(GetParam());
  const std::vector<float> losses = on_device.run(dataset(), kPerEpoch, {.shuffle = false});
  std::vector<float> expected;
  for (const data::Batch& batch : data::ImageSet(images(), labels()).batches(kBatch)) {
    expected.push_back(on_host.step({{"x", batch.images}, {"y", batch.labels}}).loss());
  }
  EXPECT_EQ(losses, expected);
}

TEST_P(Dataset, SmallerThanABatchIsOnePartialBatch) {
  ResidentTrainer small = make_trainer(GetParam(), 64), fitting = make_trainer(GetParam(), kExamples);
  EXPECT_EQ(small.run(dataset(), 3), fitting.run(dataset(), 3));
}

TEST_P(Dataset, IsTakenInBatchesOfAnotherSizeWhereTheBuilderKnowsIt) {
  ResidentTrainer trainer = make_trainer(GetParam()), fitting = make_trainer(GetParam(), 10);
  EXPECT_EQ(trainer.run(dataset(), 5, {.batch = 10}), fitting.run(dataset(), 5));
}

TEST_P(Dataset, OfAnotherSizeOrContentIsTakenByTheSameTrainer) {
  ResidentTrainer trainer = make_trainer(GetParam()), other = make_trainer(GetParam());
  Array fewer_images(u8, {20, kIn}), fewer_labels(i32, {20});
  const DeviceDataset first = dataset(), fewer({{"x", fewer_images}, {"y", fewer_labels}}, GetParam());
  const std::vector<float> before = trainer.run(first, 2), between = trainer.run(fewer, 2),
                           after = trainer.run(first, 2);
  EXPECT_EQ(other.run(dataset(), 2), before);
  EXPECT_EQ(other.run(fewer, 2), between);
  EXPECT_EQ(other.run(dataset(), 2), after) << "a copy with the same content";
}

TEST_P(Dataset, UploadsNothingPerStepButTheStepBlock) {
  ResidentTrainer trainer = make_trainer(GetParam());
  trainer.run(dataset(), kPerEpoch);
  const std::string report = trainer.explain();
  const std::string bound = std::to_string(kExamples * kIn + kExamples * 4) + " bytes of inputs stay on the device";
  const auto at = report.find("on datasets, 16 rows a step");
  ASSERT_NE(at, std::string::npos) << report;
  EXPECT_NE(report.find("uploaded per run: 0 bytes of inputs", at), std::string::npos) << report;
  EXPECT_NE(report.find(bound, at), std::string::npos) << report;
  EXPECT_NE(report.find("on datasets, 2 rows a step"), std::string::npos);
}

TEST_P(Dataset, ThatDoesNotFitTheGraphIsRefusedAtUploadAndBeforeAnyStep) {
  ResidentTrainer trainer = make_trainer(GetParam());
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, const Inputs& arrays) {
    expect_error(code, parts, [&] { trainer.upload(arrays); });
    expect_error(code, parts, [&] { trainer.run(DeviceDataset(arrays, GetParam()), 1); });
    expect_error(code, parts, [&] { trainer.evaluate(DeviceDataset(arrays, GetParam())); });
  };
  const Array x = images(), y = labels(), wide(u8, {kExamples, 7}), real(f32, {kExamples, kIn});
  Array high = labels(), low = labels();
  high.as<std::int32_t>()[7] = kClasses;
  low.as<std::int32_t>()[9] = -1;
  refused(ErrorCode::missing_input, {"\"y\""}, {{"x", x}});
  refused(ErrorCode::unknown_name, {"\"z\"", "\"x\", \"y\""}, {{"x", x}, {"y", y}, {"z", y}});
  refused(ErrorCode::unknown_name, {"fc1.bias"}, {{"x", x}, {"y", y}, {"fc1.bias", y}});
  refused(ErrorCode::dtype_mismatch, {"\"x\"", "f32[50, 6]", "u8[16, 6]"}, {{"x", real}, {"y", y}});
  refused(ErrorCode::shape_mismatch, {"\"x\"", "u8[50, 7]", "[n, 6]", "u8[16, 6]"}, {{"x", wide}, {"y", y}});
  refused(ErrorCode::index_out_of_range, {"element 7", "\"y\"", "is 3"}, {{"x", x}, {"y", high}});
  refused(ErrorCode::index_out_of_range, {"element 9", "\"y\"", "is -1"}, {{"x", x}, {"y", low}});
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_EQ(trainer.upload({{"x", x}, {"y", y}}).size(), kExamples);
}

TEST_P(Dataset, WithAnArrayThatLacksItsRowsIsRefusedByThatArraysName) {
  const ResidentTrainer trainer = make_trainer(GetParam());
  const Array x = images(), y = labels(), scalar = Array::scalar(1);
  const std::vector<std::uint8_t> flat(kExamples * kIn);
  for (const Inputs& arrays : {Inputs{{"x", flat}, {"y", y}}, Inputs{{"y", y}, {"x", flat}}}) {
    expect_error(ErrorCode::shape_mismatch, {"array \"x\"", "u8[300]", "[n, 6]", "u8[16, 6]"},
                 [&] { trainer.upload(arrays); });
  }
  expect_error(ErrorCode::shape_mismatch, {"array \"y\"", "i32[]", "[n]", "i32[16]"},
               [&] { trainer.upload({{"x", x}, {"y", scalar}}); });
}

TEST_P(Dataset, WithoutExamplesArraysOrACommonExtentIsRefused) {
  const Device device = GetParam();
  const Array x = images(), y = labels(), fewer(i32, {49}), none(u8, {0, 6}), scalar = Array::scalar(1.0f);
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& parts, const Inputs& arrays) {
    expect_error(code, parts, [&] { DeviceDataset(arrays, device); });
  };
  refused(ErrorCode::invalid_argument, {"no arrays"}, {});
  refused(ErrorCode::invalid_argument, {"\"x\"", "no examples"}, {{"x", none}});
  refused(ErrorCode::shape_mismatch, {"\"y\"", "49", "\"x\"", "50"}, {{"x", x}, {"y", fewer}});
  refused(ErrorCode::shape_mismatch, {"\"s\"", "[n, ...]"}, {{"s", scalar}});
  refused(ErrorCode::duplicate_name, {"\"x\""}, {{"x", x}, {"x", x}});
  refused(ErrorCode::invalid_argument, {"null"}, {{"x", ArrayView({u8, {4}}, nullptr, 4)}});
}

TEST_P(Dataset, RunsThatCannotBeAreRefusedBeforeTheFirstStep) {
  ResidentTrainer trainer = make_trainer(GetParam(), kBatch, false);
  const DeviceDataset data = dataset();
  expect_error(ErrorCode::invalid_argument, {"-1 steps"}, [&] { trainer.run(data, -1); });
  expect_error(ErrorCode::invalid_argument, {"-2"}, [&] { trainer.run(data, 1, {.batch = -2}); });
  expect_error(ErrorCode::shape_mismatch, {"batches of 2 examples", "set_graph_builder"},
               [&] { trainer.run(data, kPerEpoch); });
  expect_error(ErrorCode::shape_mismatch, {"batches of 2 examples"}, [&] { trainer.evaluate(data); });
  EXPECT_EQ(trainer.steps(), 0);
  EXPECT_EQ(trainer.run(data, kPerEpoch - 1).size(), 3U) << "whole batches alone need no other program";
  expect_error(ErrorCode::shape_mismatch, {"batches of 2 examples"}, [&] { trainer.run(data, 1); });
  trainer.set_graph_builder(classifier);
  expect_error(ErrorCode::invalid_argument, {"learning rate", "-1"},
               [&] { trainer.run(data, 1, {.lr = [](std::int64_t) { return -1.0; }}); });
  const double lr = trainer.lr();
  const auto fails_at_5 = [](std::int64_t step) { return step == 5 ? NAN : 0.1; };
  expect_error(ErrorCode::invalid_argument, {"learning rate", "nan"},
               [&] { trainer.run(data, 4, {.lr = fails_at_5}); });
  EXPECT_EQ(trainer.steps(), 3) << "no step was taken whose loss is lost";
  EXPECT_EQ(trainer.lr(), lr);
  trainer.accumulate({{"x", std::vector<std::uint8_t>(kBatch * kIn)}, {"y", std::vector<std::int32_t>(kBatch)}});
  expect_error(ErrorCode::invalid_argument, {"1 micro-batches are pending"}, [&] { trainer.run(data, 1); });
  trainer.drop_accumulation();
}

TEST_P(Dataset, IsEvaluatedAsItsBatchesOneByOneAre) {
  ResidentTrainer trainer = make_trainer(GetParam()), undisturbed = make_trainer(GetParam());
  trainer.run(dataset(), 2);
  undisturbed.run(dataset(), 2);
  const Evaluation found = trainer.evaluate(dataset());
  double loss = 0, mean = 0;
  std::int64_t correct = 0;
  std::vector<data::Batch> batches;
  for (const data::Batch& batch : data::ImageSet(images(), labels()).batches(kBatch)) {
    const StepResult result = trainer.forward_only({{"x", batch.images}, {"y", batch.labels}});
    loss += static_cast<double>(result.loss()) * static_cast<double>(batch.count);
    correct += result.values[1].as<std::int32_t>()[0];
    mean += result.values[3].item() * static_cast<double>(batch.count);
    batches.push_back(batch);
  }
  EXPECT_EQ(found.examples, kExamples);
  EXPECT_DOUBLE_EQ(found.loss, loss / kExamples);
  ASSERT_EQ(found.values.size(), 4U);
  EXPECT_EQ(found.values[0].item(), found.loss);
  EXPECT_TRUE(found.values[1].same_bits(Array::scalar(correct)));
  EXPECT_EQ(found.values[2].bytes(), 0U) << "logits are of no use as a sum";
  EXPECT_DOUBLE_EQ(found.values[3].item(), mean / kExamples);

  std::vector<Inputs> inputs;
  for (const data::Batch& batch : batches) inputs.push_back({{"x", batch.images}, {"y", batch.labels}});
  const Evaluation from_host = trainer.evaluate(inputs);
  EXPECT_EQ(from_host.loss, found.loss);
  EXPECT_EQ(from_host.examples, kExamples);
  EXPECT_TRUE(from_host.values[1].same_bits(found.values[1]));
  EXPECT_EQ(trainer.evaluate(dataset()).loss, found.loss) << "sums begin anew";

  EXPECT_EQ(trainer.steps(), 2);
  EXPECT_EQ(trainer.run(dataset(), 3), undisturbed.run(dataset(), 3));
  expect_error(ErrorCode::invalid_argument, {"no batches"}, [&] { trainer.evaluate(std::vector<Inputs>{}); });
}

TEST_P(Dataset, IsEvaluatedWithAveragesOfTheWeightsWhereAsked) {
  const Graph graph = classifier(kExamples);
  ResidentTrainer trainer(graph, trainable(graph), testing::small_values(), AdamW{.lr = 0.02}, GetParam(), {},
                          {.ema_decay = 0.5});
  const DeviceDataset data = dataset();
  trainer.run(data, 3);
  const Array x = images(), y = labels();
  const Inputs all{{"x", ArrayView({u8, {kExamples, kIn}}, x.data(), x.bytes())}, {"y", y}};
  for (const Weights weights : {Weights::trained, Weights::average}) {
    EXPECT_EQ(trainer.evaluate(data, weights).loss, trainer.forward_only(all, weights).loss());
  }
  EXPECT_NE(trainer.evaluate(data).loss, trainer.evaluate(data, Weights::average).loss);
}

TEST_P(Dataset, GoesOnToTheNextBatchAfterAStepThatWasSkippedAndTellsWhichItWas) {
  Graph graph("fit");
  const Tensor x = graph.input("x", {2}), w = graph.param("w", {}, f32, Init::ones());
  graph.set_outputs({reduce_mean(x * w)});
  const UpdateOptions skipping{.skip_non_finite = true, .most_skips = 3};
  ResidentTrainer trainer(graph, {"w"}, initial_values(graph, 0), SGD{.lr = 1}, GetParam(), {}, skipping);
  const std::vector<float> values{1, 3, INFINITY, 5};
  std::vector<std::int64_t> skipped;
  const auto note = [&](std::int64_t step) { skipped.push_back(step); };
  const DeviceDataset data = trainer.upload({{"x", values}});
  const std::vector<float> losses = trainer.run(data, 3, {.shuffle = false, .on_skip = note});
  EXPECT_EQ(skipped, std::vector<std::int64_t>{1});
  EXPECT_EQ(losses[0], 2);
  EXPECT_TRUE(std::isinf(losses[1]));
  EXPECT_EQ(losses[2], -2);
  EXPECT_EQ(trainer.steps(), 3);
  EXPECT_EQ(trainer.skipped_steps(), 1);
  EXPECT_EQ(trainer.param("w").item(), -3);
}

TEST_P(Dataset, OfAGraphWithoutACommonNumberOfExamplesIsRefused) {
  const auto refused = [&](const std::vector<std::string>& parts, const Shape& shape) {
    Graph graph("odd");
    const Tensor x = graph.input("x", {2}), s = graph.input("s", shape), w = graph.param("w", {});
    graph.set_outputs({sum(x) * sum(s) * w});
    ResidentTrainer trainer(graph, {"w"}, initial_values(graph, 0), SGD{}, GetParam());
    const Array four(f32, {4});
    expect_error(ErrorCode::shape_mismatch, parts, [&] { trainer.upload({{"x", four}, {"s", four}}); });
  };
  refused({"\"s\"", "f32[]", "no rows"}, {});
  refused({"\"x\", f32[2]", "\"s\", f32[3]"}, {3});
}

TEST_P(Dataset, TrainsInMixedPrecisionAsStepsDo) {
  const Graph graph = classifier(kExamples);
  const auto make = [&] {
    return ResidentTrainer(graph, trainable(graph), testing::small_values(), AdamW{.lr = 0.02}, GetParam(),
                           {.precision = Precision::mixed_bf16});
  };
  ResidentTrainer on_device = make(), on_host = make();
  const Array x = images(), y = labels();
  const Inputs all{{"x", ArrayView({u8, {kExamples, kIn}}, x.data(), x.bytes())}, {"y", y}};
  const std::vector<float> losses = on_device.run(dataset(), 2, {.shuffle = false});
  for (const float loss : losses) EXPECT_EQ(loss, on_host.step(all).loss());
  EXPECT_TRUE(same_bits(on_device, on_host));
}

INSTANTIATE_TEST_SUITE_P(Train, Dataset, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST(DatasetOnTheCpu, IsOfUseToTrainersWithOtherNumbersOfThreads) {
  ResidentTrainer trainer = make_trainer(Device::cpu(2)), other = make_trainer(Device::cpu(2));
  const Array x = images(), y = labels();
  const DeviceDataset with_one_thread({{"x", x}, {"y", y}}, Device::cpu(1));
  EXPECT_EQ(trainer.run(with_one_thread, 5), other.run(other.upload({{"x", x}, {"y", y}}), 5));
  EXPECT_EQ(trainer.evaluate(with_one_thread).loss, other.evaluate(with_one_thread).loss);
}

TEST(DatasetOnTheCpu, IsOfNoUseToATrainerOnAnotherDevice) {
  const Array x = images(), y = labels();
  const DeviceDataset data({{"x", x}, {"y", y}}, Device::cpu());
  ResidentTrainer trainer = make_trainer(Device::reference());
  expect_error(ErrorCode::device_unavailable, {"\"cpu\"", "\"reference\""}, [&] { trainer.run(data, 1); });
}

/// The file that holds the code of a program is there as soon as it is compiled.
std::ptrdiff_t programs_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(TrainerOnTheCpu, CompilesTheProgramsThatItNeedsAlone) {
  const testing::Folder folder;
  const Graph graph = classifier(5);  // that no other test compiles
  const auto make = [&] {
    return ResidentTrainer(graph, trainable(graph), testing::small_values(), AdamW{}, Device::cpu(2),
                           {.cache_dir = folder.file("")});
  };
  ResidentTrainer on_device = make(), on_host = make();
  EXPECT_EQ(programs_in(folder.file("")), 0);
  EXPECT_TRUE(on_device.is_resident());
  on_device.run(on_device.upload({{"x", images()}, {"y", labels()}}), 2);
  EXPECT_EQ(programs_in(folder.file("")), 1);
  on_host.evaluate(on_host.upload({{"x", images()}, {"y", labels()}}), Weights::trained, 5);
  EXPECT_EQ(programs_in(folder.file("")), 2);
  EXPECT_NE(on_host.explain().find("fc1.weight/m"), std::string::npos);
  EXPECT_EQ(programs_in(folder.file("")), 3);
}

TEST(DatasetOnTheCpu, GivesTheSameBitsWithAnyThreads) {
  std::vector<std::vector<float>> losses;
  std::vector<double> evaluations;
  for (const int threads : {1, 2, 4}) {
    ResidentTrainer trainer = make_trainer(Device::cpu(threads));
    const DeviceDataset data = trainer.upload({{"x", images()}, {"y", labels()}});
    losses.push_back(trainer.run(data, 3));
    evaluations.push_back(trainer.evaluate(data, Weights::trained, 25).loss);
  }
  for (std::size_t i = 1; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i], losses[0]);
    EXPECT_EQ(evaluations[i], evaluations[0]);
  }
}

}  // namespace
}  // namespace wholestep
