#include "evaluate.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "wholestep/error.h"

namespace wholestep::cli {

Evaluation evaluate(const data::ImageSet& set, std::int64_t batch,
                    const std::function<std::vector<Array>(const Inputs&)>& forward) {
  Evaluation result;
  double loss = 0;
  double correct = 0;
  for (const data::Batch& examples : set.batches(batch)) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Array> values = forward({{"x", examples.images}, {"y", examples.labels}});
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    if (values.size() < 2 || !is_integer(values[1].dtype()) || values[1].size() != 1) {
      throw Error(ErrorCode::unsupported,
                  "evaluation needs a model whose second output is the integer number of correct predictions");
    }
    loss += values[0].item() * static_cast<double>(examples.count);
    correct += values[1].item();
    result.batch_us.push_back(elapsed.count());
  }
  result.loss = loss / static_cast<double>(set.size());
  result.accuracy = correct / static_cast<double>(set.size());
  return result;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle))) / 2;
}

}  // namespace wholestep::cli
