#include "runtime/compile.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <list>
#include <mutex>
#include <typeinfo>

#include "backend/backend.h"
#include "passes/passes.h"
#include "runtime/fingerprint.h"
#include "runtime/index_bounds.h"
#include "runtime/program.h"

namespace wholestep::runtime {
namespace {

/// Runs `work` and appends its duration to `stages`.
template <class Work>
auto timed(std::vector<StageTime>& stages, const std::string& name, Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  stages.push_back({name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
  return result;
}

/// The buffers that a graph has in any case, for a backend that runs graphs.
plan::Plan plan_of_signature(const Graph& graph) {
  plan::Plan plan;
  plan.name = graph.name();
  const auto declare = [&](std::string_view op, plan::BufferRole role) {
    for (NodeId id : graph.nodes_of(op)) plan.buffers.push_back({role, graph.node(id).name, graph.node(id).type, id});
  };
  declare("input", plan::BufferRole::input);
  declare("param", plan::BufferRole::resident);
  declare("state", plan::BufferRole::resident);
  for (NodeId id : graph.outputs()) {
    plan.outputs.push_back(static_cast<int>(plan.buffers.size()));
    const std::string name = "output" + std::to_string(plan.outputs.size() - 1);
    plan.buffers.push_back({plan::BufferRole::output, name, graph.node(id).type, id});
  }
  return plan;
}

/// Every stage from a graph to a plan, in order. A backend that runs graphs gets the graph as written: what defines
/// the right result must not depend on the passes.
Lowered lower(const Graph& source, const backend::Backend& backend, const CompileOptions& options) {
  Lowered out{source, source, {}, {}, {}};
  if (backend.consumes() == backend::Consumes::plan) {
    for (const passes::Pass& pass : passes::pipeline()) {
      if (pass.widens && backend.target().multiplies_halves) continue;
      out.graph = timed(out.stages, pass.name, [&] { return pass.run(out.graph, out.report); });
      if (options.verify) verify(out.graph);
    }
    plan::PlanOptions how{.fuse = options.fusion, .target = backend.target()};
    if (!options.flush_subnormals) how.target.multiplies_pairs = false;
    out.plan = timed(out.stages, "plan", [&] { return plan::make_plan(out.graph, how); });
    if (options.verify) {
      for (const schedule::Nest& nest : out.plan.nests) schedule::verify(nest);
      plan::verify(out.plan);
    }
  } else {
    out.plan = plan_of_signature(out.graph);
  }
  out.plan.index_bounds = timed(out.stages, "index bounds", [&] { return index_bounds(source); });
  return out;
}

/// Names the file that holds `address`, with its size and time: code kept by another build is never taken for ours.
void add_build_of(Fingerprint& key, const void* address) {
  Dl_info where{};
  struct stat file{};
  if (!dladdr(address, &where) || !where.dli_fname || stat(where.dli_fname, &file) != 0) return;
  key.add(std::string_view(where.dli_fname));
  key.add(static_cast<std::uint64_t>(file.st_size));
  key.add(static_cast<std::uint64_t>(file.st_mtim.tv_sec));
  key.add(static_cast<std::uint64_t>(file.st_mtim.tv_nsec));
}

/// What a program is made from. Not the number of threads: they share the work of a plan when it runs.
std::string cache_key(const Graph& graph, const Device& device, const CompileOptions& options,
                      const backend::Backend& backend) {
  Fingerprint key;
  key.add(graph);
  key.add(std::string_view(device.name));
  key.add(std::string_view(backend.target().name));
  key.add(std::uint64_t{options.fusion} | std::uint64_t{options.fast_math} << 1 |
          std::uint64_t{options.flush_subnormals} << 2);
  static const char in_this_library = 0;
  add_build_of(key, &in_this_library);
  add_build_of(key, &typeid(backend));
  return key.hex();
}

/// The last few graphs that were lowered, most recent first.
class Cache {
 public:
  /// The entry of `key` if its graph is equal (a hash is not proof), else nullptr.
  std::shared_ptr<const Lowered> find(const std::string& key, const Graph& graph) {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first != key || !(entry->second->source == graph)) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entry->second;
    }
    return nullptr;
  }

  void insert(const std::string& key, std::shared_ptr<const Lowered> lowered) {
    const std::lock_guard lock(mutex_);
    entries_.emplace_front(key, std::move(lowered));
    if (entries_.size() > kEntries) entries_.pop_back();
  }

 private:
  static constexpr std::size_t kEntries = 32;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Lowered>>> entries_;
};

Cache& cache() {
  static Cache instance;
  return instance;
}

}  // namespace

std::string cache_directory(const CompileOptions& options) {
  if (!options.disk_cache) return {};
  if (!options.cache_dir.empty()) return options.cache_dir;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string own = variable("WHOLESTEP_CACHE_DIR"); !own.empty()) return own;
  // The XDG base directory specification ignores relative paths.
  if (const std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/wholestep";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/wholestep";
  return {};
}

std::unique_ptr<Program> compile(const Graph& written, const Device& device, const CompileOptions& options,
                                 Residents* shared) {
  const std::shared_ptr<backend::Backend> backend = backend::open(device);
  std::vector<StageTime> stages;
  timed(stages, "verify", [&] { return verify(written), 0; });
  if (written.outputs().empty() && written.updates().empty()) {
    throw Error(ErrorCode::no_outputs,
                fmt::format("graph '{}': nothing to compute: it has neither outputs nor updates; call set_outputs",
                            written.name()));
  }
  const Graph graph = timed(stages, "precision", [&] { return passes::apply_precision(written, options.precision); });

  const std::string key = timed(stages, "fingerprint", [&] { return cache_key(graph, device, options, *backend); });
  std::shared_ptr<const Lowered> lowered = cache().find(key, graph);
  const bool known = lowered != nullptr;
  if (!known) {
    lowered = std::make_shared<const Lowered>(lower(graph, *backend, options));
    cache().insert(key, lowered);
    stages.insert(stages.end(), lowered->stages.begin(), lowered->stages.end());
  }

  const backend::BuildOptions build{.fast_math = options.fast_math,
                                    .flush_subnormals = options.flush_subnormals,
                                    .cache_key = key,
                                    .cache_dir = cache_directory(options)};
  auto executable = timed(stages, "build", [&] { return backend->build(lowered->plan, lowered->graph, build); });
  return std::make_unique<Program>(device, backend, std::move(lowered), std::move(executable), std::move(stages),
                                   shared);
}

}  // namespace wholestep::runtime
