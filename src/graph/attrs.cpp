#include <fmt/format.h>

#include <bit>

#include "wholestep/graph.h"

namespace wholestep {
namespace {

bool same_value(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* real = std::get_if<double>(&a))
    return std::bit_cast<std::uint64_t>(*real) == std::bit_cast<std::uint64_t>(std::get<double>(b));
  if (const auto* literal = std::get_if<Literal>(&a)) {
    const Literal& other = std::get<Literal>(b);
    return *literal == other || (*literal && other && (*literal)->same_bits(*other));
  }
  return a == b;
}

}  // namespace

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items_)
    if (key == name) return &value;
  return nullptr;
}

void Attrs::set(std::string name, AttrValue value) {
  for (auto& [key, old] : items_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  items_.emplace_back(std::move(name), std::move(value));
}

bool Attrs::operator==(const Attrs& other) const {
  if (items_.size() != other.items_.size()) return false;
  for (const auto& [key, value] : items_) {
    const AttrValue* theirs = other.find(key);
    if (!theirs || !same_value(value, *theirs)) return false;
  }
  return true;
}

void Attrs::missing(std::string_view name) {
  throw Error(ErrorCode::invalid_graph, fmt::format("attribute '{}' is missing or of another type", name));
}

}  // namespace wholestep
