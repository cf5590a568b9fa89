#include "wholestep/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>

#include "io/event_record.h"
#include "io/file.h"
#include "wholestep/error.h"

namespace wholestep::io {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

/// Names a file that is in no folder yet: ordered by time, unique by process and number.
std::string path_in(const std::string& folder, double time) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}/events.out.tfevents.{}.{}.{}.{}", folder, static_cast<std::int64_t>(time), host_name(),
                     ::getpid(), counter++);
}

int create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) throw_system_error("write", path, errno);
  return fd;
}

void make(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_system_error("make the folder", folder, error.value());
}

}  // namespace

struct EventFile::State {
  // Written at once when full: a reader seldom sees half a record, and waits for its rest where it does.
  static constexpr std::size_t kBuffer = 1 << 16;

  State(const std::string& folder, double time) : path(path_in(folder, time)), file(create(path)) {
    add(version_event(time));
    flush();
  }

  void add(const std::string& event) {
    buffer += tf_record(event);
    if (buffer.size() >= kBuffer) flush();
  }

  void flush() {
    if (const int error = write()) throw_system_error("write", path, error);
  }

  /// 0, or the errno that left the rest in the buffer.
  int write() {
    std::size_t done = 0;
    int error = 0;
    while (done < buffer.size() && error == 0) {
      const ssize_t count = ::write(file.get(), buffer.data() + done, buffer.size() - done);
      if (count >= 0)
        done += static_cast<std::size_t>(count);
      else if (errno != EINTR)
        error = errno;
    }
    buffer.erase(0, done);
    return error;
  }

  std::string path;
  Descriptor file;
  std::string buffer;
};

EventFile::EventFile(const std::string& folder) {
  make(folder);
  state_ = std::make_unique<State>(folder, now());
}
EventFile::EventFile(EventFile&&) noexcept = default;
EventFile& EventFile::operator=(EventFile&&) noexcept = default;

EventFile::~EventFile() {
  if (state_) state_->write();
}

const std::string& EventFile::path() const { return state_->path; }

void EventFile::restart_at(std::int64_t step) { state_->add(start_event(now(), step)); }

void EventFile::add(std::int64_t step, const std::vector<std::pair<std::string, double>>& values, double wall_time) {
  state_->add(scalar_event(wall_time < 0 ? now() : wall_time, step, values));
}

void EventFile::flush() { state_->flush(); }

}  // namespace wholestep::io
