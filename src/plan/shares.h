#pragma once
// Which worker does which tasks, and where all wait for each other.
#include <vector>

#include "plan/plan.h"

namespace wholestep::plan {

/// Consecutive tasks of one launch, for one worker.
struct Share {
  int worker;
  const Launch* launch;
  std::int64_t first, last;
};

/// What lies between two barriers; each worker does its shares in this order.
using Segment = std::vector<Share>;

/// Cuts the phases of `plan`, which has to outlive the result, among `workers`. A phase begins without a barrier where
/// no worker touches what another has written, or writes what another touches, since the last one: rows of a batch
/// stay with their worker through all kernels that work on rows.
std::vector<Segment> share_out(const Plan& plan, int workers);

}  // namespace wholestep::plan
