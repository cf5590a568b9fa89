#include "io/gzip.h"

#include <fmt/format.h>

#include <algorithm>

#include "wholestep/error.h"

namespace wholestep::io {

namespace {
constexpr int kGzipOnly = 16 + MAX_WBITS;
}

MaybeGzipReader::MaybeGzipReader(InputFile& file) : file_(file) {
  refill();
  compressed_ = stream_.avail_in >= 2 && buffer_[0] == 0x1f && buffer_[1] == 0x8b;
  if (compressed_ && inflateInit2(&stream_, kGzipOnly) != Z_OK) {
    throw Error(ErrorCode::io_error, fmt::format("cannot read {}: no memory to decompress it", file_.path()));
  }
}

MaybeGzipReader::~MaybeGzipReader() {
  if (compressed_) inflateEnd(&stream_);
}

void MaybeGzipReader::refill() {
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(file_.read_up_to(buffer_.data(), buffer_.size()));
}

std::size_t MaybeGzipReader::read_up_to(void* data, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(data);
  if (!compressed_) {
    const std::size_t buffered = std::min<std::size_t>(size, stream_.avail_in);
    std::copy_n(stream_.next_in, buffered, bytes);
    stream_.next_in += buffered;
    stream_.avail_in -= static_cast<uInt>(buffered);
    return buffered + file_.read_up_to(bytes + buffered, size - buffered);
  }
  std::size_t done = 0;
  while (done < size) {
    const std::size_t count = inflate_up_to(bytes + done, std::min<std::size_t>(size - done, 1 << 30));
    if (count == 0) break;
    done += count;
  }
  return done;
}

std::size_t MaybeGzipReader::inflate_up_to(unsigned char* data, std::size_t size) {
  stream_.next_out = data;
  stream_.avail_out = static_cast<uInt>(size);
  while (stream_.avail_out == size) {
    if (stream_.avail_in == 0) refill();
    if (stream_.avail_in == 0) {
      if (ended_) break;
      throw Error(ErrorCode::file_truncated, fmt::format("{}: the gzip data stops before its end", file_.path()));
    }
    // A gzip file may be several members, one after the other.
    if (ended_) {
      inflateReset(&stream_);
      ended_ = false;
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      throw Error(ErrorCode::file_malformed, fmt::format("{}: damaged gzip data ({})", file_.path(),
                                                         stream_.msg ? stream_.msg : "inflate failed"));
    }
  }
  return size - stream_.avail_out;
}

}  // namespace wholestep::io
