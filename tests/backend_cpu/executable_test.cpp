#include <cmath>

#include "nest_fixture.h"

namespace wholestep::test {
namespace {

/// out = 2 * in + constant, with the sum in scratch.
struct Doubler {
  std::shared_ptr<backend::Backend> cpu = open_cpu("");
  std::unique_ptr<backend::Executable> program;

  Doubler() {
    TestNest test(4);
    const int in = test.buffer(std::vector<float>{0, 0, 0}), fixed = test.buffer(std::vector<float>{0, 0, 0});
    const int out = test.output(f32, 3);
    ExprBuilder exprs = test.exprs();
    const ExprId x = load(exprs, test, in, var(0));
    const ExprId sum = exprs.binary(BinaryOp::add, exprs.binary(BinaryOp::add, x, x), load(exprs, test, fixed, var(0)));
    test.nest.body.push_back(loop(0, 3, LoopKind::vector, {store(out, var(0), sum)}));
    plan::Plan plan = test.plan();
    plan.buffers[1].role = plan::BufferRole::constant;
    plan.buffers[1].literal = std::make_shared<const Array>(Array::from(std::vector<float>{10, 20, 30}));
    plan.buffers[2].role = plan::BufferRole::output;
    program = cpu->build(plan, Graph("test"), {});
  }
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(CpuExecutable, ReadsAndWritesDeviceBuffersUntilRebound) {
  Doubler doubler;
  auto in = doubler.cpu->allocate(12), out = doubler.cpu->allocate(12);
  const float values[] = {1, 2, 3};
  in->upload(values, 12);
  doubler.program->bind(0, in);
  doubler.program->bind(2, out);
  in.reset();
  for (int i = 0; i < 2; ++i) {
    doubler.program->run();
    float result[3];
    out->download(result, 12);
    EXPECT_EQ(result[2], 36);
  }
}

TEST(CpuExecutable, BorrowsHostMemoryForOneRun) {
  Doubler doubler;
  auto in = doubler.cpu->allocate(12);
  doubler.program->bind(0, in);
  float values[] = {1, 2, 3}, result[3] = {};
  doubler.program->bind_host(0, values);
  doubler.program->bind_host(2, result);
  doubler.program->run();
  EXPECT_EQ(result[0], 12);
  EXPECT_EQ(code_of([&] { doubler.program->run(); }), ErrorCode::internal) << "the output is no longer bound";
  doubler.program->bind_host(2, result);
  doubler.program->run();
  EXPECT_EQ(result[0], 10) << "the input is the device buffer again";
}

TEST(CpuExecutable, TakesHostMemoryAtAnyAddress) {
  Doubler doubler;
  std::vector<std::byte> bytes(64);
  const float values[] = {1, 2, 3};
  std::memcpy(bytes.data() + 1, values, 12);
  doubler.program->bind_host(0, bytes.data() + 1);
  doubler.program->bind_host(2, bytes.data() + 33);
  doubler.program->run();
  float result[3];
  std::memcpy(result, bytes.data() + 33, 12);
  EXPECT_EQ(result[1], 24);
}

TEST(CpuExecutable, HasOneFunctionForEqualKernelsEachWithBuffersOfItsOwn) {
  const auto cpu = open_cpu("");
  plan::Plan plan;
  plan::Phase phase;
  std::vector<Array> arrays;
  const std::vector<float> factors = {2, 3, 2};
  for (const float factor : factors) {
    TestNest test(4);
    const int in = test.buffer(std::vector<float>{1, factor, 5}), out = test.output(f32, 3);
    ExprBuilder exprs = test.exprs();
    const ExprId y = exprs.binary(BinaryOp::mul, load(exprs, test, in, var(0)), exprs.constant(factor, f32));
    test.nest.body.push_back(loop(0, 3, LoopKind::vector, {store(out, var(0), y)}));
    test.nest.name = "kernel " + std::to_string(plan.nests.size());
    plan::Launch launch{static_cast<int>(plan.nests.size()), {}};
    for (std::size_t i = 0; i < 2; ++i) {
      const int buffer = static_cast<int>(arrays.size());
      test.nest.buffers[i].value = buffer;
      plan.buffers.push_back(
          {plan::BufferRole::input, "b" + std::to_string(buffer), test.arrays[i].type(), test.nest.buffers[i].value});
      launch.buffers.push_back(buffer);
      arrays.push_back(std::move(test.arrays[i]));
    }
    plan.nests.push_back(test.nest);
    phase.launches.push_back(launch);
  }
  plan.phases.push_back(phase);
  const auto program = cpu->build(plan, Graph("test"), {});
  EXPECT_NE(program->notes().at(0).find("3 kernels, 2 of them different"), std::string::npos) << program->notes()[0];
  for (std::size_t i = 0; i < arrays.size(); ++i) program->bind_host(static_cast<int>(i), arrays[i].data());
  program->run();
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double factor = factors[i];
    EXPECT_EQ(arrays[2 * i + 1].to_doubles(), (std::vector<double>{factor, factor * factor, 5 * factor}));
  }
}

TEST(CpuExecutable, RefusesBuffersOfAnotherLength) {
  Doubler doubler;
  EXPECT_EQ(code_of([&] { doubler.program->bind(0, doubler.cpu->allocate(8)); }), ErrorCode::wrong_length);
  float value = 0;
  EXPECT_EQ(code_of([&] { doubler.cpu->allocate(8)->upload(&value, 4); }), ErrorCode::wrong_length);
  EXPECT_EQ(code_of([&] { doubler.cpu->allocate(8)->download(&value, 4); }), ErrorCode::wrong_length);
  EXPECT_EQ(code_of([&] { doubler.program->bind(1, doubler.cpu->allocate(12)); }), ErrorCode::internal);
  EXPECT_EQ(code_of([&] { doubler.program->bind(7, doubler.cpu->allocate(12)); }), ErrorCode::internal);
}

TEST(CpuExecutable, GivesZeroedBuffersOfAnySize) {
  const auto cpu = open_cpu("");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5} << 20}) {
    std::vector<std::byte> content(bytes, std::byte{1});
    cpu->allocate(bytes)->download(content.data(), bytes);
    EXPECT_EQ(std::count(content.begin(), content.end(), std::byte{0}), static_cast<std::ptrdiff_t>(bytes));
  }
  EXPECT_EQ(code_of([&] { cpu->allocate(std::size_t{1} << 62); }), ErrorCode::unsupported);
}

TEST(CpuBackend, RefusesAnUnknownCodePathAndAnotherInterface) {
  EXPECT_EQ(code_of([] { open_cpu("riscv"); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { open_cpu("", -1); }), ErrorCode::invalid_argument);
  void* part = dlopen(WHOLESTEP_BUILD_DIR "/libwholestep_cpu.so", RTLD_NOW | RTLD_LOCAL);
  const auto make = reinterpret_cast<backend::OpenBackend>(dlsym(part, "wholestep_open_backend"));
  EXPECT_EQ(make(backend::kInterfaceVersion + 1, 1), nullptr);
}

}  // namespace
}  // namespace wholestep::test
