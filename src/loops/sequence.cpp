#include "loops/sequence.h"

#include "graph/op.h"

namespace wholestep::loops {
namespace {

class SequenceWriter : public SequenceContext {
 public:
  SequenceWriter(const Graph& graph, NodeId root, Kernel& kernel, Lowering& lowering)
      : graph_(graph), root_(root), kernel_(kernel), lowering_(lowering) {
    const int buffer = buffer_of(root);
    kernel.buffers[static_cast<std::size_t>(buffer)].written = true;
  }

  const Node& node() const override { return graph_.node(root_); }
  ExprBuilder& exprs() override { return lowering_.exprs(); }
  ExprId operand(int i, const Index& at, std::vector<Guard> guards) override {
    return load(node().operands[static_cast<std::size_t>(i)], at, std::move(guards));
  }
  ExprId result(const Index& at) override { return load(root_, at, {}); }

  void repeat(const Range& range, const std::function<void(const Affine&)>& body) override {
    const Axis axis{lowering_.new_var(), range.extent, range.from, range.to};
    const std::size_t number = kernel_.repetitions.size();
    kernel_.repetitions.push_back({axis, kernel_.stages.size()});
    body(Affine::of(axis.var));
    kernel_.repetitions[number].last = kernel_.stages.size();
  }

  ExprId reduce(ReduceOp op, const Ranges& over, const std::function<ExprId(const Index&)>& body) override {
    Stage stage;
    const ExprId total = reduce(stage, op, over, body);
    kernel_.stages.push_back(std::move(stage));
    return total;
  }

  void write(const Ranges& points, const std::function<std::vector<Write>(const Index&)>& body) override {
    Stage stage;
    for (const Write& each : body(axes(stage.map_axes, points))) store(stage, each);
    kernel_.stages.push_back(std::move(stage));
  }

  void write_sum(const Ranges& points, const Ranges& over,
                 const std::function<ExprId(const Index&, const Index&)>& term,
                 const std::function<Write(const Index&, ExprId)>& body) override {
    Stage stage;
    const Index at = axes(stage.map_axes, points);
    const ExprId total = reduce(stage, ReduceOp::sum, over, [&](const Index& each) { return term(at, each); });
    store(stage, body(at, total));
    kernel_.stages.push_back(std::move(stage));
  }

 private:
  int buffer_of(NodeId value) { return lowering_.buffer_of(value); }

  Affine axis(std::vector<Axis>& axes, const Range& range) {
    if (range.extent == 1) return 0;
    axes.push_back({lowering_.new_var(), range.extent, range.from, range.to});
    return Affine::of(axes.back().var);
  }
  Index axes(std::vector<Axis>& axes, const Ranges& ranges) {
    Index at;
    for (const Range& range : ranges) at.push_back(axis(axes, range));
    return at;
  }

  // Position of element `at` of `value`, in the matrix of this parallel point.
  Affine flat(NodeId value, const Index& at) const {
    const Shape& shape = graph_.node(value).type.shape;
    Index whole;
    std::size_t parallel = 0;
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) {
      whole.push_back(shape[i] == 1 ? Affine(0) : Affine::of(kernel_.parallel[parallel++].var));
    }
    whole.insert(whole.end(), at.begin(), at.end());
    return flatten(whole, shape);
  }
  ExprId load(NodeId value, const Index& at, std::vector<Guard> guards) {
    const int buffer = buffer_of(value);
    kernel_.buffers[static_cast<std::size_t>(buffer)].read = true;
    return exprs().load(buffer, graph_.node(value).type.dtype, flat(value, at), std::move(guards));
  }
  ExprId reduce(Stage& stage, ReduceOp op, const Ranges& over, const std::function<ExprId(const Index&)>& body) {
    stage.reduce_body = body(axes(stage.reduce_axes, over));
    stage.reduce = op;
    stage.accumulate = exprs()[stage.reduce_body].dtype;
    return exprs().stage_result(static_cast<int>(kernel_.stages.size()), stage.accumulate);
  }
  void store(Stage& stage, const Write& each) {
    stage.stores.push_back({buffer_of(root_), flat(root_, each.at), each.value});
  }

  const Graph& graph_;
  NodeId root_;
  Kernel& kernel_;
  Lowering& lowering_;
};

}  // namespace

void write_sequence(const Graph& graph, NodeId root, Kernel& kernel, Lowering& lowering) {
  SequenceWriter writer(graph, root, kernel, lowering);
  graph.node(root).op->sequence(writer);
}

}  // namespace wholestep::loops
