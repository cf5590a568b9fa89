#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/devices.h"
#include "support/folder.h"
#include "train/models.h"
#include "wholestep/io.h"

namespace wholestep {
namespace {

using namespace testing;

class Checkpoint : public OnEachDevice {
 protected:
  ResidentTrainer trainer(const Optimizer& optimizer = AdamW{.lr = 0.05}) const {
    return small_trainer(optimizer, GetParam());
  }
  const Folder folder_;
};
INSTANTIATE_TEST_SUITE_P(On, Checkpoint, ::testing::ValuesIn(built_devices()), device_name);

TEST_P(Checkpoint, ResumesBitIdenticallyInANewTrainer) {
  const std::string path = folder_.file("a.safetensors");
  for (const Optimizer& optimizer : std::vector<Optimizer>{SGD{.lr = 0.05, .momentum = 0.9, .dampening = 0.1},
                                                           Adam{.lr = 0.05}, AdamW{.lr = 0.05}}) {
    ResidentTrainer whole = trainer(optimizer), first = trainer(optimizer);
    for (int i = 0; i < 4; ++i) {
      for (ResidentTrainer* each : {&whole, &first}) {
        each->set_frozen("fc2.bias", i == 1);
        each->step(random_batch(16, i).inputs());
      }
    }
    first.save(path);
    ResidentTrainer second(small_classifier(16), trainable(small_classifier(16)), small_values(77), optimizer,
                           GetParam());
    second.load(path);
    EXPECT_TRUE(same_bits(second, whole)) << optimizer->name();
    for (int i = 4; i < 8; ++i) {
      const Batch batch = random_batch(16, i);
      EXPECT_TRUE(same_bits(whole.step(batch.inputs()), second.step(batch.inputs()))) << optimizer->name() << i;
    }
    EXPECT_TRUE(same_bits(second, whole)) << optimizer->name();
  }
}

TEST_P(Checkpoint, ResumesBitIdenticallyInANewProcessForEveryOptimizer) {
  // In this style, what is expected to exit is done by a process of its own, which starts anew and runs this test.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr int kSaved = 4, kSteps = 12;  // refreshes of soap and sophia are due before and after
  const auto train = [](ResidentTrainer& trainer, int first, int last) {
    for (int i = first; i < last; ++i) trainer.step(random_batch(16, i).inputs());
  };
  const auto save_each = [&] {
    for (const std::string& name : optimizer_names()) {
      ResidentTrainer first = trainer(optimizer_by_name(name));
      train(first, 0, kSaved);
      first.save(folder_.file(name));
    }
    std::exit(0);
  };
  EXPECT_EXIT(save_each(), ::testing::ExitedWithCode(0), "");
  for (const std::string& name : optimizer_names()) {
    ResidentTrainer whole = trainer(optimizer_by_name(name)), resumed = trainer(optimizer_by_name(name));
    train(whole, 0, kSteps);
    resumed.load(folder_.file(name));
    EXPECT_EQ(resumed.steps(), kSaved) << name;
    train(resumed, kSaved, kSteps);
    EXPECT_TRUE(same_bits(whole, resumed)) << name;
  }
}

TEST_P(Checkpoint, KeepsLearningRateFrozenNamesCountersAndExtra) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer saved = trainer();
  saved.set_lr(0.1 / 3);
  saved.set_frozen("fc1.bias", true);
  for (int i = 0; i < 3; ++i) saved.step(random_batch(16, i).inputs());
  const std::vector<std::pair<std::string, std::string>> extra{{"epoch", "7"},
                                                               {"note", "a \"quoted\" line\nand another"}};
  saved.save(path, extra);

