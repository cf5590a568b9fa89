#pragma once
// The end of a JSON-lines log, where a process that was killed left it.
#include <cstdint>
#include <string>

namespace wholestep::cli {

/// Cuts off what stands after the last end of line, so that what comes next begins a line of its own. Does nothing
/// where there is no file, or where that is longer than a record can be. Throws `io_error`.
void drop_half_line(const std::string& path);

/// Cuts off the records of steps later than `step` that the file ends with, and returns how many there were. Lines
/// without a step go where they stand among those. In one truncation: a crash leaves all of them or none. Throws
/// `io_error`.
std::int64_t drop_records_after(const std::string& path, std::int64_t step);

}  // namespace wholestep::cli
