#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "wholestep/error.h"

namespace wholestep::io {

void throw_system_error(const std::string& action, const std::string& path, int error) {
  throw Error(error == ENOENT && action == "open" ? ErrorCode::file_not_found : ErrorCode::io_error,
              fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error)));
}

Descriptor::~Descriptor() { close(); }

int Descriptor::close() {
  if (fd_ < 0) return 0;
  const int result = ::close(fd_);
  fd_ = -1;
  // Linux has closed the descriptor even where it was interrupted.
  return result < 0 && errno != EINTR ? errno : 0;
}

namespace {
int open_for_reading(const std::string& path) {
  // Non-blocking, so that a pipe nobody writes to is refused below instead of waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw_system_error("open", path, errno);
  return fd;
}
}  // namespace

InputFile::InputFile(const std::string& path) : path_(path), file_(open_for_reading(path)) {
  struct stat info;
  if (::fstat(file_.get(), &info) < 0) throw_system_error("examine", path, errno);
  if (S_ISDIR(info.st_mode)) throw_system_error("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) throw Error(ErrorCode::io_error, fmt::format("cannot read {}: not a regular file", path));
  size_ = static_cast<std::uint64_t>(info.st_size);
}

std::size_t InputFile::read_up_to(void* data, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    // Linux reads at most 2^31 - 4096 bytes at once.
    const std::size_t piece = std::min<std::size_t>(size - done, 1 << 30);
    const ssize_t count = ::read(file_.get(), static_cast<char*>(data) + done, piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("read", path_, errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

void InputFile::read(void* data, std::size_t size) {
  const std::size_t done = read_up_to(data, size);
  if (done < size) {
    throw Error(ErrorCode::file_truncated,
                fmt::format("{}: the file ends where {} more bytes should be", path_, size - done));
  }
}

std::string read_text(const std::string& path) {
  InputFile file(path);
  std::string text(file.size(), '\0');
  text.resize(file.read_up_to(text.data(), text.size()));
  return text;
}

}  // namespace wholestep::io
