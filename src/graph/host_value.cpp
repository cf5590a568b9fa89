#include <fmt/format.h>

#include <new>

#include "core/memory.h"
#include "graph/op.h"

namespace wholestep {

HostValue::HostValue(TensorType of) : type(std::move(of)) {
  const auto elements = static_cast<std::size_t>(num_elements(type.shape));
  try {
    if (elements > kMostBytes / sizeof(double)) throw std::bad_alloc();
    if (is_float(type.dtype))
      real.resize(elements);
    else
      integer.resize(elements);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::invalid_argument, fmt::format("no memory for the value of {}", to_string(type)));
  }
}

}  // namespace wholestep
