#include "wholestep/session.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/devices.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

using testing::expect_error;

std::vector<float> floats(const Array& array) {
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

/// out0 = sum(x * w), out1 = x * w, out2 = x + b; after a run, w takes w + x and count takes count + 1.
Graph moving_graph() {
  Graph graph("moving");
  Tensor x = graph.input("x", {2, 2}), b = graph.input("b", {});
  Tensor w = graph.param("w", {2, 2});
  Tensor count = graph.state("count", {}, DType::i32);
  Tensor product = x * w;
  graph.set_outputs({reduce_sum(product, {0, 1}), product, x + b});
  graph.set_update(w, w + x);
  graph.set_update(count, add(count, 1.0));
  return graph;
}

class Program : public testing::OnEachDevice {
 protected:
  CompiledGraph compile(const Graph& graph) const { return Session(GetParam()).compile(graph); }
  const std::vector<float> x_{1, 2, 3, 4}, b_{10};
  const std::vector<float> w_{1, 1, 2, 2};
  const Inputs inputs_{{"x", x_}, {"b", b_}};
};
INSTANTIATE_TEST_SUITE_P(On, Program, ::testing::ValuesIn(testing::built_devices()), testing::device_name);

TEST_P(Program, ReturnsOutputsComputedBeforeTheUpdates) {
  CompiledGraph program = compile(moving_graph());
  program.set_param("w", w_);
  const std::vector<Array> first = program.run(inputs_);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].item(), 1 + 2 + 6 + 8);
  EXPECT_EQ(floats(first[1]), (std::vector<float>{1, 2, 6, 8}));
  EXPECT_EQ(first[1].shape(), (Shape{2, 2}));
  EXPECT_EQ(floats(first[2]), (std::vector<float>{11, 12, 13, 14}));
  EXPECT_EQ(floats(program.get_param("w")), (std::vector<float>{2, 3, 5, 6}));
  EXPECT_EQ(program.run(inputs_)[0].item(), 2 + 6 + 15 + 24);
  EXPECT_EQ(program.get_param("count").item(), 2);
}

TEST_P(Program, StartsWithZeros) {
  CompiledGraph program = compile(moving_graph());
  EXPECT_EQ(floats(program.get_param("w")), (std::vector<float>(4, 0)));
  EXPECT_EQ(program.get_param("count").item(), 0);
}

TEST_P(Program, ReadsBackTheWantedOutputsInTheirOrder) {
  CompiledGraph program = compile(moving_graph());
  program.set_param("w", w_);
  const std::vector<Array> some = program.run_read_outputs(inputs_, {2, 0, 2});
  ASSERT_EQ(some.size(), 3u);
  EXPECT_EQ(floats(some[0]), (std::vector<float>{11, 12, 13, 14}));
  EXPECT_EQ(some[1].item(), 17);
  EXPECT_TRUE(some[2].same_bits(some[0]));
  EXPECT_TRUE(program.run_read_outputs(inputs_, {}).empty());
  EXPECT_EQ(program.get_param("count").item(), 2);
  EXPECT_EQ(program.run_read_outputs(inputs_, {1}).size(), 1u);
}

TEST_P(Program, TakesInputsInAnyOrder) {
  CompiledGraph program = compile(moving_graph());
  program.set_param("w", w_);
  EXPECT_EQ(program.run({{"b", b_}, {"x", x_}})[0].item(), 17);
}

TEST_P(Program, TakesAShapedViewAndAFlatOneOfTheRightLength) {
  CompiledGraph program = compile(moving_graph());
  const Array shaped = Array::from(x_, {2, 2}), scalar = Array::scalar(10.f);
  EXPECT_EQ(floats(program.run({{"x", shaped}, {"b", scalar}})[2]), (std::vector<float>{11, 12, 13, 14}));
}

