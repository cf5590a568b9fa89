#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace wholestep::loops {

/// A loop variable: an axis of a kernel, or what a schedule split it into.
using Var = std::int32_t;

/// offset + sum of coefficient * variable; terms sorted by variable, no zero coefficients.
struct Affine {
  std::int64_t offset = 0;
  std::vector<std::pair<Var, std::int64_t>> terms;

  Affine() = default;
  Affine(std::int64_t constant) : offset(constant) {}
  static Affine of(Var var, std::int64_t coefficient = 1);

  bool is_constant() const { return terms.empty(); }
  std::int64_t coefficient(Var var) const;
  /// Replaces each variable for which `with` gives non-null.
  Affine substitute(const std::function<const Affine*(Var)>& with) const;
  bool operator==(const Affine&) const = default;
};

Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, std::int64_t factor);
/// "128*v3 + v4 + 7".
std::string to_string(const Affine& affine);

/// One affine per dimension of a tensor.
using Index = std::vector<Affine>;
/// Flat element index of `at` in a dense row-major tensor of `shape`.
Affine flatten(const Index& at, const std::vector<std::int64_t>& shape);

/// low <= value < high.
struct Guard {
  Affine value;
  std::int64_t low = 0, high = 0;
  bool operator==(const Guard&) const = default;
};

}  // namespace wholestep::loops
