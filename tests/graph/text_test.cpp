#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "expect_error.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

Graph small_graph() {
  Graph g("classifier");
  const Tensor x = g.input("x", {64, 784}, u8);
  const Tensor w = g.param("w", {784, 10}, f32, Init::normal(0, 0.02));
  const Tensor white = g.constant(255, f32);
  const Tensor scaled = cast(x, f32) / white;
  const Tensor loss = mean(matmul(scaled, w));
  g.set_outputs({loss});
  g.set_update(w, w - loss * 0.1);
  return g;
}

void expect_round_trip(const Graph& g) {
  const std::string text = g.to_text();
  const Graph parsed = Graph::parse(text);
  EXPECT_TRUE(parsed == g) << text;
  EXPECT_EQ(parsed.to_text(), text);
}

TEST(Text, IsOneNodeALine) {
  const std::string text = small_graph().to_text();
  const std::string expected =
      "graph \"classifier\"\n"
      "%0 = input \"x\" : u8[64, 784]\n"
      "%1 = param \"w\" {init=\"normal\", b=0.02} : f32[784, 10]\n"
      "%2 = constant {value=f32[](255.0)} : f32[]\n"
      "%3 = cast %0 {dtype=f32} : f32[64, 784]\n"
      "%4 = broadcast %2 {shape=[64, 784]} : f32[64, 784]\n"
      "%5 = div %3, %4 : f32[64, 784]\n"
      "%6 = matmul %5, %1 {transpose_a=false, transpose_b=false} : f32[64, 10]\n";
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_NE(text.find("\noutputs %7\nupdate %1 = %"), std::string::npos) << text;
}

TEST(Text, ParsesBackToAnEqualGraph) {
  expect_round_trip(small_graph());
  expect_round_trip(Graph("empty"));
  Graph g("inits");
  g.param("zeros", {2});
  g.param("ones", {2}, f64, Init::ones());
  g.param("constant", {}, bf16, Init::constant(-0.1));
  g.param("uniform", {0, 3}, f32, Init::uniform(-1e-300, 1e300));
  g.param("minus zero", {1}, f32, Init::constant(-0.0));
  g.state("count", {}, i64);
  expect_round_trip(g);
}

TEST(Text, EveryExampleOfEveryOpRoundTrips) {
  int examples = 0;
  for (const OpDef* op : op_table().all()) {
    for (const OpExample& example : op->examples) {
      Graph g(op->name);
      std::vector<Tensor> operands;
      for (const TensorType& type : example.operands)
        operands.push_back(g.input("x" + std::to_string(operands.size()), type.shape, type.dtype));
      g.set_outputs({g.apply(op->name, operands, example.attrs)});
      expect_round_trip(g);
      verify(g);
      ++examples;
    }
  }
  EXPECT_GT(examples, 100);
}

TEST(Text, NamesMayHoldAnyBytes) {
  Graph g(std::string("a \"quoted\" \\ name\n\t\0 end", 23));
  g.input("\x01\x7f ünïcode # %0", {1});
  expect_round_trip(g);
}

TEST(Text, DoublesKeepEveryBit) {
  const auto with_bits = [](std::uint64_t bits) { return std::bit_cast<double>(bits); };
  std::vector<double> values = {0.0,
                                -0.0,
                                1,
                                -1,
                                0.1,
                                1e22,
                                1e-7,
                                5e-324,
                                2.2250738585072011e-308,
                                1.7976931348623157e308,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                -NAN,
                                with_bits(0x7ff0000000000001),
                                with_bits(0xfff8000000001234)};
  random::Stream stream(3, 0);
  for (int i = 0; i < 300; ++i)
    values.push_back(with_bits(static_cast<std::uint64_t>(stream.next()) << 32 | stream.next()));
  Graph g;
  const Tensor x = g.input("x", {2}, f64);
  for (double value : values) g.apply("pad", {x}, {{"low", Shape{1}}, {"high", Shape{0}}, {"value", value}});
  expect_round_trip(g);
}

Array random_bits(TensorType type, random::Stream& stream) {
  std::vector<std::uint8_t> bytes(num_bytes(type));
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(stream.next());
  if (type.dtype == boolean)
    for (std::uint8_t& byte : bytes) byte &= 1;
  return Array::from_bytes(type, bytes.data(), bytes.size());
}

