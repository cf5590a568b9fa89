#include "finite.h"

#include <fmt/format.h>

#include <cmath>

#include "core/convert.h"
#include "wholestep/error.h"

namespace wholestep::cli {

std::optional<NotFinite> find_not_finite(const NamedArrays& arrays) {
  for (const auto& [name, values] : arrays) {
    for (const double value : values.to_doubles()) {
      if (!std::isfinite(value)) return NotFinite{name, value};
    }
  }
  return std::nullopt;
}

void check_finite(const std::string& path, const NamedArrays& arrays, const std::string& before) {
  if (const auto found = find_not_finite(arrays)) {
    throw Error(ErrorCode::non_finite,
                fmt::format("{}: tensor \"{}{}\" holds {}", path, before, found->name, number_text(found->value)));
  }
}

}  // namespace wholestep::cli
