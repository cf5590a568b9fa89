#include "schedule/builder.h"

namespace wholestep::schedule {

Nest schedule(const loops::Kernel& kernel, const Target& target) {
  NestBuilder builder(kernel, target);
  const bool tiled = kernel.form == loops::Form::contraction && schedule_contraction(builder, target);
  if (!tiled) schedule_loops(builder);
  verify(builder.nest);
  return std::move(builder.nest);
}

}  // namespace wholestep::schedule
