#include "backend/cpu/compile.h"

#include <fmt/format.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "backend/cpu/render.h"
#include "wholestep/error.h"

namespace wholestep::cpu {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::internal, "cpu: " + what); }

std::unique_ptr<llvm::TargetMachine> make_target_machine(const CodeTarget& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  std::string error;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (!found) fail(error);
  llvm::TargetMachine* machine =
      found->createTargetMachine(kTriple, target.cpu, target.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true);
  if (!machine) fail(fmt::format("LLVM makes no code for {}", target.cpu));
  return std::unique_ptr<llvm::TargetMachine>(machine);
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

std::string generate(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile, /*DisableVerify=*/true)) {
    fail("LLVM cannot write object code");
  }
  passes.run(module);
  return std::string(object.begin(), object.end());
}

std::string compile_some(const std::vector<schedule::Nest>& nests, const std::vector<std::size_t>& which,
                         const CodeTarget& target, bool fast_math) {
  const std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(target);
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine->createDataLayout());
  for (const std::size_t i : which) render(nests[i], target, fast_math, module, kernel_symbol(i));
  if (target.isa == Isa::avx512) {
    for (llvm::Function& function : module) {
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
  }
  std::string report;
  llvm::raw_string_ostream stream(report);
  if (llvm::verifyModule(module, &stream)) fail(fmt::format("invalid code was rendered: {}", stream.str()));
  optimise(module, *machine);
  return generate(module, *machine);
}

/// Statements once unrolled: an estimate of the work to compile a block.
std::int64_t size_of_block(const schedule::Block& block) {
  std::int64_t size = 0;
  for (const schedule::Stmt& statement : block) {
    if (const auto* loop = std::get_if<schedule::Loop>(&statement.node)) {
      size += size_of_block(loop->body) * (loop->kind == schedule::LoopKind::unroll ? loop->extent : 1);
    } else if (const auto* branch = std::get_if<schedule::Branch>(&statement.node)) {
      size += size_of_block(branch->then) + size_of_block(branch->otherwise);
    } else {
      size += 1;
    }
  }
  return size;
}

/// Shares of about equal size: the largest nests first, each to the share that has least.
std::vector<std::vector<std::size_t>> divide(const std::vector<schedule::Nest>& nests, std::size_t count) {
  std::vector<std::int64_t> sizes;
  for (const schedule::Nest& nest : nests) {
    sizes.push_back(20 + 3 * size_of_block(nest.body) + static_cast<std::int64_t>(nest.exprs.size()));
  }
  std::vector<std::size_t> order(nests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::vector<std::size_t>> shares(count);
  std::vector<std::int64_t> loads(count, 0);
  for (const std::size_t nest : order) {
    const auto least = static_cast<std::size_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
    shares[least].push_back(nest);
    loads[least] += sizes[nest];
  }
  for (auto& share : shares) std::sort(share.begin(), share.end());
  return shares;
}

}  // namespace

std::string kernel_symbol(std::size_t index) { return fmt::format("kernel_{}", index); }

std::vector<std::string> compile_nests(const std::vector<schedule::Nest>& nests, const CodeTarget& target,
                                       bool fast_math, int threads) {
  const std::size_t count =
      std::clamp<std::size_t>(nests.size() / 2, 1, static_cast<std::size_t>(std::max(1, threads)));
  const auto shares = divide(nests, count);
  std::vector<std::string> objects(count);
  std::vector<std::exception_ptr> errors(count);
  auto work = [&](std::size_t i) {
    try {
      objects[i] = compile_some(nests, shares[i], target, fast_math);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  const auto start_helper = [&](std::size_t share) {
    try {
      helpers.emplace_back(work, share);
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  };
  std::size_t started = 1;
  while (started < count && start_helper(started)) ++started;
  // Where the system gives no more threads, this one does the rest.
  work(0);
  for (std::size_t i = started; i < count; ++i) work(i);
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return objects;
}

}  // namespace wholestep::cpu
