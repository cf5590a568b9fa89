#include "wholestep/nn.h"
#include "wholestep/ops.h"

namespace wholestep::models {

Graph mlp(std::int64_t batch, std::int64_t inputs, std::int64_t hidden, std::int64_t classes) {
  Graph graph("mlp");
  Tensor x = graph.input("x", {batch, inputs}, DType::u8);
  Tensor y = graph.input("y", {batch}, DType::i32);
  Tensor pixels = div(cast(x, DType::f32), 255.0);
  Tensor activations = relu(nn::linear(graph, "fc1", pixels, hidden));
  Tensor logits = nn::linear(graph, "fc2", activations, classes);
  graph.set_outputs({cross_entropy(logits, y), count_correct(logits, y)});
  return graph;
}

}  // namespace wholestep::models
