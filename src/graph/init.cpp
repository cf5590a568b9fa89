#include "graph/init.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/convert.h"

namespace wholestep {
namespace {

using Kind = Init::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 11> kKinds{{{Kind::zeros, "zeros"},
                                                                    {Kind::ones, "ones"},
                                                                    {Kind::constant, "constant"},
                                                                    {Kind::uniform, "uniform"},
                                                                    {Kind::normal, "normal"},
                                                                    {Kind::truncated_normal, "truncated_normal"},
                                                                    {Kind::xavier_uniform, "xavier_uniform"},
                                                                    {Kind::xavier_normal, "xavier_normal"},
                                                                    {Kind::kaiming_uniform, "kaiming_uniform"},
                                                                    {Kind::kaiming_normal, "kaiming_normal"},
                                                                    {Kind::orthogonal, "orthogonal"}}};

std::string_view name_of(Kind kind) {
  return std::ranges::find(kKinds, kind, &decltype(kKinds)::value_type::first)->second;
}

/// Why `init` says nothing for a parameter of `shape`; empty where it does.
std::string fault(const Init& init, const Shape& shape) {
  const bool finite = std::isfinite(init.a) && std::isfinite(init.b);
  switch (init.kind) {
    case Kind::zeros:
    case Kind::ones:
      return {};
    case Kind::constant:
      if (finite) return {};
      return fmt::format("constant init needs a finite value, got {}", number_text(init.a));
    case Kind::uniform:
      if (finite && init.a <= init.b) return {};
      return fmt::format("uniform init needs finite low <= high, got {} and {}", number_text(init.a),
                         number_text(init.b));
    case Kind::normal:
    case Kind::truncated_normal:
      if (finite && init.b >= 0) return {};
      return fmt::format("{} init needs a finite mean and a finite stddev >= 0, got {} and {}", name_of(init.kind),
                         number_text(init.a), number_text(init.b));
    default:
      break;
  }
  if (!finite || init.a < 0) {
    return fmt::format("{} init needs a finite gain >= 0, got {}", name_of(init.kind), number_text(init.a));
  }
  if (init.b != 0 && init.b != 1)
    return fmt::format("{} init needs fan 0 or 1, got {}", name_of(init.kind), number_text(init.b));
  if (shape.size() >= 2) return {};
  return fmt::format("{} init needs a rank of at least 2, got shape {}", name_of(init.kind), to_string(shape));
}

}  // namespace

Fans fans_of(const Shape& shape) {
  if (shape.size() == 2) return {static_cast<double>(shape[0]), static_cast<double>(shape[1])};
  double spatial = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) spatial *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * spatial, static_cast<double>(shape[0]) * spatial};
}

void add_init(const std::string& param, const Shape& shape, const Init& init, Attrs& attrs) {
  const std::string wrong = fault(init, shape);
  if (!wrong.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("param '{}': {}", param, wrong));
  attrs.set("init", std::string(name_of(init.kind)));
  attrs.set("a", init.a);
  attrs.set("b", init.b);
}

Init init_of(const Node& param) {
  const std::string& given = param.attrs.get<std::string>("init");
  const auto known = std::ranges::find(kKinds, given, &decltype(kKinds)::value_type::second);
  if (known == kKinds.end()) {
    std::vector<std::string_view> names;
    for (const auto& [kind, name] : kKinds) names.push_back(name);
    throw Error(ErrorCode::invalid_graph,
                fmt::format("param '{}': init \"{}\" is none of {}", param.name, given, fmt::join(names, ", ")));
  }
  const Init init{known->first, param.attrs.get<double>("a"), param.attrs.get<double>("b")};
  const std::string wrong = fault(init, param.type.shape);
  if (!wrong.empty()) throw Error(ErrorCode::invalid_graph, fmt::format("param '{}': {}", param.name, wrong));
  return init;
}

}  // namespace wholestep
