#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/data.h"

namespace wholestep::cli {

/// How a classifier does on a whole set, the final partial batch included.
struct Evaluation {
  double loss = 0;      // mean over examples
  double accuracy = 0;  // fraction of labels that the largest logit names
  std::vector<double> batch_us;
};

/// `forward`: `[mean loss, number correct]` of inputs "x" and "y". Throws `unsupported` where the model has no integer
/// auxiliary output that counts, and what `forward` throws.
Evaluation evaluate(const data::ImageSet& set, std::int64_t batch,
                    const std::function<std::vector<Array>(const Inputs&)>& forward);

/// The middle value; the mean of the two middle ones for an even number. NaN for none.
double median(std::vector<double> values);

}  // namespace wholestep::cli
