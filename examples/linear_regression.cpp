// Linear regression from scratch: the loss is written with ops, one optimizer step is compiled into one program.
#include <wholestep/wholestep.h>

#include <cmath>
#include <cstdio>
#include <exception>

namespace ws = wholestep;

int main(int argc, char** argv) try {
  // Data of y = 3 a - 2 b + 0.5, without noise.
  constexpr int kExamples = 64;
  std::vector<float> x, y;
  for (int i = 0; i < kExamples; ++i) {
    const float a = std::sin(1.7f * static_cast<float>(i)), b = std::cos(0.6f * static_cast<float>(i));
    x.insert(x.end(), {a, b});
    y.push_back(3 * a - 2 * b + 0.5f);
  }

  // The model and its loss: mean((x w + bias - y)^2).
  ws::Graph graph("linear_regression");
  const ws::Tensor input = graph.input("x", {kExamples, 2});
  const ws::Tensor target = graph.input("y", {kExamples, 1});
  const ws::Tensor weight = graph.param("weight", {2, 1}, ws::f32, ws::Init::normal(0, 0.1));
  const ws::Tensor bias = graph.param("bias", {1});
  const ws::Tensor prediction = matmul(input, weight) + bias;
  graph.set_outputs({mean(square(prediction - target))});

  // Forward, backward and the update of weight and bias, as one program on the device.
  const ws::Device device{argc > 1 ? argv[1] : "cpu", 1};
  ws::ResidentTrainer trainer(graph, ws::trainable(graph), ws::initial_values(graph, /*seed=*/0), ws::SGD{.lr = 0.1},
                              device);
  for (int step = 0; step < 100; ++step) {
    const float loss = trainer.step({{"x", x}, {"y", y}}).loss();
    if (step % 20 == 0) std::printf("step %3d  loss %.6f\n", step, loss);
  }

  const ws::Array found = trainer.param("weight");
  const double a = found.as<float>()[0], b = found.as<float>()[1], c = trainer.param("bias").item();
  std::printf("found y = %.3f a %+.3f b %+.3f\n", a, b, c);
  return std::abs(a - 3) + std::abs(b + 2) + std::abs(c - 0.5) < 1e-2 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
