#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace wholestep::cli {

/// The value, or null where there is none.
template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// `object` on one line, without what follows; bytes that are no UTF-8, as names of files may hold, become U+FFFD.
inline std::string one_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace wholestep::cli
