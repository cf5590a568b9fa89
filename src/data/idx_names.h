#pragma once
#include <string>

#include "wholestep/data.h"

namespace wholestep::data {

/// The files of one split in a folder of the MNIST family; each may be compressed, and then ends with ".gz".
struct IdxNames {
  std::string images, labels;
};
IdxNames idx_names(Split split);

}  // namespace wholestep::data
