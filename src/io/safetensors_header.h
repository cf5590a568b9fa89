#pragma once
// The header of a safetensors file: JSON that says where each tensor's bytes are.
// Format: https://github.com/huggingface/safetensors, "Format".
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wholestep/types.h"

namespace wholestep::io {

/// Longest header that the format allows, in bytes.
inline constexpr std::uint64_t kMaxSafeTensorsHeader = 100'000'000;
/// The key that holds strings about the file instead of a tensor.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// One tensor of the header; its bytes are [begin, end) of what follows the header.
struct SafeTensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafeTensorsHeader {
  std::vector<SafeTensorsEntry> entries;  ///< in the order of the text
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Reads the text; no value in it is checked but for its kind. Throws `file_malformed` naming `path`, for text that
/// is not JSON or not of this form, and for a key that comes twice.
SafeTensorsHeader parse_safetensors_header(std::string_view text, const std::string& path);

/// "F32", ...
std::string_view safetensors_dtype(DType dtype);
/// The inverse. Throws `unsupported` for any other text, naming `path` and the tensor.
DType dtype_of_safetensors(const SafeTensorsEntry& entry, const std::string& path);

}  // namespace wholestep::io
