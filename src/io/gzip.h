#pragma once
#include <zlib.h>

#include <array>
#include <cstddef>

#include "io/file.h"

namespace wholestep::io {

/// The content of a file: as it is, or inflated where it begins as a gzip file does.
class MaybeGzipReader {
 public:
  /// `file` stays open while this lives. Throws `io_error`.
  explicit MaybeGzipReader(InputFile& file);
  ~MaybeGzipReader();
  MaybeGzipReader(const MaybeGzipReader&) = delete;
  MaybeGzipReader& operator=(const MaybeGzipReader&) = delete;
  /// Up to `size` bytes of content; fewer only at its end. Throws `file_truncated` (a gzip stream that stops before its
  /// end), `file_malformed` (not gzip data, a wrong checksum, other bytes after it), `io_error`.
  std::size_t read_up_to(void* data, std::size_t size);

 private:
  std::size_t inflate_up_to(unsigned char* data, std::size_t size);
  void refill();

  InputFile& file_;
  bool compressed_ = false;
  bool ended_ = false;  // a gzip member is complete, and the next has not begun
  z_stream stream_{};
  std::array<unsigned char, 1 << 16> buffer_;
};

}  // namespace wholestep::io
