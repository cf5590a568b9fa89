// The classifier with dropout, its examples uploaded once: the program takes its batches from them itself.
//   dataset_on_device FOLDER [EPOCHS] [DEVICE]
// FOLDER holds the four IDX files, plain or .gz, for example /usr/share/datasets/fashion-mnist.
#include <wholestep/wholestep.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numbers>
#include <stdexcept>

namespace ws = wholestep;

namespace {

constexpr int kBatch = 64;

ws::Graph classifier(std::int64_t batch, std::int64_t pixels, std::int64_t classes) {
  ws::Graph g("classifier");
  const ws::Tensor x = g.input("x", {batch, pixels}, ws::u8);
  const ws::Tensor y = g.input("y", {batch}, ws::i32);
  const ws::Tensor h = relu(ws::nn::linear(g, "fc1", cast(x, ws::f32) / 255.0, 128, true, ws::Init::kaiming_normal()));
  const ws::Tensor logits = ws::nn::linear(g, "fc2", ws::nn::dropout(g, h, 0.2), classes);
  g.set_outputs({cross_entropy(logits, y), count_correct(logits, y)});
  return g;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw std::invalid_argument("usage: dataset_on_device FOLDER [EPOCHS] [DEVICE]");
  const ws::data::ImageSet train = ws::data::read_idx(argv[1], ws::data::Split::train);
  const ws::data::ImageSet test = ws::data::read_idx(argv[1], ws::data::Split::test);
  const std::int64_t epochs = argc > 2 ? std::atoi(argv[2]) : 5;

  const auto model = [&](std::int64_t batch) { return classifier(batch, train.image_elements(), train.classes()); };
  const ws::Graph graph = model(kBatch);
  ws::ResidentTrainer trainer(graph, ws::trainable(graph), ws::initial_values(graph, /*seed=*/0), ws::AdamW{},
                              ws::Device{argc > 3 ? argv[3] : "cpu"});
  trainer.set_graph_builder(model);  // for the last, smaller batch of an epoch
  trainer.set_seed(1);               // of the dropout masks

  const ws::DeviceDataset examples = trainer.upload({{"x", train.images()}, {"y", train.labels()}});
  const ws::DeviceDataset unseen = trainer.upload({{"x", test.images()}, {"y", test.labels()}});
  const std::int64_t steps_per_epoch = (train.size() + kBatch - 1) / kBatch;
  const double goal = static_cast<double>(epochs * steps_per_epoch);
  const auto cosine = [=](std::int64_t step) { return 5e-4 * (1 + std::cos(std::numbers::pi * double(step) / goal)); };

  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::vector<float> losses = trainer.run(examples, steps_per_epoch, {.shuffle_seed = 2, .lr = cosine});
    const ws::Evaluation found = trainer.evaluate(unseen);
    std::printf("epoch %lld  last loss %.4f  test loss %.4f  test accuracy %.2f %%\n",
                static_cast<long long>(epoch + 1), losses.back(), found.loss,
                100 * found.values[1].item() / static_cast<double>(found.examples));
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