  ResidentTrainer loaded = trainer();
  loaded.set_frozen("fc2.bias", true);
  EXPECT_EQ(loaded.load(path), extra);
  EXPECT_EQ(loaded.lr(), 0.1 / 3);
  EXPECT_EQ(loaded.steps(), 3);
  EXPECT_TRUE(loaded.is_frozen("fc1.bias"));
  EXPECT_FALSE(loaded.is_frozen("fc2.bias"));
  EXPECT_EQ(loaded.optimizer_state().param_steps, (std::vector<std::int64_t>{3, 0, 3, 3}));
}

TEST_P(Checkpoint, HoldsFixedParametersAndTheStatesOfTheGraph) {
  const std::string path = folder_.file("a.safetensors");
  Graph graph = small_classifier(2);
  Tensor seen = graph.state("seen", {}, DType::i64);
  graph.set_update(seen, add(seen, 1.0));
  const auto make = [&](std::uint64_t seed) {
    return ResidentTrainer(graph, {"fc2.bias"}, small_values(seed), SGD{}, GetParam());
  };
  ResidentTrainer saved = make(1), loaded = make(2);
  for (int i = 0; i < 3; ++i) saved.step(random_batch(2, i).inputs());
  saved.save(path);
  loaded.load(path);
  for (const auto& [name, value] : small_values()) EXPECT_TRUE(loaded.param(name).same_bits(saved.param(name))) << name;
  const io::SafeTensors file = io::read_safetensors(path);
  ASSERT_NE(find(file.tensors, "state/seen"), nullptr);
  EXPECT_EQ(find(file.tensors, "state/seen")->item(), 3);
}

TEST_P(Checkpoint, NamesItsTensorsByParameterAndSlot) {
  const std::string path = folder_.file("a.safetensors");
  trainer().save(path);
  const io::SafeTensors file = io::read_safetensors(path);
  EXPECT_EQ(file.tensors.size(), 12u);
  for (const char* name : {"fc1.weight", "optimizer/fc1.weight/m", "optimizer/fc2.bias/v"}) {
    EXPECT_NE(find(file.tensors, name), nullptr) << name;
  }
}

TEST_P(Checkpoint, OfAnotherModelIsRefusedAndChangesNothing) {
  const std::string path = folder_.file("a.safetensors");
  Graph other("other");
  Tensor x = other.input("x", {2, kIn}), y = other.input("y", {2}, DType::i32);
  Tensor hidden = relu(nn::linear(other, "fc1", x, 4));
  other.set_outputs({cross_entropy(nn::linear(other, "fc9", hidden, kClasses), y)});
  ResidentTrainer(other, {"fc1.weight", "fc1.bias"}, initial_values(other, 0), AdamW{}, GetParam()).save(path);

  ResidentTrainer mine = small_trainer(AdamW{}, GetParam(), 16, {"fc1.weight", "fc1.bias"});
  mine.step(random_batch(16, 1).inputs());
  const NamedArrays params = mine.params();
  const OptimizerState state = mine.optimizer_state();
  expect_error(ErrorCode::checkpoint_mismatch,
               {path, "\"fc1.weight\" is f32[6, 4], expected f32[6, 5]", "\"fc2.weight\" (f32[5, 3]) is missing",
                "\"fc9.weight\" (f32[4, 3]) is not in the model"},
               [&] { mine.load(path); });
  EXPECT_TRUE(same_bits(mine.params(), params));
  EXPECT_TRUE(same_bits(mine.optimizer_state(), state));
}

TEST_P(Checkpoint, OfAnotherOptimizerIsRefused) {
  const std::string path = folder_.file("a.safetensors");
  trainer(Adam{}).save(path);
  ResidentTrainer mine = trainer(AdamW{});
  expect_error(ErrorCode::checkpoint_mismatch, {path, "optimizer", "\"adam\"", "\"adamw\""}, [&] { mine.load(path); });
  trainer(SGD{}).save(path);
  ResidentTrainer momentum = trainer(SGD{.momentum = 0.9});
  expect_error(ErrorCode::checkpoint_mismatch, {"optimizer/fc1.weight/momentum"}, [&] { momentum.load(path); });
}

TEST_P(Checkpoint, OfAnotherListOfTrainableParametersIsRefused) {
  const std::string path = folder_.file("a.safetensors");
  trainer(SGD{}).save(path);
  ResidentTrainer fewer = small_trainer(SGD{}, GetParam(), 16, {"fc1.weight"});
  expect_error(ErrorCode::checkpoint_mismatch, {path, "\"fc1.bias\" is not trained here, and was"},
               [&] { fewer.load(path); });
  fewer.save(path);
  ResidentTrainer more = trainer(SGD{});
  expect_error(ErrorCode::checkpoint_mismatch, {path, "\"fc1.bias\" is trained here, and was not"},
               [&] { more.load(path); });
}

TEST_P(Checkpoint, WithAveragesOrALossScaleInOneOfTheTwoAloneIsRefused) {
  const std::string path = folder_.file("a.safetensors");
  const UpdateOptions averages{.ema_decay = 0.9}, scaling{.loss_scaling = LossScaling{}};
  const auto with = [&](const UpdateOptions& update) { return small_trainer(AdamW{}, GetParam(), 16, {}, update); };
  const auto refuse = [&](const UpdateOptions& saved, const UpdateOptions& loaded, std::vector<std::string> parts) {
    with(saved).save(path);
    ResidentTrainer mine = with(loaded);
    parts.push_back(path);
    expect_error(ErrorCode::checkpoint_mismatch, parts, [&] { mine.load(path); });
    OptimizerState state = with(saved).optimizer_state();
    expect_error(ErrorCode::checkpoint_mismatch, {}, [&] { mine.restore_optimizer_state(state); });
  };
  refuse({}, averages, {"holds no averages", "trainer keeps them", "ema_decay is set"});
  refuse(averages, {}, {"holds averages", "trainer keeps none", "ema_decay is not set"});
  refuse({}, scaling, {"holds no numbers of loss scaling", "trainer keeps them"});
  refuse(scaling, {}, {"holds numbers of loss scaling", "trainer keeps none"});
}

TEST_P(Checkpoint, FitsATrainerWithOtherOptionsWhoseStateIsTheSame) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer saved = small_trainer(AdamW{}, GetParam(), 16, {}, {.ema_decay = 0.9});
  saved.step(random_batch(16, 0).inputs());
  saved.save(path);
  ResidentTrainer loaded = small_trainer(AdamW{.beta1 = 0.8}, GetParam(), 16, {}, {.clip_norm = 1, .ema_decay = 0.99},
                                         Precision::mixed_bf16);
  loaded.load(path);
  EXPECT_TRUE(same_bits(loaded, saved));
  EXPECT_TRUE(same_bits(loaded.averages(), saved.averages()));
}

