#pragma once
// What an option's value must be. A value that is not is a wrong command line; the message says what was expected.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "wholestep/error.h"

namespace wholestep::cli {

/// Examples in a batch, epochs.
inline constexpr std::int64_t kMostExamples = std::int64_t{1} << 31;
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 53;

/// A whole number in decimal.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
/// 0 to 2^64 - 1.
CLI::Validator seed_number();
/// A finite number; `least` itself only where `or_equal`.
CLI::Validator number_from(double least, bool or_equal = true, double most = std::numeric_limits<double>::max());
/// A number above 0 that is a normal one of f32.
CLI::Validator normal_number();
/// Any text but the empty one: a file, a folder.
CLI::Validator not_empty();
/// What `look_up` does not throw for; the message is that of its `Error`, which lists what there is.
CLI::Validator known_to(std::function<void(const std::string&)> look_up);

/// What `make` returns; an `Error` of it is one of `option`, from which it follows, and so of the command line.
template <class Make>
auto from_option(const std::string& option, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw CLI::ValidationError(option, error.what());
  }
}

}  // namespace wholestep::cli
