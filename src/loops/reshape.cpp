#include "loops/fuse.h"

namespace wholestep::loops {
namespace {

// Calls `visit` for each pair of runs of dimensions, [to_begin, to_end) and [from_begin, from_end), of equal product.
// False as soon as `visit` is, or where an extent is zero.
bool for_each_group(const Shape& to, const Shape& from,
                    const std::function<bool(std::size_t, std::size_t, std::size_t, std::size_t)>& visit) {
  std::size_t t = 0, f = 0;
  while (t < to.size() || f < from.size()) {
    std::size_t t0 = t, f0 = f;
    std::int64_t a = t < to.size() ? to[t++] : 1;
    std::int64_t b = f < from.size() ? from[f++] : 1;
    if (a == 0 || b == 0) return false;
    while (a != b) {
      if (a < b) {
        if (t == to.size()) return false;
        a *= to[t++];
      } else {
        if (f == from.size()) return false;
        b *= from[f++];
      }
      if (a == 0 || b == 0) return false;
    }
    if (!visit(t0, t, f0, f)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::int64_t> squeeze(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (std::int64_t extent : shape)
    if (extent != 1) result.push_back(extent);
  return result;
}

bool reshape_is_affine(const Shape& to, const Shape& from) {
  return for_each_group(squeeze(to), squeeze(from),
                        [](std::size_t, std::size_t, std::size_t f0, std::size_t f1) { return f1 - f0 <= 1; });
}

Index reshape_index(const Index& at, const Shape& to, const Shape& from) {
  Index dense;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i] != 1) dense.push_back(at[i]);
  Shape to_dense = squeeze(to), from_dense = squeeze(from);
  Index squeezed(from_dense.size());
  for_each_group(to_dense, from_dense, [&](std::size_t t0, std::size_t t1, std::size_t f0, std::size_t f1) {
    Affine value;
    for (std::size_t t = t0; t < t1; ++t) value = value * to_dense[t] + dense[t];
    if (f1 > f0) squeezed[f0] = value;
    return true;
  });
  Index result;
  std::size_t next = 0;
  for (std::int64_t extent : from) result.push_back(extent == 1 ? Affine(0) : squeezed[next++]);
  return result;
}

}  // namespace wholestep::loops
