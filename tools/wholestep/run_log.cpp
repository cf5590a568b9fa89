#include "run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "training.h"

namespace wholestep::cli {

RunLog::RunLog(const std::string& folder) {
  if (folder.empty()) return;
  path_ = folder + "/train.jsonl";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::io_error, fmt::format("--log {}: cannot make the folder: {}", folder, error.message()));
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) throw Error(ErrorCode::io_error, fmt::format("{}: cannot open: {}", path_, std::strerror(errno)));
}

void RunLog::step(std::int64_t step, std::int64_t epoch, double loss, double us) {
  if (!file_) return;
  fmt::print(file_.get(), "{{\"event\": \"step\", \"step\": {}, \"epoch\": {}, \"loss\": {}, \"us\": {:.1f}}}\n", step,
             epoch, loss, us);
}

void RunLog::epoch(const EpochReport& report) {
  if (!file_) return;
  fmt::print(file_.get(),
             "{{\"event\": \"epoch\", \"step\": {}, \"epoch\": {}, \"train_loss\": {}, \"test_loss\": {}, "
             "\"test_accuracy\": {}, \"step_us_median\": {:.1f}}}\n",
             report.steps, report.epoch, report.train_loss, report.test_loss, report.test_accuracy, report.step_us);
  flush();
}

void RunLog::flush() {
  if (file_ && std::fflush(file_.get()) != 0) {
    throw Error(ErrorCode::io_error, fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
}

}  // namespace wholestep::cli
