#pragma once
// A plan: every kernel in its phase, every buffer in its place. What an executable is built from.
#include <string>
#include <vector>

#include "schedule/nest.h"
#include "wholestep/graph.h"

namespace wholestep::plan {

enum class BufferRole {
  input,     // given at each run
  resident,  // parameter or state: lives between runs
  constant,  // known at compile time
  output,    // read back when asked for
  scratch,   // inside the arena
};

struct Buffer {
  BufferRole role;
  std::string name;  // input, resident: as in the graph; output: "output0", ...
  TensorType type;
  NodeId value = -1;               // graph node whose value this is
  std::int64_t arena_offset = -1;  // scratch: bytes, 64-aligned
  Literal literal;                 // constant
};

/// One kernel and the buffers it touches, in the order of nest.buffers (task-local ones excepted).
struct Launch {
  int nest;
  std::vector<int> buffers;
};

/// Kernels that may run at the same time. A barrier follows, unless `serial` here and in the next phase.
struct Phase {
  std::vector<Launch> launches;
  bool serial = false;  // so little work that one worker does it all
};

/// A value checked against [0, bound) before a run.
struct IndexBound {
  std::string input;
  std::int64_t bound;
};

struct Plan {
  std::string name;
  Graph graph{"plan"};  // whose nodes the buffers and nests name
  std::vector<Buffer> buffers;
  std::vector<schedule::Nest> nests;
  std::vector<Phase> phases;
  std::vector<int> outputs;  // buffer of each graph output
  std::int64_t arena_bytes = 0;
  std::int64_t largest_live_bytes = 0;  // lower bound of the arena: the largest set of scratch alive in one phase
  std::vector<IndexBound> index_bounds;
  std::vector<std::string> notes;  // decisions worth telling: copies made, updates in place, decompositions

  int barriers() const;
};

std::string to_text(const Plan& plan);
void verify(const Plan& plan);

struct PlanOptions {
  bool fuse = true;
  schedule::Target target;
  double serial_below_ns = 2000;  // a phase cheaper than this is left to one worker
  double late_below_ns = 20000;   // a kernel cheaper than this, on which nothing waits, is left to the last phase
};

/// `graph`: primitives only. Fuses, schedules and places. `index_bounds` stays empty: decomposition hides what it
/// needs.
Plan make_plan(const Graph& graph, const PlanOptions& options);

}  // namespace wholestep::plan
