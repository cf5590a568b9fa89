#pragma once
#include <vector>

namespace wholestep::cli {

/// The middle value; the mean of the two middle ones for an even number. NaN for none.
double median(std::vector<double> values);

}  // namespace wholestep::cli
