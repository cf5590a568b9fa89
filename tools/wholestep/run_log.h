#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "wholestep/event_file.h"

namespace wholestep::cli {

struct EpochReport;

/// Appends JSON lines to `train.jsonl` in a folder - {"event": "step", ...} for every step, {"event": "epoch", ...} for
/// every epoch - and writes the same numbers to an event file for TensorBoard. A loss that is not finite, as a skipped
/// step's may be, is null in the one and NaN or infinite in the other.
class RunLog {
 public:
  /// Makes the folder where it is missing. Throws `io_error`, as everything below where something cannot be written.
  explicit RunLog(const std::string& folder);
  /// Before the first record of a run that goes on from a checkpoint: drops the records of later steps than `step` that
  /// the file ends with, since those steps are taken again. Returns how many.
  std::int64_t go_on_after(std::int64_t step);
  const std::string& path() const { return path_; }
  void step(std::int64_t step, std::int64_t epoch, double loss, double lr, double us, bool skipped);
  void epoch(const EpochReport& report);
  /// Hands everything to the system.
  void flush();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::optional<io::EventFile> events_;
  std::chrono::steady_clock::time_point flushed_ = std::chrono::steady_clock::now();
};

}  // namespace wholestep::cli
