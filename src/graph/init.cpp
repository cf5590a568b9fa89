#include "graph/init.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace wholestep {
namespace {

constexpr std::array<std::pair<Init::Kind, std::string_view>, 5> kKinds{{{Init::Kind::zeros, "zeros"},
                                                                         {Init::Kind::ones, "ones"},
                                                                         {Init::Kind::constant, "constant"},
                                                                         {Init::Kind::uniform, "uniform"},
                                                                         {Init::Kind::normal, "normal"}}};

/// Why the numbers of `init` are no distribution; empty where they are.
std::string fault(const Init& init) {
  const bool finite = std::isfinite(init.a) && std::isfinite(init.b);
  if (init.kind == Init::Kind::uniform && !(finite && init.a <= init.b))
    return fmt::format("uniform init needs finite low <= high, got {} and {}", init.a, init.b);
  if (init.kind == Init::Kind::normal && !(finite && init.b >= 0))
    return fmt::format("normal init needs a finite mean and a finite stddev >= 0, got {} and {}", init.a, init.b);
  return {};
}

}  // namespace

void add_init(const std::string& param, const Init& init, Attrs& attrs) {
  const std::string wrong = fault(init);
  if (!wrong.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("param '{}': {}", param, wrong));
  for (const auto& [kind, name] : kKinds)
    if (kind == init.kind) attrs.set("init", std::string(name));
  attrs.set("a", init.a);
  attrs.set("b", init.b);
}

Init init_of(const Node& param) {
  const std::string& given = param.attrs.get<std::string>("init");
  for (const auto& [kind, name] : kKinds) {
    if (name != given) continue;
    const Init init{kind, param.attrs.get<double>("a"), param.attrs.get<double>("b")};
    const std::string wrong = fault(init);
    if (!wrong.empty()) throw Error(ErrorCode::invalid_graph, fmt::format("param '{}': {}", param.name, wrong));
    return init;
  }
  throw Error(
      ErrorCode::invalid_graph,
      fmt::format("param '{}': init \"{}\" is not zeros, ones, constant, uniform or normal", param.name, given));
}

}  // namespace wholestep
