// Replaces a file so that a reader, or a machine after a power failure, sees the old content or the new, never a
// mixture.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "io/file.h"
#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAction = "write";

/// Where the new content goes, and with which permissions.
struct Target {
  std::string path;  // with symbolic links followed: a link to a file stays a link
  bool exists = false;
  mode_t mode = 0666;
};

Target examine(const std::string& path) {
  Target target{path};
  if (path.empty()) throw Error(ErrorCode::io_error, "cannot write a file without a name");
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    std::error_code error;
    target.path = fs::canonical(path, error).string();
    if (error) throw_system_error(kAction, path, error.value());
  }
  if (::stat(target.path.c_str(), &info) < 0) {
    if (errno != ENOENT) throw_system_error(kAction, path, errno);
    return target;
  }
  // Renaming over a device or a pipe would put a file in its place.
  if (S_ISDIR(info.st_mode)) throw_system_error(kAction, path, EISDIR);
  if (!S_ISREG(info.st_mode))
    throw Error(ErrorCode::io_error, fmt::format("cannot write {}: not a regular file", path));
  // A rename needs no permission on the file itself, but who made it read-only meant it.
  if (::faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) < 0) throw_system_error(kAction, path, errno);
  target.exists = true;
  target.mode = info.st_mode & 07777;
  return target;
}

/// Names the temporaries of `target`: ".<base>.<process>-<number>.tmp".
std::string temporary_prefix(const fs::path& target) {
  // Cut so that the longest valid name still has room for the rest.
  return fmt::format(".{}.", target.filename().string().substr(0, 200));
}

/// The process in the name of a temporary of `prefix`; 0 where it is none.
pid_t process_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(".tmp")) return 0;
  name.remove_prefix(prefix.size());
  name.remove_suffix(4);
  pid_t process = 0;
  unsigned number = 0;
  const char* const begin = name.data();
  const char* const end = begin + name.size();
  const auto [dash, bad_process] = std::from_chars(begin, end, process);
  if (bad_process != std::errc() || process <= 0 || dash == end || *dash != '-') return 0;
  const auto [stop, bad_number] = std::from_chars(dash + 1, end, number);
  return bad_number == std::errc() && stop == end ? process : 0;
}

/// Removes what processes that were killed while they wrote `target` have left behind. A temporary whose process may
/// live, here or on another machine that sees this folder, is locked by it.
void remove_leftovers(const fs::path& target) {
  const std::string prefix = temporary_prefix(target);
  const fs::path folder = target.parent_path().empty() ? "." : target.parent_path();
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const pid_t process = process_of(entry->path().filename().string(), prefix);
    if (process == 0 || ::kill(process, 0) == 0 || errno != ESRCH) continue;
    Descriptor file(::open(entry->path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
  }
}

/// A new file beside the target, removed again unless it was renamed.
class Temporary {
 public:
  explicit Temporary(const Target& target, const std::string& shown) : file_(create(target, shown)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Descriptor& file() { return file_; }
  const std::string& path() const { return path_; }
  void renamed() { path_.clear(); }

 private:
  int create(const Target& target, const std::string& shown) {
    static std::atomic<unsigned> counter{0};
    const fs::path path(target.path);
    // A process of the same id may have been killed here before; its leftover is not ours to overwrite.
    for (int attempt = 0; attempt < 1000; ++attempt) {
      const std::string name = fmt::format("{}{}-{}.tmp", temporary_prefix(path), ::getpid(), counter++);
      const std::string candidate = (path.parent_path() / name).string();
      const int fd = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0) {
        path_ = candidate;
        ::flock(fd, LOCK_EX | LOCK_NB);  // best effort: some file systems have no locks
        return fd;
      }
      if (errno != EEXIST) break;
    }
    // Not "open": to the caller a missing folder is a refused write.
    throw_system_error(kAction, shown, errno);
  }

  std::string path_;
  Descriptor file_;
};

void write_all(int fd, const void* data, std::size_t size, const std::string& shown) {
  const char* rest = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(fd, rest, std::min<std::size_t>(size, 1 << 30));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error(kAction, shown, errno);
    rest += count;
    size -= static_cast<std::size_t>(count);
  }
}

int sync(int fd) {
  int result;
  do result = ::fsync(fd);
  while (result < 0 && errno == EINTR);
  return result < 0 ? errno : 0;
}

/// Makes the rename itself last.
void sync_folder(const fs::path& folder, const std::string& shown) {
  const std::string name = folder.empty() ? "." : folder.string();
  Descriptor file(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int error = file.get() < 0 ? errno : sync(file.get());
  // Some file systems cannot sync a folder and have nothing to sync there. A folder that may be written but not
  // listed cannot be opened; its file is complete all the same.
  if (error != 0 && error != EINVAL && error != ENOTSUP && error != EACCES) {
    throw Error(ErrorCode::io_error, fmt::format("{} is written, but its folder cannot be synced: {}", shown,
                                                 std::generic_category().message(error)));
  }
}

}  // namespace

void write_file_atomically(const std::string& path, const std::vector<std::pair<const void*, std::size_t>>& pieces) {
  const Target target = examine(path);
  remove_leftovers(target.path);
  Temporary temporary(target, path);
  const int fd = temporary.file().get();
  if (target.exists && ::fchmod(fd, target.mode) < 0) throw_system_error(kAction, path, errno);
  for (const auto& [data, size] : pieces) write_all(fd, data, size, path);
  if (const int error = sync(fd)) throw_system_error("sync", path, error);
  if (const int error = temporary.file().close()) throw_system_error(kAction, path, error);
  if (std::rename(temporary.path().c_str(), target.path.c_str()) < 0) throw_system_error(kAction, path, errno);
  temporary.renamed();
  sync_folder(fs::path(target.path).parent_path(), path);
}

}  // namespace wholestep::io
