#pragma once
// What a device supplies: buffers, a way to run plans, and a description of itself. It knows nothing of training.
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "wholestep/device.h"

namespace wholestep::backend {

/// Memory on a device. Shared between the programs that use it.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::size_t bytes() const = 0;
  /// Both throw `wrong_length` where `size` is not bytes().
  virtual void upload(const void* data, std::size_t size) = 0;
  virtual void download(void* data, std::size_t size) const = 0;
};

struct BuildOptions {
  bool fast_math = false;
  bool flush_subnormals = false;
  std::string cache_key;  // of graph and options; empty: do not cache
  std::string cache_dir;  // empty: memory only
};

/// A plan made runnable.
class Executable {
 public:
  virtual ~Executable() = default;
  /// Ties plan buffer `index` (input, resident or output) to device memory, until rebound.
  virtual void bind(int index, std::shared_ptr<DeviceBuffer> buffer) = 0;
  /// Ties plan buffer `index` (input or output) to host memory for the next run only. Devices with their own memory
  /// copy.
  virtual void bind_host(int index, void* data) = 0;
  /// Runs all phases. Everything must be bound.
  virtual void run() = 0;
  /// True if its code was found in memory or on disk rather than made.
  virtual bool from_cache() const { return false; }
  /// Lines for explain(): code size, cache hit, library calls.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Kinds of program a backend takes.
enum class Consumes { graph, plan };

class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;
  virtual Consumes consumes() const { return Consumes::plan; }
  virtual schedule::Target target() const = 0;
  virtual int threads() const { return 1; }
  virtual std::shared_ptr<DeviceBuffer> allocate(std::size_t bytes) = 0;  // zeroed, 64-byte aligned
  /// `graph` is what `plan` was made from (a backend that consumes graphs looks at it alone; `plan` then has buffers
  /// and outputs but no phases).
  virtual std::unique_ptr<Executable> build(const plan::Plan& plan, const Graph& graph,
                                            const BuildOptions& options) = 0;
};

/// The backend of a device, made on first use and shared: `libwholestep_<name>` for devices that are loadable parts.
/// Throws `device_unavailable` and says what is missing.
std::shared_ptr<Backend> open(const Device& device);
/// Whether memory of one device is memory of the other: it does not depend on the number of threads.
bool same_memory(const Device& a, const Device& b);

/// A loadable part exports this under the name `wholestep_open_backend`: `threads` 0 means all cores. Bumped with
/// every change of these classes.
inline constexpr int kInterfaceVersion = 1;
using OpenBackend = Backend* (*)(int interface_version, int threads);

}  // namespace wholestep::backend
