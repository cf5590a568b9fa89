#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "wholestep/device.h"
#include "wholestep/error.h"

namespace wholestep {

inline void PrintTo(const Device& device, std::ostream* out) { *out << device.name; }

}  // namespace wholestep

namespace wholestep::testing {

/// The devices of this build: the reference interpreter, and the CPU where its part was built.
inline std::vector<Device> built_devices() {
  std::vector<Device> devices{Device::reference()};
  if (std::filesystem::exists(std::string(WHOLESTEP_BUILD_DIR) + "/libwholestep_cpu.so")) {
    devices.push_back(Device::cpu(2));
  }
  return devices;
}

/// A test that runs on each of them.
class OnEachDevice : public ::testing::TestWithParam<Device> {};

inline std::string device_name(const ::testing::TestParamInfo<Device>& info) { return info.param.name; }

/// Runs `work`, which must throw an Error of `code` whose message contains each of `parts`.
template <class Work>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, Work&& work) {
  try {
    work();
    ADD_FAILURE() << "expected " << to_string(code) << ", nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "no \"" << part << "\" in: " << error.what();
    }
  }
}

}  // namespace wholestep::testing
