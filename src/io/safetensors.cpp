#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "io/file.h"
#include "io/safetensors_header.h"
#include "wholestep/error.h"
#include "wholestep/io.h"

namespace wholestep::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;  // the header's length, little-endian, before it
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;
static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian and not swapped here");

[[noreturn]] void malformed(const std::string& path, const std::string& problem) {
  throw Error(ErrorCode::file_malformed, fmt::format("{}: {}", path, problem));
}

/// The entry's type, checked against its byte range.
TensorType type_of(const SafeTensorsEntry& entry, const std::string& path) {
  TensorType type{dtype_of_safetensors(entry, path), {}};
  // Zero extents count as one here, so that the strides of an empty tensor cannot overflow either.
  std::uint64_t bound = size_of(type.dtype);
  bool empty = false;
  for (const std::uint64_t extent : entry.shape) {
    if (extent > kMaxBytes || __builtin_mul_overflow(bound, std::max<std::uint64_t>(extent, 1), &bound) ||
        bound > kMaxBytes) {
      malformed(path, fmt::format("tensor \"{}\" has a shape of more than 2^62 bytes", entry.name));
    }
    empty = empty || extent == 0;
    type.shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::uint64_t bytes = empty ? 0 : bound;
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    malformed(path, fmt::format("tensor \"{}\", {}, needs {} bytes; its data_offsets are [{}, {}]", entry.name,
                                to_string(type), bytes, entry.begin, entry.end));
  }
  return type;
}

/// Checks that the entries' byte ranges fill the file's data one after the other. Returns the entries in that order.
std::vector<std::size_t> order_of_data(const std::vector<SafeTensorsEntry>& entries, std::uint64_t data_bytes,
                                       const std::string& path) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(entries[a].begin, entries[a].end) < std::pair(entries[b].begin, entries[b].end);
  });
  std::uint64_t position = 0;
  for (const std::size_t i : order) {
    const SafeTensorsEntry& entry = entries[i];
    if (entry.begin != position) {
      malformed(path, fmt::format("the data of tensor \"{}\" begins at {}, but the data before it ends at {}",
                                  entry.name, entry.begin, position));
    }
    position = entry.end;
  }
  if (position > data_bytes) {
    throw Error(ErrorCode::file_truncated,
                fmt::format("{}: its tensors need {} bytes, the file has {}", path, position, data_bytes));
  }
  if (position < data_bytes) {
    malformed(path, fmt::format("its tensors take {} bytes, but {} follow the header", position, data_bytes));
  }
  return order;
}

SafeTensorsHeader read_header(InputFile& file, std::uint64_t& header_bytes) {
  const std::string& path = file.path();
  if (file.size() < kLengthBytes) {
    throw Error(ErrorCode::file_truncated,
                fmt::format("{}: {} bytes are too few for a safetensors file", path, file.size()));
  }
  file.read(&header_bytes, kLengthBytes);
  if (header_bytes > kMaxSafeTensorsHeader) {
    malformed(path,
              fmt::format("not a safetensors file: its first bytes say a header of {} bytes, the format allows {}",
                          header_bytes, kMaxSafeTensorsHeader));
  }
  if (header_bytes > file.size() - kLengthBytes) {
    throw Error(ErrorCode::file_truncated,
                fmt::format("{}: a header of {} bytes in a file of {}", path, header_bytes, file.size()));
  }
  std::string text(header_bytes, '\0');
  file.read(text.data(), text.size());
  if (!text.starts_with('{')) malformed(path, "the header does not begin with '{'");
  return parse_safetensors_header(text, path);
}

/// `text` as a JSON string. Throws `invalid_argument` where it is not UTF-8.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::invalid_argument, "a name or metadata text for a safetensors file is not UTF-8");
  }
}

/// The header's text, padded so that the data behind it begins at a multiple of eight.
std::string header_text(const std::vector<std::pair<std::string, ArrayView>>& tensors,
                        const std::vector<std::pair<std::string, std::string>>& metadata) {
  std::string text;
  const auto separate = [&] { text += text.empty() ? '{' : ','; };
  if (!metadata.empty()) {
    std::string items;
    std::set<std::string> keys;
    for (const auto& [key, value] : metadata) {
      if (!keys.insert(key).second)
        throw Error(ErrorCode::duplicate_name, fmt::format("two metadata texts \"{}\"", key));
      items += fmt::format("{}{}:{}", items.empty() ? "" : ",", quoted(key), quoted(value));
    }
    separate();
    text += fmt::format("{}:{{{}}}", quoted(std::string(kMetadataKey)), items);
  }
  std::set<std::string> names;
  std::uint64_t position = 0;
  for (const auto& [name, view] : tensors) {
    if (name == kMetadataKey) {
      throw Error(ErrorCode::invalid_argument, fmt::format("a tensor cannot be called \"{}\"", kMetadataKey));
    }
    if (!names.insert(name).second) throw Error(ErrorCode::duplicate_name, fmt::format("two tensors \"{}\"", name));
    if (view.bytes != num_bytes(view.type)) {
      throw Error(ErrorCode::wrong_length, fmt::format("tensor \"{}\", {}, has {} bytes instead of {}", name,
                                                       to_string(view.type), view.bytes, num_bytes(view.type)));
    }
    separate();
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", quoted(name),
                        safetensors_dtype(view.type.dtype), fmt::join(view.type.shape, ","), position,
                        position + view.bytes);
    position += view.bytes;
  }
  text += text.empty() ? "{}" : "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxSafeTensorsHeader) {
    throw Error(ErrorCode::unsupported, fmt::format("a safetensors header of {} bytes; the format allows {}",
                                                    text.size(), kMaxSafeTensorsHeader));
  }
  return text;
}

}  // namespace

SafeTensors read_safetensors(const std::string& path) {
  InputFile file(path);
  std::uint64_t header_bytes = 0;
  SafeTensorsHeader header = read_header(file, header_bytes);
  std::vector<TensorType> types;
  for (const SafeTensorsEntry& entry : header.entries) types.push_back(type_of(entry, path));
  const auto order = order_of_data(header.entries, file.size() - kLengthBytes - header_bytes, path);

  SafeTensors result;
  result.metadata = std::move(header.metadata);
  result.tensors.resize(types.size());
  for (const std::size_t i : order) {
    auto& [name, array] = result.tensors[i];
    name = std::move(header.entries[i].name);
    array = Array(types[i]);
    file.read(array.data(), array.bytes());
    if (array.dtype() == DType::boolean) {
      const auto* bytes = static_cast<const unsigned char*>(array.data());
      if (std::any_of(bytes, bytes + array.bytes(), [](unsigned char byte) { return byte > 1; })) {
        malformed(path, fmt::format("tensor \"{}\" is BOOL, but holds bytes other than 0 and 1", name));
      }
    }
  }
  return result;
}

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, ArrayView>>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  const std::string text = header_text(tensors, metadata);
  const std::uint64_t length = text.size();
  std::vector<std::pair<const void*, std::size_t>> pieces{{&length, sizeof(length)}, {text.data(), text.size()}};
  for (const auto& [name, view] : tensors) pieces.emplace_back(view.data, view.bytes);
  write_file_atomically(path, pieces);
}

}  // namespace wholestep::io
