#include "backend/cpu/jit.h"

#include <fmt/format.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include "backend/cpu/fingerprint.h"
#include "backend/cpu/libm.h"
#include "backend/cpu/object_cache.h"
#include "backend/cpu/render.h"
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

std::string triple() { return "x86_64-unknown-linux-gnu"; }

std::string kernel_symbol(std::size_t index) { return fmt::format("kernel_{}", index); }

std::unique_ptr<llvm::TargetMachine> make_target_machine(const CodeTarget& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple(), error);
  if (!found) fail(error);
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(
      found->createTargetMachine(triple(), target.cpu, target.features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!machine) fail(fmt::format("LLVM makes no code for {}", target.cpu));
  return machine;
}

// Few passes: the renderer writes loops in their final form, and what is left is to promote registers, share equal
// expressions and move what does not change out of loops.
void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager groups;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(groups);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, groups, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::PromotePass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) passes.run(function, functions);
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

Code::Code(const std::string& object, std::size_t count) : object_bytes_(object.size()) {
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
  llvm::SmallVector<char, 0> bytes(object.begin(), object.end());
  check(linker_->layer.add(library, std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), false)),
        "object code");
  orc::SymbolLookupSet wanted;
  for (std::size_t i = 0; i < count; ++i) wanted.add(session.intern(kernel_symbol(i)));
  const orc::SymbolMap found =
      take(session.lookup({{&library, orc::JITDylibLookupFlags::MatchAllSymbols}}, wanted), "linking");
  for (std::size_t i = 0; i < count; ++i) {
    functions_.push_back(found.at(session.intern(kernel_symbol(i))).getAddress().toPtr<TaskFunction>());
  }
}

Code::~Code() = default;

std::string Jit::compile_object(const std::vector<schedule::Nest>& nests, bool fast_math) const {
  const std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(target_);
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(triple());
  module.setDataLayout(machine->createDataLayout());
  for (std::size_t i = 0; i < nests.size(); ++i) render(nests[i], target_, fast_math, module, kernel_symbol(i));
  for (llvm::Function& function : module) {
    if (target_.isa == Isa::avx512) {
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
  }
  std::string report;
  llvm::raw_string_ostream stream(report);
  if (llvm::verifyModule(module, &stream)) fail(fmt::format("invalid code was rendered: {}", stream.str()));
  optimise(module, *machine);

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager generate;
  if (machine->addPassesToEmitFile(generate, out, nullptr, llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true)) {
    fail("LLVM cannot write object code");
  }
  generate.run(module);
  return std::string(object.begin(), object.end());
}

std::shared_ptr<const Code> Jit::recall(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (auto item = recent_.begin(); item != recent_.end(); ++item) {
    if (item->first != name) continue;
    recent_.splice(recent_.begin(), recent_, item);
    return item->second;
  }
  return nullptr;
}

void Jit::remember(const std::string& name, std::shared_ptr<const Code> code) {
  const std::lock_guard lock(mutex_);
  recent_.emplace_front(name, std::move(code));
  if (recent_.size() > kRememberedPrograms) recent_.pop_back();
}

Jit::Result Jit::compile(const std::vector<schedule::Nest>& nests, const backend::BuildOptions& options) {
  if (options.cache_key.empty()) {
    return {std::make_shared<Code>(compile_object(nests, options.fast_math), nests.size()), Code::Origin::compiled};
  }
  const std::string name = fingerprint(options.cache_key, nests, target_, options.fast_math);
  if (auto code = recall(name)) return {code, Code::Origin::memory};

  Result result{nullptr, Code::Origin::disk};
  if (!options.cache_dir.empty()) {
    if (const auto object = read_object(options.cache_dir, name)) {
      result.code = std::make_shared<Code>(*object, nests.size());
    }
  }
  if (!result.code) {
    const std::string object = compile_object(nests, options.fast_math);
    result = {std::make_shared<Code>(object, nests.size()), Code::Origin::compiled};
    if (!options.cache_dir.empty()) write_object(options.cache_dir, name, object);
  }
  remember(name, result.code);
  return result;
}

}  // namespace wholestep::cpu
