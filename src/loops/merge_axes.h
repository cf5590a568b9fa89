#pragma once
#include "loops/kernel.h"

namespace wholestep::loops {

/// Joins neighbouring parallel axes, and neighbouring map axes of a stage, that every address walks as if they were
/// one. Reduction axes stay: their order is part of a value's definition.
void merge_axes(Kernel& kernel);

}  // namespace wholestep::loops
