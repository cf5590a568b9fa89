#pragma once
// A small classifier as a graph, the same in plain C++ with hand-written gradients, and data for both.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "wholestep/nn.h"
#include "wholestep/ops.h"
#include "wholestep/trainer.h"

namespace wholestep::testing {

inline constexpr int kIn = 6, kHidden = 5, kClasses = 3;

/// Inputs "x" f32 [batch, 6] and "y" i32 [batch]; parameters fc1.weight, fc1.bias, fc2.weight, fc2.bias; outputs mean
/// cross-entropy and number of correct predictions.
inline Graph small_classifier(std::int64_t batch) {
  Graph graph("small");
  Tensor x = graph.input("x", {batch, kIn}), y = graph.input("y", {batch}, DType::i32);
  Tensor logits = nn::linear(graph, "fc2", relu(nn::linear(graph, "fc1", x, kHidden)), kClasses);
  graph.set_outputs({cross_entropy(logits, y), count_correct(logits, y)});
  return graph;
}

/// A batch whose label follows from the features, so that it can be learned.
struct Batch {
  std::vector<float> x;
  std::vector<std::int32_t> y;
  Inputs inputs() const { return {{"x", x}, {"y", y}}; }
};

inline Batch random_batch(int size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Batch batch;
  for (int i = 0; i < size; ++i) {
    float features[kIn];
    for (float& x : features) batch.x.push_back(x = normal(random));
    batch.y.push_back(static_cast<std::int32_t>(std::max_element(features, features + kClasses) - features));
  }
  return batch;
}

inline NamedArrays small_values(std::uint64_t seed = 1) { return initial_values(small_classifier(1), seed); }

inline ResidentTrainer small_trainer(const Optimizer& optimizer, const Device& device, int batch = 16,
                                     std::vector<std::string> train = {}, const UpdateOptions& update = {},
                                     Precision precision = Precision::f32) {
  const Graph graph = small_classifier(batch);
  if (train.empty()) train = trainable(graph);
  return ResidentTrainer(graph, std::move(train), small_values(), optimizer, device, {.precision = precision}, update);
}

/// The same classifier in doubles, gradients written out by hand.
struct PlainClassifier {
  std::vector<double> w1, b1, w2, b2;

  explicit PlainClassifier(const NamedArrays& values)
      : w1(find(values, "fc1.weight")->to_doubles()),
        b1(find(values, "fc1.bias")->to_doubles()),
        w2(find(values, "fc2.weight")->to_doubles()),
        b2(find(values, "fc2.bias")->to_doubles()) {}
  std::vector<std::vector<double>*> params() { return {&w1, &b1, &w2, &b2}; }

  /// Mean cross-entropy; `grads` in the order of params().
  double loss_and_gradients(const Batch& batch, std::vector<std::vector<double>>& grads) const {
    grads = {std::vector<double>(w1.size()), std::vector<double>(b1.size()), std::vector<double>(w2.size()),
             std::vector<double>(b2.size())};
    const std::size_t count = batch.y.size();
    double loss = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const float* x = &batch.x[n * kIn];
      double hidden[kHidden], logits[kClasses], total = 0;
      for (int j = 0; j < kHidden; ++j) {
        double sum = b1[j];
        for (int i = 0; i < kIn; ++i) sum += x[i] * w1[i * kHidden + j];
        hidden[j] = std::max(0.0, sum);
      }
      for (int k = 0; k < kClasses; ++k) {
        logits[k] = b2[k];
        for (int j = 0; j < kHidden; ++j) logits[k] += hidden[j] * w2[j * kClasses + k];
        total += std::exp(logits[k]);
      }
      loss += (std::log(total) - logits[batch.y[n]]) / count;
      double to_hidden[kHidden] = {};
      for (int k = 0; k < kClasses; ++k) {
        const double d = (std::exp(logits[k]) / total - (batch.y[n] == k)) / count;
        grads[3][k] += d;
        for (int j = 0; j < kHidden; ++j) {
          grads[2][j * kClasses + k] += d * hidden[j];
          to_hidden[j] += d * w2[j * kClasses + k];
        }
      }
      for (int j = 0; j < kHidden; ++j) {
        if (hidden[j] <= 0) continue;
        grads[1][j] += to_hidden[j];
        for (int i = 0; i < kIn; ++i) grads[0][i * kHidden + j] += to_hidden[j] * x[i];
      }
    }
    return loss;
  }
};

/// Two lists of values with the same names and the same bits.
inline bool same_bits(const NamedArrays& a, const NamedArrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.same_bits(y.second); });
}

inline bool same_bits(const OptimizerState& a, const OptimizerState& b) {
  return a.steps == b.steps && a.param_steps == b.param_steps && a.loss_scale == b.loss_scale &&
         std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(),
                    [](const OptimizerState::Entry& x, const OptimizerState::Entry& y) {
                      return x.param == y.param && x.slot == y.slot && x.value.same_bits(y.value);
                    });
}

inline bool same_bits(const StepResult& a, const StepResult& b) {
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [](const Array& x, const Array& y) { return x.same_bits(y); });
}

/// Everything that two trainers hold has the same bits.
inline bool same_bits(const ResidentTrainer& a, const ResidentTrainer& b) {
  return same_bits(a.params(), b.params()) && same_bits(a.optimizer_state(), b.optimizer_state());
}

}  // namespace wholestep::testing
