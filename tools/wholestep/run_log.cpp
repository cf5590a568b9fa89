#include "run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "log_tail.h"
#include "training.h"

namespace wholestep::cli {
namespace {

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

}  // namespace

RunLog::RunLog(const std::string& folder) : path_(folder + "/train.jsonl") {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::io_error, fmt::format("--log {}: cannot make the folder: {}", folder, error.message()));
  if (std::filesystem::is_fifo(path_, error))
    throw Error(ErrorCode::io_error, fmt::format("--log {}: expected a file, {} is a pipe", folder, path_));
  drop_half_line(path_);  // of a process that was killed
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) throw Error(ErrorCode::io_error, fmt::format("{}: cannot open: {}", path_, std::strerror(errno)));
  events_.emplace(folder);
}

std::int64_t RunLog::go_on_after(std::int64_t step) {
  events_->restart_at(step + 1);
  return drop_records_after(path_, step);
}

void RunLog::step(std::int64_t step, std::int64_t epoch, double loss, double lr, double us, bool skipped) {
  fmt::print(file_.get(),
             "{{\"event\": \"step\", \"step\": {}, \"epoch\": {}, \"loss\": {}, \"lr\": {}, \"us\": {:.1f}{}}}\n", step,
             epoch, json_number(loss), lr, us, skipped ? ", \"skipped\": true" : "");
  events_->add(step, {{"train/loss", loss}, {"train/lr", lr}, {"train/step_us", us}});
  // Whoever watches the run sees it move.
  if (std::chrono::steady_clock::now() - flushed_ > std::chrono::seconds(1)) flush();
}

void RunLog::epoch(const EpochReport& report) {
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
  if (std::fflush(file_.get()) != 0) {
    throw Error(ErrorCode::io_error, fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
  events_->flush();
  flushed_ = std::chrono::steady_clock::now();
}

}  // namespace wholestep::cli
