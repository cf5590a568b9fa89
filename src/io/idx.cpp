// The IDX format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, an element type, the rank, the extents as
// big-endian 32-bit numbers, then the elements, big-endian.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "io/file.h"
#include "io/gzip.h"
#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are swapped from big-endian");

DType dtype_of_code(unsigned char code, const std::string& path) {
  switch (code) {
    case 0x08:
      return DType::u8;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    case 0x09:
    case 0x0B:
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: IDX elements of type {}; wholestep reads unsigned bytes, i32, "
                              "f32 and f64",
                              path, code == 0x09 ? "signed byte" : "16-bit integer"));
    default:
      throw Error(ErrorCode::file_malformed, fmt::format("{}: no IDX element type 0x{:02x}", path, code));
  }
}

void read_exactly(MaybeGzipReader& content, void* data, std::size_t size, const std::string& path) {
  if (content.read_up_to(data, size) < size) {
    throw Error(ErrorCode::file_truncated, fmt::format("{}: the file ends within its IDX header", path));
  }
}

TensorType read_header(MaybeGzipReader& content, const std::string& path) {
  std::array<unsigned char, 4> magic;
  read_exactly(content, magic.data(), magic.size(), path);
  if (magic[0] != 0 || magic[1] != 0) {
    throw Error(ErrorCode::file_malformed,
                fmt::format("{}: not an IDX file: it begins with bytes {:02x} {:02x} instead of 00 00", path, magic[0],
                            magic[1]));
  }
  TensorType type{dtype_of_code(magic[2], path), {}};
  std::vector<unsigned char> extents(std::size_t{4} * magic[3]);
  read_exactly(content, extents.data(), extents.size(), path);
  std::int64_t bytes = static_cast<std::int64_t>(size_of(type.dtype));
  for (std::size_t i = 0; i < extents.size(); i += 4) {
    const std::int64_t extent =
        std::int64_t{extents[i]} << 24 | extents[i + 1] << 16 | extents[i + 2] << 8 | extents[i + 3];
    // Zero extents count as one here, so that the strides of an empty tensor cannot overflow either.
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(extent, 1), &bytes) || bytes > std::int64_t{1} << 62) {
      throw Error(ErrorCode::file_malformed, fmt::format("{}: an IDX header of more than 2^62 bytes", path));
    }
    type.shape.push_back(extent);
  }
  return type;
}

/// The elements as stored. Memory grows with what arrives: a header can promise more than a machine has.
std::vector<std::byte> read_elements(MaybeGzipReader& content, const TensorType& type, const std::string& path) {
  constexpr std::size_t kFirstPiece = 1 << 20;
  const std::size_t wanted = num_bytes(type);
  std::vector<std::byte> bytes;
  while (bytes.size() < wanted) {
    const std::size_t done = bytes.size();
    const std::size_t piece = std::min(wanted - done, std::max(done, kFirstPiece));
    bytes.resize(done + piece);
    const std::size_t count = content.read_up_to(bytes.data() + done, piece);
    if (count < piece) {
      throw Error(ErrorCode::file_truncated, fmt::format("{}: its header promises {}, {} bytes; it holds {}", path,
                                                         to_string(type), wanted, done + count));
    }
  }
  // Asking for one more byte also makes a gzip file prove its checksum.
  std::byte extra;
  if (content.read_up_to(&extra, 1) != 0) {
    throw Error(ErrorCode::file_malformed,
                fmt::format("{}: more data than its header promises ({}, {} bytes)", path, to_string(type), wanted));
  }
  return bytes;
}

}  // namespace

Array read_idx(const std::string& path) {
  InputFile file(path);
  MaybeGzipReader content(file);
  const TensorType type = read_header(content, path);
  std::vector<std::byte> bytes = read_elements(content, type, path);
  const std::size_t width = size_of(type.dtype);
  if (width > 1) {
    for (std::size_t i = 0; i < bytes.size(); i += width) std::reverse(bytes.data() + i, bytes.data() + i + width);
  }
  return Array::from_bytes(type, bytes.data(), bytes.size());
}

}  // namespace wholestep::io
