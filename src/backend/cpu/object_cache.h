#pragma once
// Object code on disk. A file that is not whole and ours is as good as none.
#include <optional>
#include <string>

namespace wholestep::cpu {

/// The object stored under `name` in `folder`; nothing where there is none, or where size or checksum are not those
/// written.
std::optional<std::string> read_object(const std::string& folder, const std::string& name);

/// Writes to a temporary file, then renames it. True where that succeeded; a folder that cannot be written is no error.
bool write_object(const std::string& folder, const std::string& name, const std::string& object);

}  // namespace wholestep::cpu
