#include "expr/affine.h"

#include <fmt/format.h>

#include <algorithm>

namespace wholestep::loops {

Affine Affine::of(Var var, std::int64_t coefficient) {
  Affine result;
  if (coefficient != 0) result.terms.emplace_back(var, coefficient);
  return result;
}

std::int64_t Affine::coefficient(Var var) const {
  const auto at = std::lower_bound(terms.begin(), terms.end(), var,
                                   [](const auto& term, Var wanted) { return term.first < wanted; });
  return at != terms.end() && at->first == var ? at->second : 0;
}

Affine Affine::substitute(const std::function<const Affine*(Var)>& with) const {
  Affine result(offset);
  for (const auto& [var, coefficient] : terms) {
    const Affine* value = with(var);
    result = result + (value ? *value * coefficient : Affine::of(var, coefficient));
  }
  return result;
}

Affine operator+(const Affine& a, const Affine& b) {
  Affine result(a.offset + b.offset);
  result.terms.reserve(a.terms.size() + b.terms.size());
  auto i = a.terms.begin();
  auto j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() || (i != a.terms.end() && i->first < j->first)) {
      result.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->first < i->first) {
      result.terms.push_back(*j++);
    } else {
      if (i->second + j->second != 0) result.terms.emplace_back(i->first, i->second + j->second);
      ++i;
      ++j;
    }
  }
  return result;
}

Affine operator-(const Affine& a, const Affine& b) { return a + b * -1; }

Affine operator*(const Affine& a, std::int64_t factor) {
  if (factor == 0) return {};
  Affine result(a.offset * factor);
  result.terms = a.terms;
  for (auto& term : result.terms) term.second *= factor;
  return result;
}

std::string to_string(const Affine& affine) {
  std::string text;
  for (const auto& [var, coefficient] : affine.terms) {
    const std::int64_t size = coefficient < 0 ? -coefficient : coefficient;
    text += text.empty() ? (coefficient < 0 ? "-" : "") : (coefficient < 0 ? " - " : " + ");
    text += size == 1 ? fmt::format("v{}", var) : fmt::format("{}*v{}", size, var);
  }
  if (text.empty()) return fmt::format("{}", affine.offset);
  if (affine.offset > 0) text += fmt::format(" + {}", affine.offset);
  if (affine.offset < 0) text += fmt::format(" - {}", -affine.offset);
  return text;
}

Affine flatten(const Index& at, const std::vector<std::int64_t>& shape) {
  Affine flat;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    flat = flat + at[i] * stride;
    stride *= shape[i];
  }
  return flat;
}

}  // namespace wholestep::loops