TEST_P(Checkpoint, WithMetadataThatSaysNothingOrNonsenseIsRefused) {
  const std::string path = folder_.file("a.safetensors");
  trainer().save(path);
  const io::SafeTensors good = io::read_safetensors(path);
  std::vector<std::pair<std::string, ArrayView>> tensors(good.tensors.begin(), good.tensors.end());
  ResidentTrainer mine = trainer();
  const auto refuse = [&](const std::string& key, const std::string& value) {
    auto metadata = good.metadata;
    std::erase_if(metadata, [&](const auto& item) { return item.first == key; });
    if (!value.empty()) metadata.emplace_back(key, value);
    io::write_safetensors(path, tensors, metadata);
    expect_error(ErrorCode::checkpoint_mismatch, {path}, [&] { mine.load(path); });
  };
  for (const char* key : {"format", "version", "optimizer", "lr", "steps", "steps/fc1.bias"}) refuse(key, "");
  for (const char* value : {"x", "1x", "-1", "1.5", "9223372036854775807", "99999999999999999999"})
    refuse("steps", value);
  for (const char* value : {"nan", "inf", "-0.5", "fast"}) refuse("lr", value);
  for (const char* value : {"-1", "1", "many"}) refuse("steps/fc1.bias", value);
  refuse("format", "pt");
  refuse("version", "2");
  refuse("surprise", "1");
  io::write_safetensors(path, tensors, good.metadata);
  EXPECT_NO_THROW(mine.load(path));
}

TEST_P(Checkpoint, ThatIsCutShortOrMissingIsRefusedAndChangesNothing) {
  const std::string path = folder_.file("a.safetensors");
  ResidentTrainer saved = trainer();
  saved.step(random_batch(16, 1).inputs());
  saved.save(path);
  ResidentTrainer mine = trainer();
  expect_error(ErrorCode::file_not_found, {folder_.file("b")}, [&] { mine.load(folder_.file("b")); });
  const auto size = std::filesystem::file_size(path);
  for (const auto left : {size - 1, size / 2, std::uintmax_t{9}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, left);
    try {
      mine.load(path);
      ADD_FAILURE() << left << " bytes were accepted";
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::file_truncated || error.code() == ErrorCode::file_malformed)
          << error.what();
    }
  }
  EXPECT_TRUE(same_bits(mine.params(), small_values()));
  EXPECT_EQ(mine.steps(), 0);
}

