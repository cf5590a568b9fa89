#include "backend/cpu/jit.h"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>

#include <cstring>
#include <optional>
#include <unordered_map>

#include "backend/cpu/compile.h"
#include "backend/cpu/fingerprint.h"
#include "backend/cpu/libm.h"
#include "backend/cpu/object_cache.h"
#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

constexpr std::size_t kRememberedPrograms = 32;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::internal, "cpu: " + what); }

void check(llvm::Error error, const char* what) {
  if (error) fail(fmt::format("{}: {}", what, llvm::toString(std::move(error))));
}

template <class T>
T take(llvm::Expected<T> value, const char* what) {
  check(value.takeError(), what);
  return std::move(*value);
}

/// Objects one after another, each preceded by its length.
std::string pack(const std::vector<std::string>& objects) {
  std::string packed;
  for (const std::string& object : objects) {
    const std::uint64_t size = object.size();
    packed.append(reinterpret_cast<const char*>(&size), sizeof size);
    packed += object;
  }
  return packed;
}

std::optional<std::vector<std::string>> unpack(const std::string& packed) {
  std::vector<std::string> objects;
  for (std::size_t at = 0; at < packed.size();) {
    std::uint64_t size = 0;
    if (packed.size() - at < sizeof size) return std::nullopt;
    std::memcpy(&size, packed.data() + at, sizeof size);
    at += sizeof size;
    if (packed.size() - at < size) return std::nullopt;
    objects.push_back(packed.substr(at, size));
    at += size;
  }
  return objects;
}

/// Nests to compile, and which of these each nest of a program is: equal ones are compiled once.
struct Distinct {
  std::vector<schedule::Nest> nests;
  std::vector<std::size_t> which;
};

Distinct distinct(const std::vector<schedule::Nest>& nests) {
  Distinct result;
  std::unordered_map<std::string, std::size_t> known;
  for (const schedule::Nest& nest : nests) {
    const auto [item, added] = known.emplace(description(nest), result.nests.size());
    if (added) result.nests.push_back(nest);
    result.which.push_back(item->second);
  }
  return result;
}

/// Adds the symbols that `object` takes from elsewhere.
void add_undefined(const std::string& object, std::set<std::string>& symbols) {
  const auto file =
      take(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kernels")), "object");
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    if (!(take(symbol.getFlags(), "object") & llvm::object::SymbolRef::SF_Undefined)) continue;
    if (const llvm::StringRef name = take(symbol.getName(), "object"); !name.empty()) symbols.insert(name.str());
  }
}

}  // namespace

struct Code::Linker {
  llvm::orc::ExecutionSession session;
  llvm::orc::ObjectLinkingLayer layer;

  explicit Linker(std::unique_ptr<llvm::orc::ExecutorProcessControl> control)
      : session(std::move(control)), layer(session) {}
  ~Linker() {
    if (llvm::Error error = session.endSession()) llvm::consumeError(std::move(error));
  }
};

Code::Code(const std::vector<std::string>& objects, const std::vector<std::size_t>& kernels) {
  namespace orc = llvm::orc;
  linker_ = std::make_unique<Linker>(take(orc::SelfExecutorProcessControl::Create(), "linker"));
  orc::ExecutionSession& session = linker_->session;
  orc::JITDylib& library = session.createBareJITDylib("kernels");
  orc::SymbolMap symbols;
  for (const LibraryFunction& function : library_functions()) {
    symbols[session.intern(function.symbol)] = {orc::ExecutorAddr::fromPtr(function.address),
                                                llvm::JITSymbolFlags::Exported};
  }
  check(library.define(orc::absoluteSymbols(std::move(symbols))), "library functions");
  for (const std::string& object : objects) {
    object_bytes_ += object.size();
    add_undefined(object, library_calls_);
    llvm::SmallVector<char, 0> bytes(object.begin(), object.end());
    check(linker_->layer.add(library, std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), false)),
          "object code");
  }
  orc::SymbolLookupSet wanted;
  for (const std::size_t kernel : kernels) wanted.add(session.intern(kernel_symbol(kernel)));
  wanted.removeDuplicates();
  different_ = wanted.size();
  const orc::SymbolMap found =
      take(session.lookup({{&library, orc::JITDylibLookupFlags::MatchAllSymbols}}, wanted), "linking");
  for (const std::size_t kernel : kernels) {
    functions_.push_back(found.at(session.intern(kernel_symbol(kernel))).getAddress().toPtr<TaskFunction>());
  }
}

Code::~Code() = default;

std::shared_ptr<CodeCache> CodeCache::shared() {
  static std::mutex mutex;
  // Not an owner: code held by a static would outlive those of LLVM.
  static std::weak_ptr<CodeCache> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<CodeCache> cache = current.lock();
  if (!cache) current = cache = std::make_shared<CodeCache>();
  return cache;
}

std::shared_ptr<const Code> CodeCache::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (auto item = recent_.begin(); item != recent_.end(); ++item) {
    if (item->first != name) continue;
    recent_.splice(recent_.begin(), recent_, item);
    return item->second;
  }
  return nullptr;
}

void CodeCache::insert(const std::string& name, std::shared_ptr<const Code> code) {
  const std::lock_guard lock(mutex_);
  recent_.emplace_front(name, std::move(code));
  if (recent_.size() > kRememberedPrograms) recent_.pop_back();
}

Jit::Result Jit::compile(const std::vector<schedule::Nest>& nests, const backend::BuildOptions& options) {
  const std::string name =
      options.cache_key.empty() ? "" : fingerprint(options.cache_key, nests, target_, options.fast_math);
  if (!name.empty()) {
    if (auto code = in_memory_->find(name)) return {code, Code::Origin::memory};
  }
  const Distinct kernels = distinct(nests);
  Result result{nullptr, Code::Origin::disk};
  const bool on_disk = !name.empty() && !options.cache_dir.empty();
  if (on_disk) {
    const auto packed = read_object(options.cache_dir, name);
    const auto objects = packed ? unpack(*packed) : std::nullopt;
    if (objects) result.code = std::make_shared<Code>(*objects, kernels.which);
  }
  if (!result.code) {
    const std::vector<std::string> objects = compile_nests(kernels.nests, target_, options.fast_math, threads_);
    result = {std::make_shared<Code>(objects, kernels.which), Code::Origin::compiled};
    if (on_disk && !write_object(options.cache_dir, name, pack(objects))) {
      result.origin = Code::Origin::compiled_not_kept;
    }
  }
  if (!name.empty()) in_memory_->insert(name, result.code);
  return result;
}

}  // namespace wholestep::cpu
