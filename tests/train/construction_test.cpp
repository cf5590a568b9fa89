#include <gtest/gtest.h>

#include "support/devices.h"
#include "train/models.h"

namespace wholestep {
namespace {

using testing::expect_error;
using testing::small_classifier;
using testing::small_values;

class Construction : public ::testing::Test {
 protected:
  void refuse(ErrorCode code, const std::vector<std::string>& parts) {
    expect_error(code, parts, [&] { ResidentTrainer(graph_, train_, initial_, optimizer_, Device::reference()); });
  }
  Graph graph_ = small_classifier(2);
  std::vector<std::string> train_ = trainable(graph_);
  NamedArrays initial_ = small_values();
  Optimizer optimizer_ = AdamW{};
};

TEST_F(Construction, RefusesAGraphWithoutOutputs) {
  graph_.set_outputs({});
  refuse(ErrorCode::no_outputs, {"small"});
}

TEST_F(Construction, RefusesALossThatIsNoScalar) {
  graph_.set_outputs({graph_.find("x")});
  refuse(ErrorCode::loss_not_scalar, {"f32[2, 6]"});
}

TEST_F(Construction, RefusesALossOfIntegers) {
  graph_.set_outputs({graph_.tensor(graph_.outputs()[1])});
  refuse(ErrorCode::loss_not_scalar, {"i32[]"});
}

TEST_F(Construction, RefusesAnEmptyListOfTrainableParameters) {
  train_.clear();
  refuse(ErrorCode::nothing_to_train, {});
}

TEST_F(Construction, RefusesToTrainWhatIsNoParameter) {
  train_ = {"fc1.weight", "x"};
  refuse(ErrorCode::not_a_parameter, {"\"x\"", "input"});
  train_ = {"fc9.weight"};
  refuse(ErrorCode::not_a_parameter, {"\"fc9.weight\"", "unknown", "\"fc1.weight\""});
}

TEST_F(Construction, RefusesAParameterThatIsTwiceTrainable) {
  train_ = {"fc1.weight", "fc1.bias", "fc1.weight"};
  refuse(ErrorCode::duplicate_name, {"\"fc1.weight\""});
}

TEST_F(Construction, RefusesToTrainIntegers) {
  graph_.param("counts", {2}, DType::i32);
  initial_.emplace_back("counts", Array(DType::i32, {2}));
  train_ = {"counts"};
  refuse(ErrorCode::dtype_mismatch, {"\"counts\"", "i32[2]"});
}

TEST_F(Construction, RefusesAMissingInitialValueOfATrainedParameter) {
  initial_.erase(initial_.begin());
  refuse(ErrorCode::missing_initial_value, {"\"fc1.weight\"", "f32[6, 5]"});
}

TEST_F(Construction, RefusesAMissingInitialValueOfAFixedParameter) {
  train_ = {"fc2.weight"};
  initial_.erase(initial_.begin());
  refuse(ErrorCode::missing_initial_value, {"\"fc1.weight\""});
}

TEST_F(Construction, RefusesAnInitialValueOfTheWrongLength) {
  initial_[1].second = Array(DType::f32, {4});
  refuse(ErrorCode::wrong_length, {"\"fc1.bias\"", "f32[5]", "4"});
}

TEST_F(Construction, RefusesAnInitialValueOfTheWrongShape) {
  initial_[0].second = Array(DType::f32, {5, 6});
  refuse(ErrorCode::shape_mismatch, {"\"fc1.weight\"", "f32[6, 5]", "f32[5, 6]"});
}

TEST_F(Construction, RefusesAnInitialValueOfTheWrongDtype) {
  initial_[1].second = Array(DType::f64, {5});
  refuse(ErrorCode::dtype_mismatch, {"\"fc1.bias\"", "f32[5]", "f64[5]"});
}

TEST_F(Construction, RefusesAnInitialValueForNoParameter) {
  initial_.emplace_back("fc3.bias", Array(DType::f32, {5}));
  refuse(ErrorCode::unknown_name, {"\"fc3.bias\"", "\"fc1.bias\""});
}

TEST_F(Construction, RefusesTwoInitialValuesForOneParameter) {
  initial_.push_back(initial_[0]);
  refuse(ErrorCode::duplicate_name, {"\"fc1.weight\""});
}

TEST_F(Construction, RefusesANullOptimizer) {
  optimizer_ = nullptr;
  refuse(ErrorCode::invalid_argument, {"optimizer"});
}

TEST_F(Construction, RefusesAStateWithTheNameOfAnOptimizerSlot) {
  graph_.state("fc1.bias/v", {5});
  refuse(ErrorCode::duplicate_name, {"\"fc1.bias/v\"", "reserved"});
}

TEST_F(Construction, RefusesAnInputWithTheNameOfTheLearningRate) {
  graph_.input("step/lr", {});
  refuse(ErrorCode::duplicate_name, {"\"step/lr\"", "reserved"});
}

TEST_F(Construction, RefusesTwoTensorsOfOneNameInACheckpoint) {
  graph_.param("state/count", {1});
  graph_.state("count", {1});
  initial_.emplace_back("state/count", Array(DType::f32, {1}));
  refuse(ErrorCode::duplicate_name, {"\"state/count\"", "checkpoint"});
}

TEST_F(Construction, RefusesToTrainAParameterThatTheGraphUpdates) {
  Tensor bias = graph_.find("fc1.bias");
  graph_.set_update(bias, bias * 2.0);
  refuse(ErrorCode::invalid_argument, {"\"fc1.bias\""});
}

TEST_F(Construction, RefusesADeviceThatDoesNotExist) {
  expect_error(ErrorCode::device_unavailable, {"abacus"},
               [&] { ResidentTrainer(graph_, train_, initial_, optimizer_, Device{"abacus"}); });
}

TEST_F(Construction, OfTenThousandParametersIsPossible) {
  Graph graph("many");
  std::vector<std::string> names;
  NamedArrays values;
  Tensor sum = graph.constant(0, DType::f32);
  for (int i = 0; i < 10'000; ++i) {
    names.push_back("p" + std::to_string(i));
    sum = sum + graph.param(names.back(), {});
    values.emplace_back(names.back(), Array::scalar(1.f));
  }
  graph.set_outputs({sum});
  ResidentTrainer trainer(graph, names, values, SGD{.lr = 0.5}, Device::reference());
  EXPECT_EQ(trainer.step({}).loss(), 10'000);
  EXPECT_EQ(trainer.step({}).loss(), 5'000);
}

}  // namespace
}  // namespace wholestep