TEST(Text, LiteralsOfEveryDTypeKeepEveryBit) {
  random::Stream stream(4, 0);
  Graph g;
  for (DType dtype : {f64, f32, bf16, f16, i64, i32, u8, boolean}) {
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{4, 4}, Shape{17}, Shape{0, 7}, Shape{0}})
      for (int i = 0; i < 20; ++i) g.constant(random_bits({dtype, shape}, stream));
    const std::vector<double> special = {0, -0.0, 1, INFINITY, -INFINITY, NAN};
    g.constant(Array::from_doubles({dtype, {6}}, special));
  }
  g.constant(Array::from<float>({std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()}));
  g.constant(Array::from<double>({std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}));
  g.constant(Array::from<std::int64_t>({INT64_MIN, INT64_MAX}));
  expect_round_trip(g);
}

TEST(Text, SmallLiteralsAreReadable) {
  Graph g("g");
  g.constant(Array::from<float>({0.1f, -2, NAN}));
  g.constant(Array::from<std::int32_t>({3, -4}, {1, 2}));
  EXPECT_EQ(g.to_text(),
            "graph \"g\"\n"
            "%0 = constant {value=f32[3](0.1, -2.0, nan)} : f32[3]\n"
            "%1 = constant {value=i32[1, 2](3, -4)} : i32[1, 2]\n");
}

TEST(Text, CommentsBlankLinesAndCarriageReturnsAreAllowed) {
  const Graph g = Graph::parse("# a graph\r\n\n  graph \"g\"\r\n\n# x\n%0 = input \"x\" : f32[2]\r\n  outputs %0\n\n");
  EXPECT_EQ(g.nodes().size(), 1u);
  EXPECT_EQ(g.outputs().size(), 1u);
}

void expect_refused(const std::string& body, ErrorCode code, const std::vector<std::string>& parts) {
  SCOPED_TRACE(body.substr(0, 200));
  expect_error(code, parts, [&] { Graph::parse("graph \"g\"\n" + body); });
}

TEST(Text, ErrorsSayLineAndColumn) {
  expect_error(ErrorCode::parse_error, {"line 1, column 1", "'graph'"}, [] { Graph::parse(""); });
  expect_error(ErrorCode::parse_error, {"line 1, column 1"}, [] { Graph::parse("hello"); });
  const auto parse_error = ErrorCode::parse_error;
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = neg %7 : f32[2]\n", parse_error, {"line 3, column 11", "no node %7"});
  expect_refused("%1 = input \"x\" : f32[2]\n", parse_error, {"line 2, column 1", "expected node %0, got %1"});
  expect_refused("%0 = frob : f32[2]\n", parse_error, {"line 2, column 6", "'frob'"});
  expect_refused("%0 = input \"x\" : f33[2]\n", parse_error, {"line 2, column 18", "'f33'"});
  expect_refused("%0 = input \"x : f32[2]\n", parse_error, {"line 2", "does not end"});
  expect_refused("%0 = input \"x\" : f32[2] f32\n", parse_error, {"line 2, column 25", "end of the line"});
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = neg %0 : f32[3]\n", parse_error, {"line 3", "f32[2]", "f32[3]"});
  expect_refused("%0 = input \"x\" : f32[2]\noutputs %0\noutputs %0\n", parse_error, {"line 4", "twice"});
  expect_refused("%0 = input \"x\" : f32[2]\noutputs %0\n%1 = neg %0 : f32[2]\n", parse_error, {"line 4"});
  expect_refused("%0 = param \"w\" {init=\"ones\"} : f32[2]\nupdate %0 = %0\nupdate %0 = %0\n", parse_error,
                 {"line 4", "twice"});
  expect_refused("%0 = input \"x\" {shape=[3]} : f32[2]\n", parse_error, {"line 2", "no attributes"});
  expect_refused("%0 = constant {value=f32[](1.0), value=f32[](1.0)} : f32[]\n", parse_error, {"'value'", "twice"});
}