TEST_P(Program, RefusesWhatDoesNotFitAndRunsNothing) {
  CompiledGraph program = compile(moving_graph());
  program.set_param("w", w_);
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& parts, const Inputs& inputs) {
    expect_error(code, parts, [&] { program.run(inputs); });
  };
  const std::vector<float> three{1, 2, 3};
  const std::vector<double> doubles{1, 2, 3, 4};
  const Array wide = Array::from(x_, {1, 4});
  refuse(ErrorCode::missing_input, {"\"b\"", "f32[]"}, {{"x", x_}});
  refuse(ErrorCode::missing_input, {"\"x\"", "f32[2, 2]"}, {});
  refuse(ErrorCode::unknown_name, {"\"z\"", "\"x\" (f32[2, 2])"}, {{"x", x_}, {"b", b_}, {"z", b_}});
  refuse(ErrorCode::unknown_name, {"\"w\""}, {{"x", x_}, {"b", b_}, {"w", w_}});
  refuse(ErrorCode::duplicate_name, {"\"x\""}, {{"x", x_}, {"x", x_}});
  refuse(ErrorCode::wrong_length, {"\"x\"", "f32[2, 2]", "3"}, {{"x", three}, {"b", b_}});
  refuse(ErrorCode::shape_mismatch, {"\"x\"", "f32[2, 2]", "f32[1, 4]"}, {{"x", wide}, {"b", b_}});
  refuse(ErrorCode::dtype_mismatch, {"\"x\"", "f32[2, 2]", "f64[4]"}, {{"x", doubles}, {"b", b_}});
  refuse(ErrorCode::wrong_length, {"\"x\"", "bytes"},
         {{"x", ArrayView({DType::f32, {2, 2}}, x_.data(), 12)}, {"b", b_}});
  refuse(ErrorCode::invalid_argument, {"\"x\"", "null"},
         {{"x", ArrayView({DType::f32, {2, 2}}, nullptr, 16)}, {"b", b_}});
  const auto* shifted = reinterpret_cast<const char*>(x_.data()) + 1;
  refuse(ErrorCode::invalid_argument, {"\"x\"", "multiple of 4"},
         {{"x", ArrayView({DType::f32, {2, 2}}, shifted, 16)}, {"b", b_}});
  expect_error(ErrorCode::invalid_argument, {"output 3"}, [&] { program.run_read_outputs(inputs_, {3}); });
  expect_error(ErrorCode::invalid_argument, {"output -1"}, [&] { program.run_read_outputs(inputs_, {-1}); });

  EXPECT_EQ(floats(program.get_param("w")), w_);
  EXPECT_EQ(program.get_param("count").item(), 0);
  EXPECT_EQ(program.run(inputs_)[0].item(), 17);
}

TEST_P(Program, RefusesParametersThatDoNotFitAndKeepsTheOldOnes) {
  CompiledGraph program = compile(moving_graph());
  program.set_param("w", w_);
  const auto refuse = [&](ErrorCode code, const std::string& name, const ArrayView& data) {
    expect_error(code, {"\"" + name + "\""}, [&] { program.set_param(name, data); });
  };
  const std::vector<float> five(5);
  const std::vector<std::int32_t> integers(4);
  refuse(ErrorCode::unknown_name, "v", w_);
  refuse(ErrorCode::unknown_name, "x", x_);
  refuse(ErrorCode::wrong_length, "w", five);
  refuse(ErrorCode::shape_mismatch, "w", Array(DType::f32, {4, 1}));
  refuse(ErrorCode::dtype_mismatch, "w", integers);
  expect_error(ErrorCode::unknown_name, {"\"x\""}, [&] { program.get_param("x"); });
  EXPECT_EQ(floats(program.get_param("w")), w_);
}

TEST_P(Program, RefusesBooleanBytesThatAreNeitherZeroNorOne) {
  Graph graph("choice");
  Tensor condition = graph.input("condition", {2}, DType::boolean), a = graph.input("a", {2});
  graph.set_outputs({select(condition, a, a * 2.0)});
  CompiledGraph program = compile(graph);
  const std::vector<float> a_values{1, 2};
  const unsigned char good[2] = {0, 1}, bad[2] = {1, 2};
  const TensorType type{DType::boolean, {2}};
  EXPECT_EQ(floats(program.run({{"condition", ArrayView(type, good, 2)}, {"a", a_values}})[0]),
            (std::vector<float>{2, 2}));
  expect_error(ErrorCode::invalid_argument, {"\"condition\"", "byte 2 at element 1"},
               [&] { program.run({{"condition", ArrayView(type, bad, 2)}, {"a", a_values}}); });
}

TEST_P(Program, RefusesLabelsAndRowsOutsideTheirTable) {
  Graph graph("indexed");
  Tensor logits = graph.input("logits", {2, 3}), labels = graph.input("labels", {2}, DType::i32);
  Tensor table = graph.input("table", {4, 2}), rows = graph.input("rows", {1, 3}, DType::i64);
  graph.set_outputs({cross_entropy(logits, labels), gather_rows(table, reshape(rows, {3}))});
  CompiledGraph program = compile(graph);
  const std::vector<float> six(6), eight{0, 1, 2, 3, 4, 5, 6, 7};
  const auto run = [&](std::vector<std::int32_t> labels, std::vector<std::int64_t> rows) {
    return program.run({{"logits", six}, {"labels", labels}, {"table", eight}, {"rows", rows}});
  };
  EXPECT_EQ(floats(run({0, 2}, {3, 0, 1})[1]), (std::vector<float>{6, 7, 0, 1, 2, 3}));
  expect_error(ErrorCode::index_out_of_range, {"\"labels\"", "element 1 is 3", "< 3"}, [&] { run({0, 3}, {0, 0, 0}); });
  expect_error(ErrorCode::index_out_of_range, {"\"labels\"", "element 0 is -1"}, [&] { run({-1, 0}, {0, 0, 0}); });
  expect_error(ErrorCode::index_out_of_range, {"\"rows\"", "element 2 is 4", "< 4"}, [&] { run({0, 0}, {0, 0, 4}); });
}

