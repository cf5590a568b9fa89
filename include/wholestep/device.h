#pragma once
#include <string>
#include <vector>

namespace wholestep {

/// Where programs run. Its memory is the same whatever its threads.
struct Device {
  std::string name;  ///< "cpu", "reference"
  int threads = 0;   ///< CPU workers; 0: as many as cores this process may use

  static Device cpu(int threads = 0) { return {"cpu", threads}; }
  /// The slow, simple interpreter that defines what is right.
  static Device reference() { return {"reference", 1}; }
  bool operator==(const Device&) const = default;
};

/// What is known of a device.
struct DeviceInfo {
  std::string name;  ///< as in Device
  bool available = false;
  std::string description;  ///< processor and code path, or what is missing
  int threads = 1;
};

/// Every device that this version knows, available or not.
std::vector<DeviceInfo> devices();

}  // namespace wholestep
