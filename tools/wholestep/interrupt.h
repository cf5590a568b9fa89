#pragma once

namespace wholestep::cli {

/// From now on the first SIGINT or SIGTERM only sets a flag, so that the steps at work can finish; a second one ends
/// the process as usual.
void catch_interrupts();
/// True once such a signal came.
bool interrupted();

}  // namespace wholestep::cli