TEST(Text, WhatTheBuilderRefusesKeepsItsCodeAndGainsALine) {
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = input \"x\" : f32[2]\n", ErrorCode::duplicate_name,
                 {"line 3", "'x'"});
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = add %0 : f32[2]\n", ErrorCode::invalid_argument, {"line 3", "add"});
  expect_refused("%0 = input \"x\" : f32[2]\nupdate %0 = %0\n", ErrorCode::not_a_parameter, {"line 3"});
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = reduce_sum %0 {axes=[0]} : f32[]\n", ErrorCode::invalid_graph,
                 {"line 3", "attribute 'keepdims' missing", "reduce_sum takes axes (", "keepdims ("});
  expect_refused("%0 = input \"x\" : f32[2]\n%1 = reduce_sum %0 {axes=[0], keepdims=1} : f32[]\n",
                 ErrorCode::invalid_graph, {"line 3", "'keepdims'", "another type"});
  expect_refused("%0 = param \"w\" {init=\"gaussian\"} : f32[2]\n", ErrorCode::invalid_graph, {"line 2", "gaussian"});
}

TEST(Text, HugeNumbersAreRefusedWithoutAllocatingForThem) {
  const auto parse_error = ErrorCode::parse_error;
  expect_refused("%0 = input \"x\" : f32[99999999999999999999]\n", parse_error, {"64 bits"});
  expect_refused("%0 = input \"x\" : f32[4611686018427387904, 4]\n", parse_error, {"2^62"});
  expect_refused("%0 = input \"x\" : f32[0, 4611686018427387904, 4]\n", parse_error, {"2^62"});
  expect_refused("%0 = input \"x\" : f32[-1]\n", parse_error, {"negative"});
  expect_refused("%0 = constant {value=f32[1000000000000](1.0)} : f32[1000000000000]\n", parse_error, {"got 1"});
  expect_refused("%0 = constant {value=f32[1000000000000]x\"00\"} : f32[1000000000000]\n", parse_error, {"2 digits"});
  expect_refused("%99999999999999999999 = input \"x\" : f32[2]\n", parse_error, {"64 bits"});
  expect_refused("%0 = neg %4294967296 : f32[2]\n", parse_error, {"no node"});
  expect_refused("%0 = neg %-1 : f32[2]\n", parse_error, {"no node"});
  expect_refused("%0 = constant {value=u8[](256)} : u8[]\n", parse_error, {"256"});
  expect_refused("%0 = constant {value=bool[](2)} : bool[]\n", parse_error, {"2"});
  expect_refused("%0 = constant {value=f32[](1e39)} : f32[]\n", parse_error, {"out of range"});
  expect_refused("%0 = constant {value=f16[](1e6)} : f16[]\n", parse_error, {"range of f16"});
  expect_refused("%0 = constant {value=f32[]x\"zz00000g\"} : f32[]\n", parse_error, {"hexadecimal"});
  expect_refused("%0 = constant {value=bool[]x\"02\"} : bool[]\n", parse_error, {"0 or 1"});
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "a" + std::to_string(i) + "=1, ";
  expect_refused("%0 = constant {" + many + "b=1} : f32[]\n", parse_error, {"too many"});
}

TEST(Text, NoTruncationOrSmallChangeOfAGraphCrashes) {
  const std::string text = small_graph().to_text();
  for (std::size_t length = 0; length < text.size(); ++length) {
    try {
      verify(Graph::parse(text.substr(0, length)));
    } catch (const Error&) {
    }
  }
  random::Stream stream(5, 0);
  const std::string alphabet = "%={}[]():,\"\\x-.0123456789abcdefnrut \n#";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = text;
    for (std::uint64_t edits = 1 + stream.below(3); edits > 0; --edits) {
      const std::size_t at = stream.below(changed.size());
      switch (stream.below(4)) {
        case 0:
          changed[at] = static_cast<char>(stream.next());
          break;
        case 1:
          changed[at] = alphabet[stream.below(alphabet.size())];
          break;
        case 2:
          changed.erase(at, 1 + stream.below(8));
          break;
        default:
          changed.insert(at, changed.substr(stream.below(changed.size()), stream.below(12)));
      }
    }
    try {
      const Graph g = Graph::parse(changed);
      verify(g);
      EXPECT_TRUE(Graph::parse(g.to_text()) == g);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace wholestep
