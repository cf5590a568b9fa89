#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wholestep::cli {

/// Names of the learning-rate schedules.
const std::vector<std::string>& schedules();

/// The learning rate of the step that follows `steps` others in a run of `goal` steps. "constant": `lr`; "cosine": from
/// `lr` to 0 along half a wave (Loshchilov and Hutter, 2017, without restarts). Throws `unknown_name` listing the
/// names.
double scheduled_lr(const std::string& schedule, double lr, std::int64_t steps, std::int64_t goal);

}  // namespace wholestep::cli
