#pragma once
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

namespace wholestep::cli {

/// Prints what a user may want to know now. That nobody can read it does not end a run; `main` reports it at the end
/// where it is stdout.
template <class... Args>
void tell(std::FILE* out, fmt::format_string<Args...> format, Args&&... args) {
  std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), out);
  std::fflush(out);
}

/// A bar on stderr where that is a terminal; nothing elsewhere.
class Progress {
 public:
  explicit Progress(std::int64_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }
  /// Redraws at most ten times a second. `loss`: of the last step.
  void update(std::int64_t done, double loss);
  /// Removes the bar, so that a line can be printed.
  void clear();

 private:
  std::int64_t total_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace wholestep::cli
