#include <gtest/gtest.h>

#include "support/devices.h"
#include "wholestep/ops.h"
#include "wholestep/session.h"

namespace wholestep {
namespace {

using testing::expect_error;

std::vector<float> floats(const Array& array) {
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

/// out0 = h + x, out1 = h * 2.
Graph counting_graph() {
  Graph graph("counting");
  Tensor h = graph.input("h", {2}), x = graph.input("x", {2});
  Tensor p = graph.param("p", {2}), moved = graph.param("moved", {2});
  graph.set_outputs({h + x + p * 0.0, h * 2.0});
  graph.set_update(moved, moved + x);
  return graph;
}

class Handle : public testing::OnEachDevice {
 protected:
  CompiledGraph compile() const { return Session(GetParam()).compile(counting_graph()); }
  const std::vector<float> h_{10, 20}, x_{1, 2};
};
INSTANTIATE_TEST_SUITE_P(On, Handle, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(Handle, HoldsAnInputThatIsThenNoLongerGiven) {
  CompiledGraph program = compile();
  ASSERT_TRUE(program.bind_handle("h", h_));
  EXPECT_EQ(floats(program.run({{"x", x_}})[0]), (std::vector<float>{11, 22}));
  EXPECT_EQ(floats(program.run({{"x", x_}})[0]), (std::vector<float>{11, 22}));
  EXPECT_EQ(floats(program.read_handle("h")), h_);
  expect_error(ErrorCode::invalid_argument, {"\"h\""}, [&] { program.run({{"h", h_}, {"x", x_}}); });
  ASSERT_TRUE(program.bind_handle("h", x_));
  EXPECT_EQ(floats(program.run({{"x", x_}})[0]), (std::vector<float>{2, 4}));
}

TEST_P(Handle, TakesTheOutputThatFeedsItAfterEachRun) {
  CompiledGraph program = compile();
  program.bind_handle("h", h_);
  program.set_handle_feed("h", 0);
  EXPECT_EQ(floats(program.run({{"x", x_}})[0]), (std::vector<float>{11, 22}));
  EXPECT_EQ(floats(program.run({{"x", x_}})[0]), (std::vector<float>{12, 24}));
  program.run_read_outputs({{"x", x_}}, {});
  EXPECT_EQ(floats(program.run_read_outputs({{"x", x_}}, {1})[0]), (std::vector<float>{26, 52}));
  EXPECT_EQ(floats(program.read_handle("h")), (std::vector<float>{14, 28}));
}

TEST_P(Handle, OfAParameterTakesACopyOfTheSameOutput) {
  CompiledGraph program = compile();
  program.bind_handle("h", h_);
  ASSERT_TRUE(program.bind_handle("p", x_));
  program.set_handle_feed("h", 0);
  program.set_handle_feed("p", 0);
  for (int run = 1; run <= 3; ++run) {
    program.run({{"x", x_}});
    const std::vector<float> expected{10.f + 1.f * run, 20.f + 2.f * run};
    EXPECT_EQ(floats(program.read_handle("h")), expected);
    EXPECT_EQ(floats(program.get_param("p")), expected);
  }
}

TEST_P(Handle, FollowsTheLastFeedThatWasSet) {
  CompiledGraph program = compile();
  program.bind_handle("h", h_);
  program.set_handle_feed("h", 0);
  program.set_handle_feed("h", 1);
  program.run({{"x", x_}});
  EXPECT_EQ(floats(program.read_handle("h")), (std::vector<float>{20, 40}));
}

TEST_P(Handle, RefusesWhatCannotFeedIt) {
  Graph graph = counting_graph();
  Tensor h = graph.find("h");
  graph.set_outputs({h + graph.find("x") + graph.find("p"), reduce_sum(h, {0}), cast(h, DType::i32)});
  CompiledGraph program = Session(GetParam()).compile(graph);
  expect_error(ErrorCode::unknown_name, {"\"h\"", "bind_handle"}, [&] { program.set_handle_feed("h", 0); });
  expect_error(ErrorCode::unknown_name, {"\"h\""}, [&] { program.read_handle("h"); });
  expect_error(ErrorCode::unknown_name, {"\"nothing\""}, [&] { program.bind_handle("nothing", h_); });
  expect_error(ErrorCode::unknown_name, {"\"nothing\""}, [&] { program.set_handle_feed("nothing", 0); });
  expect_error(ErrorCode::unknown_name, {"\"nothing\""}, [&] { program.read_handle("nothing"); });
  const std::vector<float> three(3);
  expect_error(ErrorCode::wrong_length, {"\"h\""}, [&] { program.bind_handle("h", three); });
  expect_error(ErrorCode::missing_input, {"\"h\""}, [&] { program.run({{"x", x_}}); });

  program.bind_handle("h", h_);
  expect_error(ErrorCode::invalid_argument, {"output 3"}, [&] { program.set_handle_feed("h", 3); });
  expect_error(ErrorCode::shape_mismatch, {"\"h\"", "f32[2]", "f32[]"}, [&] { program.set_handle_feed("h", 1); });
  expect_error(ErrorCode::dtype_mismatch, {"\"h\"", "i32[2]"}, [&] { program.set_handle_feed("h", 2); });
  expect_error(ErrorCode::invalid_argument, {"\"moved\"", "update"}, [&] { program.set_handle_feed("moved", 0); });
  program.run({{"x", x_}});
  EXPECT_EQ(floats(program.read_handle("h")), h_);
}

TEST_P(Handle, RefusesIndicesOutsideTheirTable) {
  Graph graph("rows");
  Tensor table = graph.param("table", {3, 1});
  graph.set_outputs({gather_rows(table, graph.input("rows", {2}, DType::i32))});
  CompiledGraph program = Session(GetParam()).compile(graph);
  const std::vector<std::int32_t> bad{0, 3};
  expect_error(ErrorCode::index_out_of_range, {"\"rows\""}, [&] { program.bind_handle("rows", bad); });
}

}  // namespace
}  // namespace wholestep
