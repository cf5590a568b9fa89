#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/device.h"
#include "wholestep/graph.h"

namespace wholestep {

/// In which float type the f32 part of a graph is computed. Inputs, parameters, states, outputs and updates keep their
/// types: only what is between them changes. See docs/training.md.
enum class Precision {
  f32,         ///< as written
  mixed_bf16,  ///< matrix products and what follows from them element by element in bf16; the rest in f32
  mixed_f16,   ///< the same in f16, whose range needs loss scaling
  f16,         ///< everything in f16
};
/// "f32", "mixed_bf16", "mixed_f16", "f16".
std::string_view to_string(Precision precision);
/// The inverse; "mixed" is mixed_bf16. Throws `unknown_name` listing the names.
Precision precision_by_name(std::string_view name);

/// How a graph is compiled. The same graph, device and options give the same program.
struct CompileOptions {
  Precision precision = Precision::f32;  ///< applied to the graph as it is given, before anything else
  bool fusion = true;  ///< share kernels between ops; off, every op is its own kernel and gives the same bits
  bool fast_math =
      false;  ///< let multiply and add contract and divisions become reciprocals: other bits, same on every run
  /// Let float results below the normal range be zero, as XLA and GPUs do. Optimizer state decays through that range,
  /// where processors are many times slower. Off, they are kept. See docs/decisions/0006.
  bool flush_subnormals = true;
  bool disk_cache = true;      ///< keep compiled code in `cache_dir`
  std::string cache_dir = {};  ///< empty: $WHOLESTEP_CACHE_DIR, else $XDG_CACHE_HOME/wholestep, else ~/.cache/wholestep
  bool verify = false;         ///< check graph, kernels and plan after every pass
};

/// Bytes and counts of a compiled program.
struct ProgramStats {
  std::int64_t resident_bytes = 0;      ///< parameters and states
  std::int64_t scratch_bytes = 0;       ///< the arena
  std::int64_t largest_live_bytes = 0;  ///< the largest set of scratch values alive at once
  int kernels = 0;
  int phases = 0;
  int barriers = 0;
  double compile_ms = 0;
  bool from_cache = false;  ///< machine code came from memory or disk
};

namespace runtime {
class Program;
}

/// A graph made into a program on a device. Parameters and states start as zeros (constants where bound). Move-only.
/// Not for use by two threads at once.
class CompiledGraph {
 public:
  explicit CompiledGraph(std::unique_ptr<runtime::Program> program);
  CompiledGraph(CompiledGraph&&) noexcept;
  CompiledGraph& operator=(CompiledGraph&&) noexcept;
  ~CompiledGraph();

  /// Uploads a parameter or state. Throws `unknown_name`, `wrong_length`, `shape_mismatch`, `dtype_mismatch`; nothing
  /// is changed then.
  void set_param(const std::string& name, const ArrayView& data);
  /// Downloads a parameter or state. Throws `unknown_name`.
  Array get_param(const std::string& name) const;

  /// Runs and returns every output. Throws `missing_input`, `unknown_name`, `duplicate_name` (a value given twice),
  /// `wrong_length`, `shape_mismatch`, `dtype_mismatch`, `index_out_of_range`, `invalid_argument` (null or misaligned
  /// data, a boolean that is neither 0 nor 1, an input that is a handle), before anything has run.
  std::vector<Array> run(const Inputs& inputs);
  /// As `run`, but reads back only outputs `wanted`, in that order.
  std::vector<Array> run_read_outputs(const Inputs& inputs, const std::vector<int>& wanted);

  /// Turns input (or state, or parameter) `name` into a buffer that stays on the device, holding `data`; it is then no
  /// longer given to `run`. False where the device has no buffers. Throws as `set_param`, and `index_out_of_range`.
  bool bind_handle(const std::string& name, const ArrayView& data);
  /// After each run, output `output` becomes the value of handle `name` for the next run: an input's memory is swapped
  /// with the output's, a parameter's or state's is copied to. Throws `unknown_name` (no such handle),
  /// `shape_mismatch`, `dtype_mismatch`, `invalid_argument` (no such output, or the graph itself updates `name`).
  void set_handle_feed(const std::string& name, int output);
  /// Downloads a handle's current value. Throws `unknown_name`.
  Array read_handle(const std::string& name) const;

  /// This program reads and writes the parameters and states of `other` (those of equal name and type) in place of its
  /// own. Throws `device_unavailable` where the devices differ, `shape_mismatch`/`dtype_mismatch` for a name of another
  /// type.
  void share_state_of(const CompiledGraph& other);

  const Device& device() const;
  /// True if every parameter and state is in device memory that the program updates in place. False on the reference
  /// device, which passes values in and out of its interpreter.
  bool is_resident() const;
  const ProgramStats& stats() const;
  /// Types of the graph's inputs, by name.
  const std::vector<std::pair<std::string, TensorType>>& inputs() const;
  /// A report for people: ops that were decomposed, kernels and what was fused into them, calls to libraries, phases,
  /// buffers, bytes, what is read back, decisions.
  std::string explain() const;

 private:
  std::unique_ptr<runtime::Program> program_;
};

/// The number below which every element of input `input` must stay since the graph uses them as indices (labels, rows
/// of a table), directly or through ops that only move them; none where it does not.
std::optional<std::int64_t> index_bound(const Graph& graph, const std::string& input);

/// Compiles graphs for one device.
class Session {
 public:
  /// Throws `device_unavailable` where the device's backend cannot be loaded, and says what is missing.
  explicit Session(Device device);
  /// Throws `invalid_graph`, `no_outputs` (neither outputs nor updates), and what the device cannot do. Compiling an
  /// equal graph with equal options again reuses plan and code, never memory.
  CompiledGraph compile(const Graph& graph, const CompileOptions& options = {}) const;
  const Device& device() const { return device_; }

 private:
  Device device_;
};

}  // namespace wholestep
