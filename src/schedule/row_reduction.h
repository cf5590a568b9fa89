#pragma once
// A reduction of which all lanes share the innermost axis.
#include "schedule/builder.h"

namespace wholestep::schedule {

/// The statements that reduce `stage` at one parallel point; `total` is then where its result is. Long sums of floats
/// are made in blocks. The order of additions depends on the extents and the lanes alone.
Block reduce_row(NestBuilder& builder, const loops::Stage& stage, NestBuilder::Substitution& with,
                 const std::vector<ExprId>& stage_results, ExprId& total);

}  // namespace wholestep::schedule
