// The 784-128-10 classifier on MNIST or Fashion-MNIST:
//   mnist_mlp FOLDER [EPOCHS] [DEVICE]
// FOLDER holds the four IDX files, plain or .gz, for example /usr/share/datasets/fashion-mnist.
#include <wholestep/wholestep.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace ws = wholestep;

namespace {

constexpr int kBatch = 64;

ws::Graph classifier(std::int64_t batch, std::int64_t pixels, std::int64_t classes) {
  ws::Graph g("classifier");
  const ws::Tensor x = g.input("x", {batch, pixels}, ws::u8);  // images as they are on disk
  const ws::Tensor y = g.input("y", {batch}, ws::i32);
  const ws::Tensor h = relu(ws::nn::linear(g, "fc1", cast(x, ws::f32) / 255.0, 128));
  const ws::Tensor logits = ws::nn::linear(g, "fc2", h, classes);
  g.set_outputs({cross_entropy(logits, y), count_correct(logits, y)});
  return g;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw std::invalid_argument("usage: mnist_mlp FOLDER [EPOCHS] [DEVICE]");
  const ws::data::ImageSet train = ws::data::read_idx(argv[1], ws::data::Split::train);
  const ws::data::ImageSet test = ws::data::read_idx(argv[1], ws::data::Split::test);
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 5;
  const ws::Device device{argc > 3 ? argv[3] : "cpu"};

  const auto model = [&](std::int64_t batch) { return classifier(batch, train.image_elements(), train.classes()); };
  const ws::Graph graph = model(kBatch);
  ws::ResidentTrainer trainer(graph, ws::trainable(graph), ws::initial_values(graph, /*seed=*/0), ws::AdamW{.lr = 1e-3},
                              device);
  trainer.set_graph_builder(model);  // for the last, smaller batch of an epoch

  for (int epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0;
    for (const ws::data::Batch& batch : train.shuffled(/*seed=*/0, static_cast<std::uint64_t>(epoch)).batches(kBatch))
      loss += trainer.step({{"x", batch.images}, {"y", batch.labels}}).loss() * static_cast<double>(batch.count);

    double correct = 0;
    for (const ws::data::Batch& batch : test.batches(kBatch))
      correct += trainer.forward_only({{"x", batch.images}, {"y", batch.labels}}).values[1].item();
    std::printf("epoch %d  loss %.4f  test accuracy %.2f %%\n", epoch + 1, loss / static_cast<double>(train.size()),
                100 * correct / static_cast<double>(test.size()));
  }
  trainer.save("classifier.safetensors");
  std::printf("%lld steps, resident: %s, saved to classifier.safetensors\n", static_cast<long long>(trainer.steps()),
              trainer.is_resident() ? "yes" : "no");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
