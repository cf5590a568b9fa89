// Freezing a layer, saving, and going on in a new trainer: its parameters are bit for bit those of the training that
// was never interrupted.
#include <wholestep/wholestep.h>

#include <cmath>
#include <cstdio>
#include <exception>

namespace ws = wholestep;

namespace {

constexpr int kBatch = 32;

ws::Graph network() {
  ws::Graph g("curve");
  const ws::Tensor x = g.input("x", {kBatch, 1});
  const ws::Tensor y = g.input("y", {kBatch, 1});
  const ws::Tensor h = tanh(ws::nn::linear(g, "hidden", x, 16));
  g.set_outputs({squared_error(ws::nn::linear(g, "out", h, 1), y)});
  return g;
}

/// Points of a sine; another set for each step.
void step(ws::ResidentTrainer& trainer) {
  std::vector<float> x, y;
  for (int i = 0; i < kBatch; ++i) {
    x.push_back(std::sin(static_cast<float>(trainer.steps() * kBatch + i)));
    y.push_back(std::sin(3 * x.back()));
  }
  trainer.step({{"x", x}, {"y", y}});
}

}  // namespace

int main(int argc, char** argv) try {
  const ws::Device device{argc > 1 ? argv[1] : "cpu", 1};
  const char* checkpoint = "freeze_and_resume.safetensors";
  const ws::Graph graph = network();
  const auto new_trainer = [&](std::uint64_t seed) {
    return ws::ResidentTrainer(graph, ws::trainable(graph), ws::initial_values(graph, seed), ws::Adam{.lr = 1e-2},
                               device);
  };

  ws::ResidentTrainer trainer = new_trainer(0);
  for (int i = 0; i < 50; ++i) step(trainer);

  // Frozen parameters and their optimizer state do not move at all; the others go on.
  const ws::Array hidden = trainer.param("hidden.weight"), out = trainer.param("out.weight");
  trainer.set_frozen("hidden.weight", true);
  trainer.set_frozen("hidden.bias", true);
  for (int i = 0; i < 50; ++i) step(trainer);
  const bool froze = trainer.param("hidden.weight").same_bits(hidden) && !trainer.param("out.weight").same_bits(out);
  std::printf("after 50 frozen steps: hidden layer %s\n", froze ? "unmoved, output layer trained" : "MOVED");
  trainer.set_frozen("hidden.weight", false);
  trainer.set_frozen("hidden.bias", false);

  trainer.save(checkpoint);
  for (int i = 0; i < 50; ++i) step(trainer);

  // Another start, everything of it replaced by the checkpoint: weights, optimizer state, step counts.
  ws::ResidentTrainer resumed = new_trainer(1);
  resumed.load(checkpoint);
  for (int i = 0; i < 50; ++i) step(resumed);
  bool same = resumed.steps() == trainer.steps();
  for (const std::string& name : trainer.trainable()) same = same && resumed.param(name).same_bits(trainer.param(name));
  std::printf("resumed at step 100, now at %lld: %s\n", static_cast<long long>(resumed.steps()),
              same ? "the same bits" : "DIFFERENT bits");
  return froze && same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
