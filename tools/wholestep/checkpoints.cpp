#include "checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::cli {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// "a.safetensors" -> "a-" and ".safetensors": what stands around the number of a numbered checkpoint.
std::pair<std::string, std::string> around_number(const std::string& path) {
  const fs::path whole(path);
  return {(whole.parent_path() / whole.stem()).string() + "-", whole.extension().string()};
}

std::string config_beside(const std::string& path) { return path + ".json"; }

/// Of a regular file; none where there is no such.
std::optional<std::string> content_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Has the file hold `content`, or be gone where that is none.
void put(const std::string& path, const std::optional<std::string>& content) {
  if (content) {
    io::write_file_atomically(path, {{content->data(), content->size()}});
    return;
  }
  std::error_code error;
  fs::remove(path, error);
  if (error) throw Error(ErrorCode::io_error, fmt::format("cannot remove {}: {}", path, error.message()));
}

/// For when another error is on its way.
void put_back(const std::string& path, const std::optional<std::string>& content) {
  try {
    put(path, content);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error on its way says more
  }
}

// The header of a checkpoint, at most: what it says of the run; of each parameter the weights, moments, factors of a
// preconditioner, an average.
constexpr std::uint64_t kHeaderBytes = 2048, kTensorsOfParameter = 8, kEntryBytes = 128;

}  // namespace

void Checkpoints::check_writable(const std::string& option, const std::string& path) {
  std::error_code ignored;
  for (const std::string& file : {path, config_beside(path)}) {
    if (fs::is_symlink(file, ignored) && !fs::exists(file, ignored)) {
      throw Error(ErrorCode::io_error, fmt::format("{} {}: {} is a link to nothing", option, path, file));
    }
    if (fs::is_directory(file, ignored)) {
      throw Error(ErrorCode::io_error, fmt::format("{} {}: expected a file, {} is a folder", option, path, file));
    }
    if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) {
      throw Error(ErrorCode::io_error,
                  fmt::format("{} {}: expected a regular file, {} is a device, pipe or socket", option, path, file));
    }
  }
  const std::string probe = fmt::format("{}.probe{}", path, getpid());
  const int file = open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    throw Error(ErrorCode::io_error, fmt::format("{} {}: cannot write there: {}", option, path, std::strerror(errno)));
  close(file);
  unlink(probe.c_str());
}

void Checkpoints::check_space(const ResidentTrainer& trainer) const {
  std::uint64_t size = static_cast<std::uint64_t>(trainer.state_bytes()) + kHeaderBytes;
  for (const std::string& name : trainer.trainable()) size += kTensorsOfParameter * (name.size() + kEntryBytes);
  const auto check = [&](const char* option, const std::string& path, bool again, std::int64_t keep) {
    struct statvfs info;
    if (path.empty() || ::statvfs(folder_of(path).c_str(), &info) != 0 || info.f_blocks == 0) return;
    std::error_code ignored;
    // A new file is whole before an old one goes.
    const std::int64_t files = keep > 0 ? keep + 2 : again && !fs::exists(path, ignored) ? 2 : 1;
    const auto on_disk = [&](std::uint64_t bytes) { return (bytes / info.f_frsize + 1) * info.f_frsize; };
    const std::uint64_t needed = static_cast<std::uint64_t>(files) * (on_disk(size) + on_disk(plan_.config.size()));
    const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
    if (free >= needed) return;
    throw Error(ErrorCode::io_error,
                fmt::format("{} {}: no space: checkpoints of some {} bytes need {} bytes, the file system has {}",
                            option, path, size, needed, free));
  };
  check("--save", plan_.path, plan_.every > 0, plan_.keep);
  check("--save-best", plan_.best_path, true, 0);
}

std::string Checkpoints::numbered(std::int64_t steps) const {
  const auto [before, after] = around_number(plan_.path);
  return fmt::format("{}{}{}", before, steps, after);
}

std::int64_t Checkpoints::number_of(const std::string& saved, const std::string& path) {
  const auto [before, after] = around_number(fs::path(saved).filename().string());
  const std::string name = fs::path(path).filename().string();
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return -1;
  const char* const number_end = name.data() + name.size() - after.size();
  std::int64_t number = -1;
  const auto [stop, bad] = std::from_chars(name.data() + before.size(), number_end, number);
  return bad == std::errc() && stop == number_end ? number : -1;
}

void Checkpoints::adopt(std::int64_t steps) {
  if (plan_.keep == 0) return;
  std::error_code error;
  for (fs::directory_iterator entry(folder_of(plan_.path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::int64_t number = number_of(plan_.path, entry->path());
    if (number >= 0 && number <= steps && run_.wrote(entry->path(), number)) kept_.push_back(number);
  }
  std::sort(kept_.begin(), kept_.end());
}

void Checkpoints::write(const std::string& path, const ResidentTrainer& trainer, const RunProgress& progress) {
  Metadata metadata = run_.to_metadata();
  for (auto& item : progress.to_metadata()) metadata.push_back(std::move(item));
  const std::string config = config_beside(path);
  const std::optional<std::string> before = content_of(config);
  std::error_code ignored;
  const bool anew = before != plan_.config, replaces = fs::exists(path, ignored);
  if (anew) put(config, replaces ? std::nullopt : std::optional(plan_.config));
  try {
    trainer.save(path, metadata);
  } catch (...) {
    if (anew) put_back(config, before);
    throw;
  }
  if (anew && replaces) put(config, plan_.config);
}

std::string Checkpoints::save(const std::string& path, const ResidentTrainer& trainer, const RunProgress& progress) {
  if (newest_ == path && newest_steps_ == trainer.steps()) return path;
  write(path, trainer, progress);
  newest_ = path;
  newest_steps_ = trainer.steps();
  return path;
}

std::string Checkpoints::save_on_the_way(const ResidentTrainer& trainer, const RunProgress& progress) {
  if (plan_.keep == 0) return save(plan_.path, trainer, progress);
  const std::string path = save(numbered(trainer.steps()), trainer, progress);
  if (kept_.empty() || kept_.back() != trainer.steps()) kept_.push_back(trainer.steps());
  while (kept_.size() > static_cast<std::size_t>(plan_.keep)) {
    const std::string oldest = numbered(kept_.front());
    std::error_code error;
    fs::remove(config_beside(oldest), error);  // first: a checkpoint that a kill leaves is found and removed later
    if (!error) fs::remove(oldest, error);
    if (error) throw Error(ErrorCode::io_error, fmt::format("cannot remove {}: {}", oldest, error.message()));
    kept_.erase(kept_.begin());
  }
  return path;
}

std::string Checkpoints::save_best(const ResidentTrainer& trainer, const RunProgress& progress) {
  write(plan_.best_path, trainer, progress);
  return plan_.best_path;
}

std::string Checkpoints::save_at_end(const ResidentTrainer& trainer, const RunProgress& progress) {
  return save(plan_.path, trainer, progress);
}

std::string Checkpoints::save_interrupted(const ResidentTrainer& trainer, const RunProgress& progress) {
  return save(run_.model + "-interrupted.safetensors", trainer, progress);
}

}  // namespace wholestep::cli