TEST_P(Checkpoint, ThatCannotBeWrittenLeavesTheOldOne) {
  ResidentTrainer mine = trainer();
  expect_error(ErrorCode::io_error, {}, [&] { mine.save(folder_.file("no-such-folder/a.safetensors")); });
  const std::string path = folder_.file("a.safetensors");
  mine.save(path);
  expect_error(ErrorCode::duplicate_name, {"\"epoch\""}, [&] { mine.save(path, {{"epoch", "1"}, {"epoch", "2"}}); });
  EXPECT_NO_THROW(mine.load(path));
}

class Values : public Checkpoint {};
INSTANTIATE_TEST_SUITE_P(On, Values, ::testing::ValuesIn(built_devices()), device_name);

TEST_P(Values, ThatAreSetAreSeenByTheNextStepAndEvaluation) {
  ResidentTrainer mine = trainer(), other = trainer();
  const NamedArrays values = small_values(5);
  const Batch batch = random_batch(16, 1);
  mine.step(batch.inputs());
  const float before = mine.forward_only(batch.inputs()).loss();
  mine.set_params(Inputs(values.begin(), values.end()));
  mine.restore_optimizer_state(other.optimizer_state());
  EXPECT_NE(mine.forward_only(batch.inputs()).loss(), before);
  ResidentTrainer fresh(small_classifier(16), trainable(small_classifier(16)), values, AdamW{.lr = 0.05}, GetParam());
  EXPECT_TRUE(same_bits(mine.step(batch.inputs()), fresh.step(batch.inputs())));
  EXPECT_TRUE(same_bits(mine, fresh));
}

TEST_P(Values, ThatDoNotFitAreRefusedAllTogether) {
  ResidentTrainer mine = trainer();
  const std::vector<float> five(5), three(3), thirty(30);
  const auto refuse = [&](ErrorCode code, const std::string& name, const Inputs& values) {
    expect_error(code, {"\"" + name + "\""}, [&] { mine.set_params(values); });
  };
  refuse(ErrorCode::unknown_name, "fc1", {{"fc1.bias", five}, {"fc1", five}});
  refuse(ErrorCode::unknown_name, "fc1.bias/m", {{"fc1.bias/m", five}});
  refuse(ErrorCode::wrong_length, "fc2.bias", {{"fc1.bias", five}, {"fc2.bias", five}});
  refuse(ErrorCode::shape_mismatch, "fc1.weight", {{"fc1.bias", five}, {"fc1.weight", Array(DType::f32, {5, 6})}});
  refuse(ErrorCode::dtype_mismatch, "fc2.bias", {{"fc1.bias", five}, {"fc2.bias", Array(DType::i32, {3})}});
  refuse(ErrorCode::duplicate_name, "fc1.bias", {{"fc1.bias", five}, {"fc1.bias", five}});
  EXPECT_TRUE(same_bits(mine.params(), small_values()));
  mine.set_params({{"fc1.bias", five}, {"fc2.bias", three}, {"fc1.weight", thirty}});
  EXPECT_TRUE(mine.param("fc1.weight").same_bits(Array(DType::f32, {6, 5})));
  expect_error(ErrorCode::unknown_name, {"\"fc1.bias/m\"", "\"fc2.bias\""}, [&] { mine.param("fc1.bias/m"); });
}

