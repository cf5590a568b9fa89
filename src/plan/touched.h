#pragma once
// Which memory the tasks of a kernel touch, so that workers wait for each other only where they have to.
#include <cstdint>
#include <vector>

#include "schedule/nest.h"

namespace wholestep::plan {

/// Elements [first, last) of entry `buffer` of a nest's list.
struct Touched {
  int buffer;
  std::int64_t first, last;
  bool written;
};

/// What tasks [first, last) of `nest` may read and write in memory that is not their own: for each buffer one range of
/// reads and one of writes at most, perhaps larger than what is touched, never smaller.
std::vector<Touched> touched(const schedule::Nest& nest, std::int64_t first, std::int64_t last);

}  // namespace wholestep::plan
