#include "wholestep/nn.h"

#include <cmath>

#include "wholestep/ops.h"

namespace wholestep::nn {

Tensor linear(Graph& graph, const std::string& name, Tensor x, std::int64_t out, bool bias,
              std::optional<Init> weight) {
  if (!x.valid() || x.rank() == 0) {
    throw Error(ErrorCode::shape_mismatch, "linear '" + name + "': expected x [..., in], got " +
                                               (x.valid() ? to_string(x.type()) : std::string("a tensor of no graph")));
  }
  const std::int64_t in = x.shape().back();
  const DType dtype = x.dtype();
  if (!is_float(dtype)) {
    throw Error(ErrorCode::dtype_mismatch,
                "linear '" + name + "': expected floating-point x, got " + to_string(x.type()));
  }
  if (bias && graph.find_id(name + ".bias") >= 0) {
    throw Error(ErrorCode::duplicate_name, "linear '" + name + "': '" + name + ".bias' exists already");
  }
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  Tensor w = graph.param(name + ".weight", {in, out}, dtype, weight.value_or(Init::uniform(-bound, bound)));
  Tensor y = x.rank() == 1 ? reshape(matmul(unsqueeze(x, 0), w), {out}) : matmul(x, w);
  if (!bias) return y;
  return add(y, graph.param(name + ".bias", {out}, dtype, Init::uniform(-bound, bound)));
}

}  // namespace wholestep::nn
