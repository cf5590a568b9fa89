#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace wholestep::cli {

struct EpochReport;

/// Appends JSON lines to `train.jsonl` in a folder: {"event": "step", ...} for every step, {"event": "epoch", ...} for
/// every epoch. Does nothing for an empty folder name.
class RunLog {
 public:
  /// Makes the folder where it is missing. Throws `io_error`.
  explicit RunLog(const std::string& folder);
  void step(std::int64_t step, std::int64_t epoch, double loss, double us);
  void epoch(const EpochReport& report);
  /// Hands everything to the system. Throws `io_error` where it could not be written.
  void flush();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace wholestep::cli
