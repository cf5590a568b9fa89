#pragma once
// How an `Init` is written into the attributes of a parameter; `init_of` reads it back.
#include <string>

#include "wholestep/graph.h"

namespace wholestep {

/// Sets "init" (the kind's name), "a" and "b". Throws `invalid_argument` naming the parameter, where `init` is out of
/// range.
void add_init(const std::string& param, const Init& init, Attrs& attrs);

}  // namespace wholestep