TEST_P(Values, OfTheOptimizerAreRestoredOrRefusedAllTogether) {
  ResidentTrainer source = trainer(), mine = trainer();
  for (int i = 0; i < 3; ++i) source.step(random_batch(16, i).inputs());
  const OptimizerState good = source.optimizer_state(), zero = mine.optimizer_state();
  EXPECT_EQ(good.entries.size(), 8u);
  EXPECT_EQ(good.entries[0].param, "fc1.weight");
  EXPECT_EQ(good.entries[0].slot, "m");
  EXPECT_EQ(good.entries[1].slot, "v");
  const auto refuse = [&](const std::string& part, const std::function<void(OptimizerState&)>& spoil) {
    OptimizerState bad = good;
    spoil(bad);
    expect_error(ErrorCode::checkpoint_mismatch, {part}, [&] { mine.restore_optimizer_state(bad); });
    EXPECT_TRUE(same_bits(mine.optimizer_state(), zero));
  };
  refuse("\"fc2.bias\" is missing", [](OptimizerState& s) { s.entries.pop_back(); });
  refuse("slot \"w\" of parameter \"fc1.bias\" is none of this trainer's",
         [](OptimizerState& s) { s.entries.push_back({"fc1.bias", "w", Array(DType::f32, {5})}); });
  refuse("two entries", [](OptimizerState& s) { s.entries.push_back(s.entries[0]); });
  refuse("expected f32[6, 5]", [](OptimizerState& s) { s.entries[0].value = Array(DType::f32, {5, 6}); });
  refuse("expected f32[6, 5]", [](OptimizerState& s) { s.entries[1].value = Array(DType::f64, {6, 5}); });
  refuse("3 parameters, expected 4", [](OptimizerState& s) { s.param_steps.pop_back(); });
  refuse("expected 0 to 3", [](OptimizerState& s) { s.param_steps[1] = 4; });
  refuse("expected 0 to 3", [](OptimizerState& s) { s.param_steps[1] = -1; });
  refuse("the number of steps is -1", [](OptimizerState& s) { s.steps = -1; });
  mine.restore_optimizer_state(good);
  EXPECT_TRUE(same_bits(mine.optimizer_state(), good));
  EXPECT_EQ(mine.steps(), 3);
}

TEST_P(Values, OfAnotherOptimizerAreRefusedThoughTheirSlotsAreCalledTheSame) {
  ResidentTrainer adam = small_trainer(Adam{}, GetParam()), adamw = small_trainer(AdamW{}, GetParam());
  adam.step(random_batch(16, 0).inputs());
  OptimizerState state = adam.optimizer_state();
  expect_error(ErrorCode::checkpoint_mismatch, {"\"adam\"", "\"adamw\""},
               [&] { adamw.restore_optimizer_state(state); });
  state.optimizer.clear();  // whoever does not say knows what he does
  adamw.restore_optimizer_state(state);
  EXPECT_EQ(adamw.steps(), 1);
}

TEST_P(Values, OfOtherGroupsAreRefusedThoughTheirRulesAreTheSame) {
  const std::string path = folder_.file("a.safetensors");
  const auto grouped = [&](const std::string& pattern) {
    return small_trainer(groups({{pattern, Adam{}}}, AdamW{}), GetParam());
  };
  ResidentTrainer first = grouped("fc1.*"), second = grouped("fc2.*"), again = grouped("fc1.*");
  first.step(random_batch(16, 0).inputs());
  first.save(path);
  expect_error(ErrorCode::checkpoint_mismatch, {"\"fc1.*\"", "\"fc2.*\""}, [&] { second.load(path); });
  expect_error(ErrorCode::checkpoint_mismatch, {"\"fc1.*\"", "\"fc2.*\""},
               [&] { second.restore_optimizer_state(first.optimizer_state()); });
  EXPECT_TRUE(same_bits(second.params(), small_values()));
  again.load(path);
  EXPECT_TRUE(same_bits(again, first));
}

TEST_P(Values, CountStepsBeyondThirtyTwoBits) {
  const std::string path = folder_.file("a.safetensors");
  for (const std::string& name : optimizer_names()) {
    ResidentTrainer mine = small_trainer(optimizer_by_name(name), GetParam());
    OptimizerState state = mine.optimizer_state();
    state.steps = std::int64_t{1} << 40;
    state.param_steps.assign(4, state.steps);
    mine.restore_optimizer_state(state);
    mine.step(random_batch(16, 1).inputs());
    mine.save(path);
    ResidentTrainer loaded = small_trainer(optimizer_by_name(name), GetParam());
    loaded.load(path);
    EXPECT_EQ(loaded.steps(), (std::int64_t{1} << 40) + 1) << name;
    EXPECT_EQ(loaded.optimizer_state().param_steps[2], (std::int64_t{1} << 40) + 1) << name;
  }
}

}  // namespace
}  // namespace wholestep
