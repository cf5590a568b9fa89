#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "backend/backend.h"
#include "backend/reference/reference_backend.h"
#include "wholestep/error.h"

namespace wholestep::backend {
namespace {

constexpr const char* kDeviceNames[] = {"cpu", "reference"};

/// Folder of the library that holds this code; empty where the system does not say.
std::string own_folder() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&open), &info) || !info.dli_fname) return {};
  std::error_code error;
  const auto path = std::filesystem::absolute(info.dli_fname, error);
  return error ? std::string() : path.parent_path().string();
}

/// Where loadable parts are looked for, in order.
std::vector<std::string> search_folders() {
  std::vector<std::string> folders;
  const auto add = [&](std::string folder) {
    if (!folder.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  add(own_folder());
  add(WHOLESTEP_LIBRARY_DIR);
  if (const char* listed = std::getenv("WHOLESTEP_PLUGIN_PATH")) {
    std::string_view rest = listed;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      add(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return folders;
}

[[noreturn]] void unavailable(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::device_unavailable, fmt::format("device '{}' is not available: {}", name, why));
}

/// The part stays loaded until the process ends: objects that it made may live as long.
std::shared_ptr<Backend> load(const Device& device) {
  const std::string file = fmt::format("libwholestep_{}.so", device.name);
  std::vector<std::string> folders = search_folders();
  for (const std::string& folder : folders) {
    const auto path = std::filesystem::path(folder) / file;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) continue;
    void* part = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!part) {
      const char* reason = dlerror();
      unavailable(device.name, fmt::format("{} does not load: {}", path.string(), reason ? reason : "no reason given"));
    }
    const auto make = reinterpret_cast<OpenBackend>(dlsym(part, "wholestep_open_backend"));
    if (!make) unavailable(device.name, fmt::format("{} has no wholestep_open_backend", path.string()));
    std::shared_ptr<Backend> backend(make(kInterfaceVersion, device.threads));
    if (!backend)
      unavailable(device.name, fmt::format("{} is of another version (this is interface {}), or found no device",
                                           path.string(), kInterfaceVersion));
    return backend;
  }
  unavailable(device.name, fmt::format("{} is in none of {}", file, fmt::join(folders, ", ")));
}

struct Opened {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::shared_ptr<Backend>> backends;
};

/// Never destroyed: at exit, the statics of the loadable parts may be gone before these.
Opened& opened() {
  static auto* instance = new Opened;
  return *instance;
}

}  // namespace

std::shared_ptr<Backend> open(const Device& device) {
  const auto legal = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (device.name.empty() || !std::all_of(device.name.begin(), device.name.end(), legal))
    throw Error(ErrorCode::unknown_name, fmt::format("'{}' is not the name of a device; known are {}", device.name,
                                                     fmt::join(kDeviceNames, ", ")));
  if (device.threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device '{}': threads is {}, expected 0 (all cores) or more", device.name, device.threads));
  const bool reference = device.name == "reference";
  Opened& all = opened();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Backend>& backend = all.backends[{device.name, reference ? 1 : device.threads}];
  if (!backend) backend = reference ? reference::make_backend() : load(device);
  return backend;
}

bool same_memory(const Device& a, const Device& b) { return a.name == b.name; }

}  // namespace wholestep::backend

namespace wholestep {

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> infos;
  for (const char* name : backend::kDeviceNames) {
    try {
      infos.push_back(backend::open({name, 0})->info());
    } catch (const Error& error) {
      infos.push_back({name, false, error.what(), 0});
    }
  }
  return infos;
}

}  // namespace wholestep