TEST_P(Program, GivesOneValueForTwoOutputsThatAreOneNode) {
  Graph graph("twice");
  Tensor y = graph.input("x", {2}) * 3.0;
  graph.set_outputs({y, y});
  CompiledGraph program = compile(graph);
  const std::vector<float> x{1, 2};
  const std::vector<Array> both = program.run({{"x", x}});
  EXPECT_EQ(floats(both[0]), (std::vector<float>{3, 6}));
  EXPECT_EQ(floats(both[1]), (std::vector<float>{3, 6}));
  EXPECT_EQ(floats(program.run_read_outputs({{"x", x}}, {1})[0]), (std::vector<float>{3, 6}));
}

TEST_P(Program, ReturnsInputsParametersAndConstantsThatAreOutputs) {
  Graph graph("direct");
  Tensor x = graph.input("x", {2}), w = graph.param("w", {2});
  graph.set_outputs({x, w, graph.constant(Array::from(std::vector<float>{7, 8})), w});
  graph.set_update(w, w + x);
  CompiledGraph program = compile(graph);
  const std::vector<float> x_values{1, 2}, w_values{3, 4};
  program.set_param("w", w_values);
  const std::vector<Array> out = program.run({{"x", x_values}});
  EXPECT_EQ(floats(out[0]), x_values);
  EXPECT_EQ(floats(out[1]), w_values);
  EXPECT_EQ(floats(out[2]), (std::vector<float>{7, 8}));
  EXPECT_EQ(floats(out[3]), w_values);
  EXPECT_EQ(floats(program.get_param("w")), (std::vector<float>{4, 6}));
}

TEST_P(Program, SwapsTwoParametersThatUpdateEachOther) {
  Graph graph("swap");
  Tensor a = graph.param("a", {3}), b = graph.param("b", {3});
  graph.set_outputs({a});
  graph.set_update(a, b);
  graph.set_update(b, a);
  CompiledGraph program = compile(graph);
  const std::vector<float> one{1, 2, 3}, two{4, 5, 6};
  program.set_param("a", one);
  program.set_param("b", two);
  program.run({});
  EXPECT_EQ(floats(program.get_param("a")), two);
  EXPECT_EQ(floats(program.get_param("b")), one);
}

TEST_P(Program, UpdatesParametersFromEachOthersOldValues) {
  Graph graph("coupled");
  Tensor a = graph.param("a", {3}), b = graph.param("b", {3}), c = graph.param("c", {3}), s = graph.input("s", {});
  graph.set_outputs({reduce_sum(a * b, {0})});
  graph.set_update(a, a + b * s);
  graph.set_update(b, c - a);
  graph.set_update(c, broadcast(reduce_sum(a, {0}), {3}) + b);
  CompiledGraph program = compile(graph);
  std::vector<float> va{1, 2, 3}, vb{4, 5, 6}, vc{7, 8, 9};
  program.set_param("a", va);
  program.set_param("b", vb);
  program.set_param("c", vc);
  const std::vector<float> two{2};
  for (int run = 0; run < 3; ++run) {
    const std::vector<float> oa = va, ob = vb, oc = vc;
    for (int i = 0; i < 3; ++i) {
      va[i] = oa[i] + ob[i] * 2;
      vb[i] = oc[i] - oa[i];
      vc[i] = oa[0] + oa[1] + oa[2] + ob[i];
    }
    EXPECT_EQ(program.run({{"s", two}})[0].item(), oa[0] * ob[0] + oa[1] * ob[1] + oa[2] * ob[2]);
    EXPECT_EQ(floats(program.get_param("a")), va);
    EXPECT_EQ(floats(program.get_param("b")), vb);
    EXPECT_EQ(floats(program.get_param("c")), vc);
  }
}

