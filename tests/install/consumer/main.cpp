// What a program outside the project does with it: it trains a line on the device named by its argument.
#include <wholestep/wholestep.h>

#include <cstdio>
#include <exception>

namespace ws = wholestep;

int main(int argc, char** argv) try {
  const ws::Device device{argc > 1 ? argv[1] : "reference", 1};
  ws::Graph graph("line");
  const ws::Tensor x = graph.input("x", {4});
  const ws::Tensor y = graph.input("y", {4});
  const ws::Tensor slope = graph.param("slope", {});
  graph.set_outputs({squared_error(x * slope, y)});
  ws::ResidentTrainer trainer(graph, ws::trainable(graph), ws::initial_values(graph, 0), ws::SGD{.lr = 0.1}, device);
  const std::vector<float> xs{-1, 0, 1, 2}, ys{-3, 0, 3, 6};
  for (int i = 0; i < 100; ++i) trainer.step({{"x", xs}, {"y", ys}});
  const double found = trainer.param("slope").item();
  std::printf("slope %.4f on %s\n", found, device.name.c_str());
  return found > 2.999 && found < 3.001 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
