#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace wholestep::io {

/// Writes scalars for TensorBoard: a new file `events.out.tfevents.<seconds>.<host>.<process>.<number>` in a folder, as
/// TensorBoard expects of each process; it shows all files of a folder as one run. Records are TFRecords of Event
/// messages, see docs/decisions/0010.
class EventFile {
 public:
  /// Makes the folder where it is missing. Throws `io_error`.
  explicit EventFile(const std::string& folder);
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;
  /// Flushes; what cannot be written then is lost.
  ~EventFile();

  const std::string& path() const;
  /// Says that a run goes on from a checkpoint with `step` as its next one: of what was written before, in this file or
  /// in older ones of the folder, TensorBoard then shows the values of earlier steps alone. Throws `io_error`.
  void restart_at(std::int64_t step);
  /// Adds values at a step, one chart per tag ("loss/train": charts are grouped by what stands before the slash).
  /// `wall_time`: seconds since 1970; negative stands for now. Throws `io_error`.
  void add(std::int64_t step, const std::vector<std::pair<std::string, double>>& values, double wall_time = -1);
  /// Hands everything to the system, where a TensorBoard that is running sees it. Throws `io_error`.
  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wholestep::io
