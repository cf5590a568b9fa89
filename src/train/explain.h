#pragma once
// The part of explain() on programs beside the one of a plain step: a line each.
#include <string>
#include <string_view>

#include "runtime/program.h"
#include "train/step_graph.h"

namespace wholestep::train {

/// Programs by name, and the memory of each. Those that trainers have are made when first needed.
class OtherPrograms {
 public:
  /// Does nothing for a program that is not there.
  void add(std::string_view name, const runtime::Program* program);
  /// A section of its own; empty where there is none.
  std::string text() const;

 private:
  std::string lines_;
};

// What a name ends with: " with refreshes 1, 2", " with curvatures"; nothing where there are none.
std::string with_refreshes(RefreshKinds refreshes);
std::string with_curvatures(bool curvatures);

}  // namespace wholestep::train
