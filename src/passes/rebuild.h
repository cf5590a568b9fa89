#pragma once
// What graph-to-graph passes share: a new graph grown from an old one, node by node.
#include <functional>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep::passes {

class Rebuild {
 public:
  /// Starts with an empty graph of the same name.
  explicit Rebuild(const Graph& from);
  Graph& to() { return to_; }
  /// The new value of old node `id`.
  Tensor of(NodeId id) { return to_.tensor(new_ids_[static_cast<std::size_t>(id)]); }
  /// The new values of the operands of old node `id`.
  std::vector<Tensor> operands(NodeId id);
  /// Appends old node `id` as it is, on new operands.
  Tensor copy(NodeId id);
  /// Says which new value old node `id` has become. Throws `internal` where its type differs.
  void set(NodeId id, Tensor value);
  /// Gives the new graph the outputs and updates of the old one.
  Graph finish();

 private:
  const Graph& from_;
  Graph to_;
  std::vector<NodeId> new_ids_;
};

/// `graph` with what `make` gives for a node in its place; a node for which it gives an invalid tensor stays as it is.
/// `make` appends to `rebuild.to()`, and takes operands from `rebuild`.
Graph rewrite(const Graph& graph, const std::function<Tensor(Rebuild& rebuild, NodeId id)>& make);

/// Whether the node is part of the program's signature: an input, parameter or state.
bool is_signature(const Node& node);

}  // namespace wholestep::passes
