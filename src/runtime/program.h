#pragma once
// A compiled graph with its memory: checks what comes in, binds it, runs, and hands back what was asked for.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "runtime/compile.h"
#include "runtime/residents.h"
#include "wholestep/session.h"

namespace wholestep::runtime {

/// What `CompiledGraph` holds; its functions mean what they mean there. Besides, what the trainers need: values read
/// from fixed addresses, and checks apart from runs.
class Program {
 public:
  /// Parameters and states are zeros of its own, or in `shared`, which takes those that it does not have.
  Program(Device device, std::shared_ptr<backend::Backend> backend, std::shared_ptr<const Lowered> lowered,
          std::unique_ptr<backend::Executable> executable, std::vector<StageTime> stages, Residents* shared);

  const Device& device() const { return device_; }
  bool is_resident() const;
  const ProgramStats& stats() const { return stats_; }
  const std::vector<std::pair<std::string, TensorType>>& inputs() const { return signature_; }
  std::string explain() const;

  Residents& residents() { return residents_; }
  const Residents& residents() const { return residents_; }
  void share_state_of(const Program& other);

  bool bind_handle(const std::string& name, const ArrayView& data);
  void set_handle_feed(const std::string& name, int output);
  Array read_handle(const std::string& name) const;

  /// Input `name` is from now on read at `data`, which must hold a value of its type at every run; it is no longer
  /// given to `run`. What changes each step in a way that the caller does not see is passed so.
  void attach(const std::string& name, const void* data);

  /// Input `name` is from now on read from `memory`, which has its size and, where the input holds indices, none out of
  /// range; it is no longer given to `run`.
  void bind_memory(const std::string& name, std::shared_ptr<backend::DeviceBuffer> memory);

  /// True if `inputs` are exactly the inputs of this program, by name and type (values are not looked at).
  bool accepts(const Inputs& inputs);
  /// Throws what `run` would throw for `inputs`.
  void check(const Inputs& inputs);
  std::vector<Array> run(const Inputs& inputs, const std::vector<int>& wanted);
  std::vector<Array> run(const Inputs& inputs) { return run(inputs, every_output_); }

 private:
  struct Input {
    std::string name;
    std::string label;  // for messages
    TensorType type;
    int buffer;
    std::optional<std::int64_t> bound;              // elements are indices below it
    std::shared_ptr<backend::DeviceBuffer> handle;  // set: lives on the device
    const void* attached = nullptr;                 // set: read here at each run
    const void* given = nullptr;                    // address in this run
    bool expected() const { return !handle && !attached; }
  };
  // Memory that the program writes for outputs; two outputs that are one value share it.
  struct OutputBuffer {
    int buffer;
    std::size_t bytes;
    std::shared_ptr<backend::DeviceBuffer> memory;  // takes what is not read back, and what feeds a handle
    bool bound = false;                             // to `memory`
    bool feeds = false;
    int reader = -1;  // position in `wanted` of the array that it writes in this run
  };
  struct Output {
    TensorType type;
    std::size_t memory;  // in output_buffers_
  };
  struct Feed {
    std::string name;
    std::size_t memory;  // in output_buffers_
    bool swaps = false;  // the handle and the output exchange memory; else the value is copied
  };

  Input* find_input(std::string_view name);
  const Input* find_input(std::string_view name) const;
  void make_inputs();
  void make_residents(Residents* shared);
  /// Ties what the program has to its memory.
  void bind_residents();
  void make_outputs();
  void make_stats();
  void expect_remaining_inputs();
  /// The input that the `position`-th given value is for, or nullptr.
  Input* match(std::size_t position, std::string_view name);
  [[noreturn]] void refuse_name(std::string_view name) const;
  void check_wanted(const std::vector<int>& wanted) const;
  void bind_inputs();
  std::vector<Array> bind_outputs(const std::vector<int>& wanted);
  void bind_to_memory(OutputBuffer& output);
  void collect(const std::vector<int>& wanted, std::vector<Array>& results) const;
  void feed_handles();

  Device device_;
  std::shared_ptr<backend::Backend> backend_;
  std::shared_ptr<const Lowered> lowered_;
  std::unique_ptr<backend::Executable> executable_;
  std::vector<StageTime> stages_;
  ProgramStats stats_;

  std::vector<Input> inputs_;
  std::unordered_map<std::string_view, std::size_t> input_index_;  // views of the names above
  Residents residents_;
  std::vector<OutputBuffer> output_buffers_;
  std::vector<Output> outputs_;
  std::vector<int> every_output_;
  std::vector<std::size_t> expected_;  // inputs that a run must be given, in order
  std::vector<Feed> feeds_;
  std::vector<std::pair<std::string, TensorType>> signature_;
};

}  // namespace wholestep::runtime
