#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wholestep/optim.h"

namespace wholestep {
namespace {

template <class Options>
Optimizer make(double lr) {
  Options options;
  if (!(lr < 0)) options.lr = lr;  // NaN too: the rule refuses it
  return options;
}

struct Entry {
  const char* name;
  Optimizer (*make)(double lr);
};

constexpr Entry kOptimizers[] = {{"sgd", make<SGD>}, {"adam", make<Adam>}, {"adamw", make<AdamW>}};

}  // namespace

Optimizer optimizer_by_name(const std::string& name, double lr) {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) {
    if (name == entry.name) return entry.make(lr);
    names.push_back(entry.name);
  }
  throw Error(ErrorCode::unknown_name,
              fmt::format("no optimizer is called \"{}\"; known: {}", name, fmt::join(names, ", ")));
}

}  // namespace wholestep
