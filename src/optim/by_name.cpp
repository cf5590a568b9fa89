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

// The rest's learning rate keeps its ratio to that of the matrices.
template <>
Optimizer make<Muon>(double lr) {
  Muon options;
  if (!(lr < 0)) {
    options.rest.lr *= lr / options.lr;
    options.lr = lr;
  }
  return options;
}

struct Entry {
  const char* name;
  Optimizer (*make)(double lr);
};

constexpr Entry kOptimizers[] = {
    {"sgd", make<SGD>},       {"adam", make<Adam>},           {"adamw", make<AdamW>},
    {"nadamw", make<NAdamW>}, {"radam", make<RAdam>},         {"qhadamw", make<QHAdamW>},
    {"lamb", make<LAMB>},     {"adafactor", make<Adafactor>}, {"lion", make<Lion>},
    {"soap", make<SOAP>},     {"kron", make<Kron>},           {"muon", make<Muon>},
    {"sophia", make<Sophia>}, {"mars", make<MARS>},           {"schedule_free_adamw", make<ScheduleFree>},
};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kOptimizers) names.emplace_back(entry.name);
  return names;
}

Optimizer optimizer_by_name(const std::string& name, double lr) {
  for (const Entry& entry : kOptimizers) {
    if (name == entry.name) return entry.make(lr);
  }
  throw Error(ErrorCode::unknown_name,
              fmt::format("no optimizer is called \"{}\"; known: {}", name, fmt::join(optimizer_names(), ", ")));
}

}  // namespace wholestep
