#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace wholestep::cli {

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
