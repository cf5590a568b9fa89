#pragma once
#include <string>
#include <utility>
#include <vector>

#include "wholestep/array.h"

namespace wholestep::io {

/// A safetensors file: tensors by name, and its `__metadata__` strings.
struct SafeTensors {
  NamedArrays tensors;
  std::vector<std::pair<std::string, std::string>> metadata;
};

/// Reads a whole safetensors file. Every size, offset and name is checked before anything is allocated by it.
/// Throws `file_not_found`, `io_error`, `file_truncated`, `file_malformed`, `unsupported` (a dtype that wholestep has
/// not).
SafeTensors read_safetensors(const std::string& path);

/// Writes atomically: temporary file in the same folder, fsync, rename, fsync of the folder. On any failure the old
/// file stays and the temporary is removed. Throws `io_error` with the system's reason; `duplicate_name`.
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, ArrayView>>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata = {});

/// Reads an IDX file (the format of MNIST), plain or gzip-compressed, of unsigned bytes, i32, f32 or f64.
/// Throws `file_not_found`, `io_error`, `file_truncated`, `file_malformed`, `unsupported` (an element type that
/// wholestep has not).
Array read_idx(const std::string& path);

/// Replaces the content of `path` atomically, as write_safetensors does. Throws `io_error`.
void write_file_atomically(const std::string& path, const std::vector<std::pair<const void*, std::size_t>>& pieces);

}  // namespace wholestep::io