TEST_P(Program, HandlesTensorsWithoutElements) {
  Graph graph("empty");
  Tensor x = graph.input("x", {0, 3}), w = graph.param("w", {0});
  graph.set_outputs({x * 2.0, reduce_sum(x, {0, 1}), w});
  graph.set_update(w, w * 2.0);
  CompiledGraph program = compile(graph);
  const Array empty(DType::f32, {0, 3});
  const std::vector<float> none;
  const std::vector<Array> out = program.run({{"x", empty}});
  EXPECT_EQ(out[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(out[1].item(), 0);
  program.set_param("w", none);
  EXPECT_EQ(program.get_param("w").size(), 0);
}

TEST_P(Program, SharesTheStateOfAnother) {
  CompiledGraph first = compile(moving_graph());
  first.set_param("w", w_);
  Graph reader("reader");
  Tensor w = reader.param("w", {2, 2}), own = reader.param("own", {1});
  reader.set_outputs({reduce_sum(w, {0, 1}), own});
  CompiledGraph second = compile(reader);
  EXPECT_EQ(second.run({})[0].item(), 0);
  second.share_state_of(first);
  EXPECT_EQ(second.run({})[0].item(), 6);
  first.run(inputs_);
  EXPECT_EQ(second.run({})[0].item(), 16);
  second.set_param("w", x_);
  EXPECT_EQ(floats(first.get_param("w")), x_);
}

TEST_P(Program, SharesNothingWhereATypeDiffers) {
  CompiledGraph first = compile(moving_graph());
  first.set_param("w", w_);
  Graph other("other");
  Tensor w = other.param("w", {4}), count = other.state("count", {}, DType::i32);
  other.set_outputs({w, count});
  CompiledGraph second = compile(other);
  expect_error(ErrorCode::shape_mismatch, {"\"w\"", "f32[4]", "f32[2, 2]"}, [&] { second.share_state_of(first); });
  first.run(inputs_);
  EXPECT_EQ(second.run({})[1].item(), 0);

  Graph third("third");
  third.set_outputs({third.param("w", {2, 2}, DType::f64)});
  CompiledGraph doubles = compile(third);
  expect_error(ErrorCode::dtype_mismatch, {"\"w\""}, [&] { doubles.share_state_of(first); });
}

TEST_P(Program, OfAnEqualGraphHasMemoryOfItsOwn) {
  CompiledGraph first = compile(moving_graph()), second = compile(moving_graph());
  first.set_param("w", w_);
  EXPECT_EQ(floats(second.get_param("w")), (std::vector<float>(4, 0)));
}

TEST_P(Program, SurvivesTheGraphTheSessionAndAMove) {
  auto made = [&] {
    const Graph graph = moving_graph();
    return std::make_unique<CompiledGraph>(Session(GetParam()).compile(graph));
  }();
  CompiledGraph program = std::move(*made);
  made.reset();
  program.set_param("w", w_);
  EXPECT_EQ(program.run(inputs_)[0].item(), 17);
}

TEST_P(Program, GivesTheSameBitsWithoutFusion) {
  CompiledGraph fused = compile(moving_graph());
  CompiledGraph plain = Session(GetParam()).compile(moving_graph(), {.fusion = false, .verify = true});
  for (CompiledGraph* program : {&fused, &plain}) program->set_param("w", w_);
  for (int step = 0; step < 3; ++step) {
    const std::vector<Array> a = fused.run(inputs_), b = plain.run(inputs_);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].same_bits(b[i]));
  }
  EXPECT_TRUE(fused.get_param("w").same_bits(plain.get_param("w")));
}

TEST_P(Program, MultipliesBf16MatricesOfEveryLayoutAndOddDepth) {
  for (const std::int64_t depth : {1, 2, 7, 600}) {
    for (const int layout : {0, 1, 2, 3}) {
      const bool ta = (layout & 1) != 0, tb = (layout & 2) != 0;
      Graph graph;
      const Tensor a = graph.input("a", ta ? Shape{depth, 3} : Shape{3, depth}, bf16);
      const Tensor b = graph.input("b", tb ? Shape{19, depth} : Shape{depth, 19}, bf16);
      graph.set_outputs({matmul(a, b, ta, tb), matmul(cast(a, f64), cast(b, f64), ta, tb)});
      std::vector<double> left, right;
      for (std::int64_t i = 0; i < 3 * depth; ++i) left.push_back(static_cast<double>(i % 17 - 8) / 8);
      for (std::int64_t i = 0; i < 19 * depth; ++i) right.push_back(static_cast<double>(i % 23 - 11) / 4);
      const Array left_array = Array::from_doubles(a.type(), left), right_array = Array::from_doubles(b.type(), right);
      for (const bool flush : {true, false}) {
        CompiledGraph program = Session(GetParam()).compile(graph, {.flush_subnormals = flush});
        const std::vector<Array> out = program.run({{"a", left_array}, {"b", right_array}});
        const std::vector<double> got = out[0].to_doubles(), exact = out[1].to_doubles();
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], exact[i], std::fabs(exact[i]) / 256 + 1e-6) << "depth " << depth << " layout " << layout;
      }
    }
  }
}

