#include "run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "training.h"

namespace wholestep::cli {
namespace {

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

// A process that was killed may have left half a line: what comes next begins a line of its own.
void drop_half_line(const std::string& path) {
  constexpr std::streamoff kLongest = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  if (size <= 0) return;
  const std::streamoff start = std::max<std::streamoff>(0, size - kLongest);
  std::string tail(static_cast<std::size_t>(size - start), '\0');
  file.seekg(start);
  if (!file.read(tail.data(), size - start) || tail.back() == '\n') return;
  const std::size_t end = tail.rfind('\n');
  if (end == std::string::npos && start > 0) return;
  const std::streamoff kept = end == std::string::npos ? 0 : start + static_cast<std::streamoff>(end) + 1;
  std::error_code error;
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(kept), error);
  if (error) throw Error(ErrorCode::io_error, fmt::format("{}: cannot cut off half a line: {}", path, error.message()));
}

}  // namespace

RunLog::RunLog(const std::string& folder) {
  if (folder.empty()) return;
  path_ = folder + "/train.jsonl";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::io_error, fmt::format("--log {}: cannot make the folder: {}", folder, error.message()));
  drop_half_line(path_);
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) throw Error(ErrorCode::io_error, fmt::format("{}: cannot open: {}", path_, std::strerror(errno)));
  events_.emplace(folder);
}

void RunLog::step(std::int64_t step, std::int64_t epoch, double loss, double lr, double us, bool skipped) {
  if (!file_) return;
  fmt::print(file_.get(),
             "{{\"event\": \"step\", \"step\": {}, \"epoch\": {}, \"loss\": {}, \"lr\": {}, \"us\": {:.1f}{}}}\n", step,
             epoch, json_number(loss), lr, us, skipped ? ", \"skipped\": true" : "");
  events_->add(step, {{"train/loss", loss}, {"train/lr", lr}, {"train/step_us", us}});
  // Whoever watches the run sees it move.
  if (std::chrono::steady_clock::now() - flushed_ > std::chrono::seconds(1)) flush();
}

void RunLog::epoch(const EpochReport& report) {
  if (!file_) return;
  fmt::print(file_.get(),
             "{{\"event\": \"epoch\", \"step\": {}, \"epoch\": {}, \"train_loss\": {}, \"test_loss\": {}, "
             "\"test_accuracy\": {}, \"step_us_median\": {:.1f}}}\n",
             report.steps, report.epoch, json_number(report.train_loss), report.test.loss, report.test.accuracy,
             report.step_us);
  events_->add(report.steps, {{"epoch/train_loss", report.train_loss},
                              {"epoch/test_loss", report.test.loss},
                              {"epoch/test_accuracy", report.test.accuracy}});
  flush();
}

void RunLog::flush() {
  if (!file_) return;
  if (std::fflush(file_.get()) != 0) {
    throw Error(ErrorCode::io_error, fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
  events_->flush();
  flushed_ = std::chrono::steady_clock::now();
}

}  // namespace wholestep::cli
