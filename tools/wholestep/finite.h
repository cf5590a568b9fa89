#pragma once
#include <optional>
#include <string>

#include "wholestep/array.h"

namespace wholestep::cli {

/// The first value that is NaN or infinite, and of what; none where all are finite.
struct NotFinite {
  std::string name;
  double value;
};
std::optional<NotFinite> find_not_finite(const NamedArrays& arrays);

/// Throws `non_finite` where the file at `path` gave such a value; `before` stands before the names there.
void check_finite(const std::string& path, const NamedArrays& arrays, const std::string& before = "");

}  // namespace wholestep::cli
