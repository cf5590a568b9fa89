#include "backend/reference/reference_backend.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "wholestep/ops.h"

namespace wholestep::reference {
namespace {

/// w += x, out = w before that; buffers: 0 x, 1 w, 2 out.
struct Counter {
  std::shared_ptr<backend::Backend> backend = make_backend();
  Graph graph{"counter"};
  plan::Plan plan;
  std::unique_ptr<backend::Executable> program;
  std::shared_ptr<backend::DeviceBuffer> w = backend->allocate(2 * sizeof(float));

  Counter() {
    const Tensor x = graph.input("x", {2});
    const Tensor param = graph.param("w", {2});
    graph.set_update(param, param + x);
    graph.set_outputs({param * 1.0});
    using plan::BufferRole;
    plan.buffers = {{BufferRole::input, "x", {f32, {2}}, 0},
                    {BufferRole::resident, "w", {f32, {2}}, 1},
                    {BufferRole::output, "output0", {f32, {2}}, graph.outputs()[0]}};
    plan.outputs = {2};
    program = backend->build(plan, graph, {});
  }
  std::vector<float> read() const {
    std::vector<float> values(2);
    w->download(values.data(), 2 * sizeof(float));
    return values;
  }
};

TEST(ReferenceBackend, UpdatesResidentBuffersAndReadsOutputsOfTheOldValues) {
  Counter counter;
  counter.program->bind(1, counter.w);
  std::vector<float> x = {1, 2}, out(2);
  for (int step = 0; step < 3; ++step) {
    counter.program->bind_host(0, x.data());
    counter.program->bind_host(2, out.data());
    counter.program->run();
    EXPECT_EQ(out, (std::vector<float>{1.0f * static_cast<float>(step), 2.0f * static_cast<float>(step)}));
  }
  EXPECT_EQ(counter.read(), (std::vector<float>{3, 6}));
}

TEST(ReferenceBackend, AHostBindingIsForOneRunOnly) {
  Counter counter;
  counter.program->bind(1, counter.w);
  std::vector<float> x = {1, 2}, out(2);
  counter.program->bind_host(0, x.data());
  counter.program->bind_host(2, out.data());
  counter.program->run();
  expect_error(ErrorCode::internal, {"'x'", "not bound"}, [&] { counter.program->run(); });
  EXPECT_EQ(counter.read(), (std::vector<float>{1, 2}));
}

TEST(ReferenceBackend, ARunThatCannotWriteItsOutputChangesNothing) {
  Counter counter;
  counter.program->bind(1, counter.w);
  std::vector<float> x = {1, 2};
  counter.program->bind_host(0, x.data());
  expect_error(ErrorCode::internal, {"'output0'"}, [&] { counter.program->run(); });
  EXPECT_EQ(counter.read(), (std::vector<float>{0, 0}));
}

TEST(ReferenceBackend, RefusesBuffersOfAnotherLengthAndNumber) {
  Counter counter;
  expect_error(ErrorCode::wrong_length, {"'w'", "f32[2]", "4 bytes"},
               [&] { counter.program->bind(1, counter.backend->allocate(4)); });
  expect_error(ErrorCode::internal, {"no number 3"}, [&] { counter.program->bind(3, counter.w); });
  expect_error(ErrorCode::internal, {"no number -1"}, [&] { counter.program->bind_host(-1, nullptr); });
  float one = 1;
  expect_error(ErrorCode::wrong_length, {"8 bytes", "got 4"}, [&] { counter.w->upload(&one, sizeof one); });
  expect_error(ErrorCode::wrong_length, {"8 bytes", "got 4"}, [&] { counter.w->download(&one, sizeof one); });
}

TEST(ReferenceBackend, BuffersStartAsZeros) {
  const auto buffer = make_backend()->allocate(100);
  std::vector<unsigned char> bytes(100, 1);
  buffer->download(bytes.data(), bytes.size());
  EXPECT_EQ(bytes, std::vector<unsigned char>(100, 0));
  EXPECT_EQ(make_backend()->allocate(0)->bytes(), 0u);
  expect_error(ErrorCode::invalid_argument, {"no memory"}, [] { make_backend()->allocate(SIZE_MAX / 2); });
}

}  // namespace
}  // namespace wholestep::reference
