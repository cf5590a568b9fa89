#include "train/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "train/state.h"
#include "train/validate.h"

namespace wholestep {
namespace train {

void OtherPrograms::add(std::string_view name, const runtime::Program* program) {
  if (!program) return;
  const ProgramStats& stats = program->stats();
  lines_ += fmt::format("  {}: {} bytes resident, {} scratch\n", name, stats.resident_bytes, stats.scratch_bytes);
}

std::string OtherPrograms::text() const {
  return lines_.empty() ? "" : "other programs, on the same parameters and states\n" + lines_;
}

std::string with_refreshes(RefreshKinds refreshes) {
  std::vector<int> kinds;
  for (int kind = 1; refreshes != 0; ++kind, refreshes >>= 1) {
    if (refreshes & 1) kinds.push_back(kind);
  }
  if (kinds.empty()) return {};
  return fmt::format(" with refresh{} {}", kinds.size() > 1 ? "es" : "", fmt::join(kinds, ", "));
}

std::string with_curvatures(bool curvatures) { return curvatures ? " with curvatures" : ""; }

}  // namespace train

namespace {

// What tells the programs of a further specialisation from those of the first.
std::string of_inputs(const train::Specialisation& program) {
  std::vector<std::string> words;
  for (const auto& [name, type] : program.inputs) words.push_back(fmt::format("\"{}\" {}", name, to_string(type)));
  return fmt::format(" of {}", fmt::join(words, ", "));
}

std::string with_weights(std::size_t weights) {
  return static_cast<Weights>(weights) == Weights::average ? " with averages" : "";
}

}  // namespace

std::string ResidentTrainer::State::explain() {
  const train::Specialisation& first = *programs.front();
  const runtime::Program& step = step_of(*programs.front());
  train::OtherPrograms others;
  for (const auto& made : programs) {
    const std::string of = made.get() == &first ? "" : of_inputs(*made);
    for (const auto& [refreshes, program] : made->steps) {
      if (program.get() != &step) others.add("step" + train::with_refreshes(refreshes) + of, program.get());
    }
    for (std::size_t i = 0; i < made->accumulate.size(); ++i) {
      others.add("accumulate" + train::with_curvatures(i != 0) + of, made->accumulate[i].get());
    }
    for (std::size_t i = 0; i < made->evaluate.size(); ++i) {
      others.add("evaluation" + with_weights(i) + of, made->evaluate[i].get());
      others.add("summed evaluation" + with_weights(i) + of, made->evaluate_sums[i].get());
    }
  }
  for (const auto& [refreshes, program] : updates_by_sums) {
    others.add("update by sums" + train::with_refreshes(refreshes), program.get());
  }
  std::string on_datasets;
  for (const auto& [refreshes, sizes] : dataset_steps) {
    for (const auto& made : sizes) {
      const std::string name = fmt::format("on datasets, {} rows a step", made->rows.size());
      if (refreshes == 0) {
        on_datasets += fmt::format("\n{}\n{}", name, made->program->explain());
      } else {
        others.add(name + train::with_refreshes(refreshes), made->program.get());
      }
    }
  }
  for (std::size_t i = 0; i < dataset_evaluations.size(); ++i) {
    for (const auto& made : dataset_evaluations[i]) {
      others.add(fmt::format("evaluation{} on datasets, {} rows a run", with_weights(i), made->rows.size()),
                 made->program.get());
    }
  }
  return fmt::format("trains {} parameters with {}{}\n{}{}{}", names().size(), optimizer->name(),
                     train::describe(update), step.explain(), others.text(), on_datasets);
}

std::string ResidentTrainer::explain() const { return state_->explain(); }

}  // namespace wholestep
