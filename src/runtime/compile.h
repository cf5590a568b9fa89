#pragma once
// From a graph to a program, stage by stage.
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "wholestep/device.h"
#include "wholestep/graph.h"
#include "wholestep/session.h"

namespace wholestep::runtime {

/// How long one stage of compiling took.
struct StageTime {
  std::string name;
  double ms = 0;
};

/// What compiling makes of a graph before a backend turns it into code. Never changed afterwards, so that equal
/// compiles share one.
struct Lowered {
  Graph source;  // as written, with the precision asked for
  Graph graph;   // what the plan was made from
  plan::Plan plan;
  std::vector<StageTime> stages;
};

/// Compiles `written` for `device`. With `share`, the program reads and writes the parameters and states of that one
/// (those of equal name and type) from the start, as `CompiledGraph::share_state_of` would make it. Throws as
/// `verify`, `backend::open` and `CompiledGraph::share_state_of`.
std::unique_ptr<Program> compile(const Graph& written, const Device& device, const CompileOptions& options,
                                 const Program* share = nullptr);

/// Where compiled code is kept on disk; empty where it is not (`options.disk_cache` off, or no folder known).
std::string cache_directory(const CompileOptions& options);

}  // namespace wholestep::runtime
