#include "backend/cpu/object_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "backend/cpu/fingerprint.h"

namespace wholestep::cpu {
namespace {

constexpr char kMagic[8] = {'w', 's', 'o', 'b', 'j', '0', '0', '1'};

struct Header {
  char magic[8];
  std::uint64_t name;      // checksum of the name
  std::uint64_t length;    // of the object
  std::uint64_t checksum;  // of the object
};

Header header_of(const std::string& name, const std::string& object) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.name = hash_bytes(name.data(), name.size());
  header.length = object.size();
  header.checksum = hash_bytes(object.data(), object.size());
  return header;
}

std::filesystem::path path_of(const std::string& folder, const std::string& name) {
  return std::filesystem::path(folder) / (name + ".wsobj");
}

bool write_all(int file, const void* data, std::size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(file, bytes, size);
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

std::optional<std::string> read_object(const std::string& folder, const std::string& name) {
  std::error_code error;
  const std::filesystem::path path = path_of(folder, name);
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  Header found{};
  if (error || size < sizeof found) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&found), sizeof found)) return std::nullopt;
  if (found.length != size - sizeof found) return std::nullopt;
  std::string object(found.length, '\0');
  if (!file.read(object.data(), static_cast<std::streamsize>(object.size()))) return std::nullopt;
  const Header expected = header_of(name, object);
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  return object;
}

bool write_object(const std::string& folder, const std::string& name, const std::string& object) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return false;
  const std::filesystem::path path = path_of(folder, name);
  std::string temporary = path.string() + ".XXXXXX";
  const int file = mkstemp(temporary.data());
  if (file < 0) return false;
  const Header header = header_of(name, object);
  bool whole = write_all(file, &header, sizeof header) && write_all(file, object.data(), object.size());
  whole = ::close(file) == 0 && whole;
  if (whole) std::filesystem::rename(temporary, path, error);
  if (!whole || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    return false;
  }
  return true;
}

}  // namespace wholestep::cpu