TEST_P(Program, NamesItsInputsAndDevice) {
  CompiledGraph program = compile(moving_graph());
  EXPECT_EQ(program.device(), GetParam());
  ASSERT_EQ(program.inputs().size(), 2u);
  EXPECT_EQ(program.inputs()[0].first, "x");
  EXPECT_EQ(program.inputs()[0].second, (TensorType{DType::f32, {2, 2}}));
  EXPECT_EQ(program.inputs()[1].first, "b");
  EXPECT_EQ(program.stats().resident_bytes, 16 + 4);
}

TEST_P(Program, SaysWhetherItsStateIsResident) {
  EXPECT_EQ(compile(moving_graph()).is_resident(), GetParam().name != "reference");
}

TEST_P(Program, ExplainsDeviceBuffersBytesAndOutputs) {
  const std::string report = compile(moving_graph()).explain();
  for (const char* part : {"program moving", "device ", "resident: ", "input     x", "resident  w", "resident  count",
                           "f32[2, 2]", "bytes: 20 resident", "output 0: f32[], 4 bytes", "compile: ", "verify"}) {
    EXPECT_NE(report.find(part), std::string::npos) << "no \"" << part << "\" in\n" << report;
  }
}

TEST_P(Program, ExplainsWhichOpsWereDecomposedAndWhichFunctionsOfLibrariesAreCalled) {
  if (GetParam().name != "cpu") GTEST_SKIP() << "the graph runs as written";
  Graph plain("plain"), composite("composite");
  plain.set_outputs({sum(plain.input("x", {4}) * 2.0)});
  const Tensor x = composite.input("x", {4, 3});
  composite.set_outputs({mean(tan(softmax(x) + softmax(x * x)))});
  const std::string simple = compile(plain).explain(), report = compile(composite).explain();
  for (const char* line : {"\ndecomposed: none\n", "\n  library calls: none\n"}) {
    EXPECT_NE(simple.find(line), std::string::npos) << line << " in\n" << simple;
  }
  for (const char* part : {"\ndecomposed: softmax x2", "\n  library calls: wholestep_tan_f32"}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << " in\n" << report;
  }
}

TEST(Session, RefusesADeviceThatDoesNotExist) {
  expect_error(ErrorCode::device_unavailable, {"abacus"}, [] { Session(Device{"abacus"}); });
}

TEST(Session, RefusesAGraphThatComputesNothing) {
  Graph graph("idle");
  graph.input("x", {2});
  expect_error(ErrorCode::no_outputs, {"idle", "set_outputs"}, [&] { Session(Device::reference()).compile(graph); });
}

TEST(IndexBound, IsThatOfTheTableWhoseRowsAnInputNames) {
  Graph graph("lookup");
  const Tensor table = graph.param("table", {7, 3});
  const Tensor rows = graph.input("rows", {2}, DType::i32);
  graph.set_outputs({gather_rows(table, rows), graph.input("x", {2})});
  EXPECT_EQ(index_bound(graph, "rows"), 7);
  EXPECT_EQ(index_bound(graph, "x"), std::nullopt);
  EXPECT_EQ(index_bound(graph, "nothing"), std::nullopt);
}

TEST(Session, RefusesToShareStateBetweenDevices) {
  const std::vector<Device> devices = testing::built_devices();
  if (devices.size() < 2) GTEST_SKIP() << "only one device in this build";
  CompiledGraph here = Session(devices[0]).compile(moving_graph()), there = Session(devices[1]).compile(moving_graph());
  expect_error(ErrorCode::device_unavailable, {devices[0].name, devices[1].name}, [&] { here.share_state_of(there); });
}

TEST(Session, SharesStateBetweenNumbersOfThreads) {
  if (testing::built_devices().size() < 2) GTEST_SKIP() << "no CPU in this build";
  CompiledGraph one = Session(Device::cpu(1)).compile(moving_graph()),
                two = Session(Device::cpu(2)).compile(moving_graph());
  one.share_state_of(two);
  const std::vector<float> w{1, 2, 3, 4};
  one.set_param("w", w);
  EXPECT_TRUE(two.get_param("w").same_bits(Array::from(w, {2, 2})));
}

}  // namespace
}  // namespace wholestep
