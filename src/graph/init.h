#pragma once
// How an `Init` is written into the attributes of a parameter; `init_of` reads it back.
#include <string>

#include "wholestep/graph.h"

namespace wholestep {

/// Sets "init" (the kind's name), "a" and "b". Throws `invalid_argument` naming the parameter, where `init` is out of
/// range or needs another rank.
void add_init(const std::string& param, const Shape& shape, const Init& init, Attrs& attrs);

/// The fans of a parameter of rank >= 2: extents of a matrix [in, out], else those of a kernel [out, in, spatial...].
struct Fans {
  double in = 0, out = 0;
};
Fans fans_of(const Shape& shape);

}  // namespace wholestep
