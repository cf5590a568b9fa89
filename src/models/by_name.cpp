#include "wholestep/nn.h"

namespace wholestep::models {

std::function<Graph(std::int64_t batch)> by_name(const std::string& name) {
  if (name == "mlp") return [](std::int64_t batch) { return mlp(batch); };
  throw Error(ErrorCode::unknown_name, "no model is called '" + name + "'; the models are: mlp");
}

}  // namespace wholestep::models
