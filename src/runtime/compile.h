#pragma once
// From a graph to a program, stage by stage.
#include <memory>
#include <string>
#include <vector>

#include "passes/passes.h"
#include "plan/plan.h"
#include "wholestep/device.h"
#include "wholestep/graph.h"
#include "wholestep/session.h"

namespace wholestep::runtime {

class Residents;

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
  passes::Report report;
  plan::Plan plan;
  std::vector<StageTime> stages;
};

/// Compiles `written` for `device`. With `shared`, which is on `device`, its parameters and states are there, and those
/// that it is the first to have are added. Throws as `verify`, `backend::open` and `Residents::add`.
std::unique_ptr<Program> compile(const Graph& written, const Device& device, const CompileOptions& options,
                                 Residents* shared = nullptr);

/// Where compiled code is kept on disk; empty where it is not (`options.disk_cache` off, or no folder known).
std::string cache_directory(const CompileOptions& options);

}  // namespace wholestep::runtime
