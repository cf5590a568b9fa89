#include "log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/file.h"

namespace wholestep::cli {
namespace {

/// The lines of a regular file, last to first, beginning with what stands after the last end of line; none where there
/// is no such file.
class LinesFromEnd {
 public:
  explicit LinesFromEnd(const std::string& path) : path_(path), file_(open_regular(path)) {
    if (file_.get() < 0) return;
    struct stat info;
    if (::fstat(file_.get(), &info) < 0) fail();
    unread_ = info.st_size;
    ended_ = false;
  }

  /// The next line, without its end; none after the first of the file, and where it is longer than a record can be.
  std::optional<std::string> next() {
    if (ended_) return std::nullopt;
    std::size_t before = ahead_.rfind('\n');
    while (before == std::string::npos && unread_ > 0 && ahead_.size() < kLongest) {
      read_block();
      before = ahead_.rfind('\n');
    }
    ended_ = before == std::string::npos;
    if (ended_ && unread_ > 0) return std::nullopt;
    const std::size_t begin = ended_ ? 0 : before + 1;
    std::string line = ahead_.substr(begin);
    ahead_.resize(ended_ ? 0 : before);
    start_ = unread_ + static_cast<off_t>(begin);
    return line;
  }

  /// Where the line that was given last begins.
  off_t start() const { return start_; }

  void cut_at(off_t size) const {
    if (::ftruncate(file_.get(), size) < 0) fail();
  }

 private:
  static constexpr std::size_t kLongest = 1 << 16;

  /// -1 where the file is missing, or is none that could be shortened: a pipe would hear of an open and a close.
  static int open_regular(const std::string& path) {
    struct stat info;
    if (::stat(path.c_str(), &info) < 0 || !S_ISREG(info.st_mode)) return -1;
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) io::throw_system_error("write", path, errno);
    return file;
  }

  void read_block() {
    std::string block(static_cast<std::size_t>(std::min<off_t>(unread_, kLongest)), '\0');
    const off_t from = unread_ - static_cast<off_t>(block.size());
    for (std::size_t done = 0; done < block.size();) {
      const ssize_t count =
          ::pread(file_.get(), block.data() + done, block.size() - done, from + static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) io::throw_system_error("read", path_, EIO);  // somebody else shortens it
      done += static_cast<std::size_t>(count);
    }
    unread_ = from;
    ahead_.insert(0, block);
  }

  [[noreturn]] void fail() const { io::throw_system_error("shorten", path_, errno); }

  std::string path_;
  io::Descriptor file_;
  off_t unread_ = 0;   // bytes before those of `ahead_`
  std::string ahead_;  // read, not given yet
  off_t start_ = 0;
  bool ended_ = true;
};

std::optional<std::int64_t> step_of(const std::string& line) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return std::nullopt;
  const auto step = record.find("step");
  if (step == record.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

}  // namespace

void drop_half_line(const std::string& path) {
  LinesFromEnd lines(path);
  const std::optional<std::string> half = lines.next();
  if (half && !half->empty()) lines.cut_at(lines.start());
}

std::int64_t drop_records_after(const std::string& path, std::int64_t step) {
  LinesFromEnd lines(path);
  std::int64_t dropped = 0;
  off_t end = 0;
  while (const std::optional<std::string> line = lines.next()) {
    const std::optional<std::int64_t> found = step_of(*line);
    if (!found) continue;
    if (*found <= step) break;
    end = lines.start();
    ++dropped;
  }
  if (dropped > 0) lines.cut_at(end);
  return dropped;
}

}  // namespace wholestep::cli
