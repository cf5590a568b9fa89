#include "schedule.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "wholestep/error.h"

namespace wholestep::cli {

const std::vector<std::string>& schedules() {
  static const std::vector<std::string> names{"constant", "cosine"};
  return names;
}

double scheduled_lr(const std::string& schedule, double lr, std::int64_t steps, std::int64_t goal) {
  if (schedule == "constant") return lr;
  if (schedule == "cosine") {
    return lr * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(steps) / static_cast<double>(goal)));
  }
  throw Error(ErrorCode::unknown_name,
              fmt::format("no schedule \"{}\"; this version has: {}", schedule, fmt::join(schedules(), ", ")));
}

}  // namespace wholestep::cli
