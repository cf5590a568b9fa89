#include <gtest/gtest.h>

#include "expect_error.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep {
namespace {

/// A legal graph whose nodes a test may break behind the builder's back.
struct Breakable {
  Graph graph{"g"};
  Breakable() {
    const Tensor x = graph.input("x", {2, 3});
    const Tensor w = graph.param("w", {2, 3});
    const Tensor y = transpose(add(x, w), {1, 0});
    graph.set_outputs({y});
    graph.set_update(w, x);
  }
  Node& node(NodeId id) { return const_cast<Node&>(graph.node(id)); }
  void expect_rejected(const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_graph, parts, [&] { verify(graph); });
  }
};

TEST(Verify, AcceptsWhatTheBuilderMakes) { verify(Breakable().graph); }

TEST(Verify, RejectsAnOperandThatDoesNotComeBefore) {
  Breakable b;
  b.node(2).operands[1] = 2;
  b.expect_rejected({"%2 (add)", "operand %2"});
  b.node(2).operands[1] = -1;
  b.expect_rejected({"%2 (add)", "operand %-1"});
}

TEST(Verify, RejectsAWrongNumberOfOperands) {
  Breakable b;
  b.node(2).operands.pop_back();
  b.expect_rejected({"%2 (add)", "1 operands"});
}

TEST(Verify, RejectsATypeThatTheRuleDoesNotGive) {
  Breakable b;
  b.node(3).type.shape = {2, 3};
  b.expect_rejected({"%3 (transpose)", "f32[2, 3]", "f32[3, 2]"});
}

TEST(Verify, RejectsUnknownMissingAndEmptyAttributes) {
  Breakable unknown;
  unknown.node(2).attrs.set("colour", true);
  unknown.expect_rejected({"%2 (add)", "'colour'"});
  Breakable missing;
  missing.node(3).attrs = {};
  missing.expect_rejected({"'perm'"});
  Breakable twice;
  twice.node(3).attrs = {{"perm", Shape{1, 0}}, {"perm", Shape{1, 0}}};
  twice.expect_rejected({"'perm'", "twice"});
  Breakable empty;
  empty.node(3).attrs = {{"perm", Literal()}};
  empty.expect_rejected({"without data"});
}

TEST(Verify, RejectsNamesThatAreMissingForeignOrStolen) {
  Breakable empty;
  empty.node(0).name.clear();
  empty.expect_rejected({"%0 (input)", "empty"});
  Breakable stolen;
  stolen.node(0).name = "w";
  stolen.expect_rejected({"%0 (input)", "'w'"});
  Breakable foreign;
  foreign.node(2).name = "sum";
  foreign.expect_rejected({"%2 (add)", "'sum'"});
}

TEST(Verify, RejectsAParamWithoutAnInit) {
  Breakable b;
  b.node(1).attrs.set("init", std::string("magic"));
  b.expect_rejected({"magic"});
}

TEST(Verify, RejectsUpdatesAndOutputsThatAreNone) {
  Breakable target;
  const_cast<Update&>(target.graph.updates()[0]).target = 0;
  target.expect_rejected({"%0", "input"});
  Breakable type;
  const_cast<Update&>(type.graph.updates()[0]).value = 3;
  type.expect_rejected({"'w'", "f32[3, 2]"});
  Breakable nothing;
  const_cast<Update&>(nothing.graph.updates()[0]).value = 99;
  nothing.expect_rejected({"%99"});
  Breakable output;
  const_cast<NodeId&>(output.graph.outputs()[0]) = 50;
  output.expect_rejected({"output %50"});
}

TEST(Verify, RejectsAnOpThatIsNotInTheTable) {
  Breakable b;
  OpDef foreign = *b.node(2).op;
  b.node(2).op = &foreign;
  b.expect_rejected({"%2", "op table"});
  b.node(2).op = nullptr;
  b.expect_rejected({"%2 (no op)"});
}

TEST(OpTable, RefusesASecondOpOfOneName) {
  OpTable table;
  table.add({.name = "b"});
  table.add({.name = "a"});
  expect_error(ErrorCode::internal, {"'a'", "twice"}, [&] { table.add({.name = "a"}); });
  EXPECT_EQ(table.all().size(), 2u);
  EXPECT_EQ(table.all()[0]->name, "a");
  EXPECT_EQ(table.find("c"), nullptr);
}

}  // namespace
}  // namespace wholestep
