#pragma once

namespace wholestep::cli {

/// From now on the first SIGINT or SIGTERM only sets a flag, so that the steps at work can finish, and so does every
/// SIGHUP that is not ignored; a second SIGINT or SIGTERM ends the process as usual. What cannot be written is an error
/// of that write and no signal.
void catch_interrupts();
/// True once such a signal came.
bool interrupted();

}  // namespace wholestep::cli
