#pragma once
// Files as descriptors: every failure of the system becomes an `Error` with the reason and the path.
#include <cstddef>
#include <cstdint>
#include <string>

namespace wholestep::io {

/// Throws `io_error` (`file_not_found` for ENOENT while reading): "cannot <action> <path>: <reason>". `error` is an
/// errno.
[[noreturn]] void throw_system_error(const std::string& action, const std::string& path, int error);

/// An open descriptor, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int get() const { return fd_; }
  /// Closes now; the errno of a failure, else 0.
  int close();

 private:
  int fd_;
};

/// A regular file, read from its start to its end.
class InputFile {
 public:
  /// Throws `file_not_found`, `io_error` (also for a folder or a device).
  explicit InputFile(const std::string& path);
  const std::string& path() const { return path_; }
  /// Bytes of the whole file when it was opened.
  std::uint64_t size() const { return size_; }
  /// Up to `size` bytes; fewer only at the end of the file. Throws `io_error`.
  std::size_t read_up_to(void* data, std::size_t size);
  /// Exactly `size` bytes. Throws `file_truncated`, `io_error`.
  void read(void* data, std::size_t size);

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// All of a regular file. Throws as `InputFile`.
std::string read_text(const std::string& path);

}  // namespace wholestep::io
