#pragma once
// What tests ask of the checkpoints that the command line writes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"
#include "wholestep/io.h"

namespace wholestep::test {

/// The object that `--json` prints last; an empty one, and a failure, where the command failed.
inline nlohmann::json result_of(const Finished& finished) {
  EXPECT_EQ(finished.status, 0) << finished.err;
  return finished.status == 0 ? nlohmann::json::parse(last_line(finished.out)) : nlohmann::json::object();
}

inline std::string steps_in(const std::string& path) {
  for (const auto& [key, value] : io::read_safetensors(path).metadata) {
    if (key == "steps") return value;
  }
  return "none";
}

/// Every tensor and every entry of the metadata.
inline void expect_same_checkpoint(const std::string& left, const std::string& right) {
  const io::SafeTensors a = io::read_safetensors(left);
  const io::SafeTensors b = io::read_safetensors(right);
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, value] : a.tensors) {
    const Array* other = find(b.tensors, name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_TRUE(value.same_bits(*other)) << name;
  }
}

}  // namespace wholestep::test
