#pragma once
// Numbers from the JSON files of tests/data.
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace wholestep::testing {

inline nlohmann::json read_json(const std::string& name) {
  std::ifstream file(std::string(WHOLESTEP_TEST_DATA) + "/" + name);
  if (!file) throw std::runtime_error("cannot open " + name);
  return nlohmann::json::parse(file);
}

/// JSON has no infinities: they and NaN are strings.
inline double number(const nlohmann::json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

inline std::vector<double> numbers(const nlohmann::json& values) {
  std::vector<double> result;
  for (const nlohmann::json& value : values) result.push_back(number(value));
  return result;
}

}  // namespace wholestep::testing
