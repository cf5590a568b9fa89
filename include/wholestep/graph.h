#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "wholestep/array.h"
#include "wholestep/error.h"
#include "wholestep/types.h"

namespace wholestep {

class Graph;
struct OpDef;
using NodeId = std::int32_t;

/// One value of a graph: a light handle, valid while its graph lives. A default-constructed one is invalid.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph* graph, NodeId id) : graph_(graph), id_(id) {}
  bool valid() const { return graph_ != nullptr; }
  explicit operator bool() const { return valid(); }
  Graph& graph() const { return *graph_; }
  NodeId id() const { return id_; }
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  int rank() const { return static_cast<int>(shape().size()); }

 private:
  Graph* graph_ = nullptr;
  NodeId id_ = -1;
};

/// The data of a constant, shared between copies of a graph.
using Literal = std::shared_ptr<const Array>;

/// Value of an op attribute.
using AttrValue = std::variant<bool, std::int64_t, double, std::string, DType, std::vector<std::int64_t>, Literal>;

/// Attributes of a node, each name once.
class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> items) : items_(items) {}
  /// The value of `name` as `T`. Throws `invalid_graph` where it is missing or of another type.
  template <class T>
  const T& get(std::string_view name) const {
    const AttrValue* value = find(name);
    const T* typed = value ? std::get_if<T>(value) : nullptr;
    if (!typed) missing(name);
    return *typed;
  }
  const AttrValue* find(std::string_view name) const;
  void set(std::string name, AttrValue value);
  const std::vector<std::pair<std::string, AttrValue>>& items() const { return items_; }
  /// Deep comparison, in any order: literals by type and bytes, doubles by their bits.
  bool operator==(const Attrs& other) const;

 private:
  [[noreturn]] static void missing(std::string_view name);
  std::vector<std::pair<std::string, AttrValue>> items_;
};

/// One op application: a single result.
struct Node {
  const OpDef* op = nullptr;
  std::vector<NodeId> operands;
  Attrs attrs;
  TensorType type;
  std::string name;  ///< of an input, parameter or state; empty otherwise
};

/// Which side of a weight keeps its variance, see `Init`.
enum class Fan { in, out };

/// How a parameter starts, see `initial_values`. The fans of a weight [in, out] are its extents; those of a kernel
/// [out, in, spatial...] are in and out times the spatial elements.
struct Init {
  enum class Kind {
    zeros,
    ones,
    constant,
    uniform,
    normal,
    truncated_normal,
    xavier_uniform,
    xavier_normal,
    kaiming_uniform,
    kaiming_normal,
    orthogonal
  };
  Kind kind = Kind::zeros;
  double a = 0;  ///< the constant; the low end of uniform; the mean of a normal; else the gain
  double b =
      0;  ///< the high end of uniform; the standard deviation of a normal; Kaiming: 0 for Fan::in, 1 for Fan::out
  static Init zeros() { return {}; }
  static Init ones() { return {Kind::ones, 0, 0}; }
  static Init constant(double value) { return {Kind::constant, value, 0}; }
  static Init uniform(double low, double high) { return {Kind::uniform, low, high}; }
  static Init normal(double mean, double stddev) { return {Kind::normal, mean, stddev}; }
  /// Normal, drawn again where it is more than two standard deviations from the mean.
  static Init truncated_normal(double mean, double stddev) { return {Kind::truncated_normal, mean, stddev}; }
  /// Glorot and Bengio, 2010: uniform in +-gain sqrt(6 / (fan_in + fan_out)). Rank >= 2, as all below.
  static Init xavier_uniform(double gain = 1) { return {Kind::xavier_uniform, gain, 0}; }
  /// Glorot and Bengio, 2010: normal, standard deviation gain sqrt(2 / (fan_in + fan_out)).
  static Init xavier_normal(double gain = 1) { return {Kind::xavier_normal, gain, 0}; }
  /// He et al., 2015: uniform in +-gain sqrt(3 / fan). The gain sqrt(2) is for ReLU.
  static Init kaiming_uniform(Fan fan = Fan::in, double gain = std::numbers::sqrt2) {
    return {Kind::kaiming_uniform, gain, fan == Fan::out ? 1.0 : 0.0};
  }
  /// He et al., 2015: normal, standard deviation gain / sqrt(fan).
  static Init kaiming_normal(Fan fan = Fan::in, double gain = std::numbers::sqrt2) {
    return {Kind::kaiming_normal, gain, fan == Fan::out ? 1.0 : 0.0};
  }
  /// Saxe et al., 2014: as a matrix [first extent, the others], gain times orthonormal rows or columns, whichever are
  /// fewer: the Q of a normal matrix, R with a positive diagonal.
  static Init orthogonal(double gain = 1) { return {Kind::orthogonal, gain, 0}; }
};

/// The `Init` of a node of op "param". Throws `invalid_graph` where its attributes are not those of one.
Init init_of(const Node& param);

/// A new value for a parameter or state, stored after everything in the run has read the old one.
struct Update {
  NodeId target;
  NodeId value;
};

/// A typed, statically shaped dataflow graph. Nodes are in topological order: operands come before their users.
/// Inputs are given at each run; parameters and states live on the device, and may have an update.
/// Copyable: node ids mean the same in the copy.
class Graph {
 public:
  explicit Graph(std::string name = "graph");

  const std::string& name() const { return name_; }

  /// A value given at each run. Throws `duplicate_name`; `invalid_argument` for an empty name, a negative
  /// extent or more than 2^62 elements.
  Tensor input(const std::string& name, Shape shape, DType dtype = DType::f32);
  /// A value that lives on the device and can be trained. `init` is what `initial_values` gives it.
  Tensor param(const std::string& name, Shape shape, DType dtype = DType::f32, Init init = Init::zeros());
  /// A value that lives on the device and is moved by updates alone (optimizer slots, counters). Starts as zeros.
  Tensor state(const std::string& name, Shape shape, DType dtype = DType::f32);
  /// A tensor known now.
  Tensor constant(Array value);
  /// A scalar of `dtype`, rounded to it. Throws `invalid_argument` where `dtype` is an integer type or boolean that
  /// does not have `value`.
  Tensor constant(double value, DType dtype);
  /// A scalar value broadcast to `shape`.
  Tensor full(Shape shape, double value, DType dtype);

  /// Appends op `name`; shapes and attributes are checked by its type rule. Throws `unknown_name` for no such op, and
  /// what the type rule throws. The typed functions of `ops.h` call this.
  Tensor apply(std::string_view name, const std::vector<Tensor>& operands, Attrs attrs = {});

  /// Replaces the outputs. The first is the loss where a loss is needed; others are auxiliary.
  void set_outputs(const std::vector<Tensor>& outputs);
  /// `target` (a parameter or state) takes `value` (same type) at the end of each run. A second call replaces the
  /// first.
  void set_update(Tensor target, Tensor value);
  /// Removes all updates: what is left computes outputs and moves nothing.
  void clear_updates() { updates_.clear(); }

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const std::vector<NodeId>& outputs() const { return outputs_; }
  const std::vector<Update>& updates() const { return updates_; }
  /// Handle of node `id`.
  Tensor tensor(NodeId id) { return Tensor(this, id); }
  /// The input, parameter or state called `name`; an invalid tensor where there is none.
  Tensor find(std::string_view name);
  /// Node id of the input, parameter or state called `name`; -1 where there is none.
  NodeId find_id(std::string_view name) const;
  /// Ids of the nodes of op "input", "param" or "state", in order of definition.
  std::vector<NodeId> nodes_of(std::string_view op) const;

  /// The text form; `parse` of it gives an equal graph.
  std::string to_text() const;
  /// Reads the text form. Throws `parse_error` with line and column, and what the builder throws.
  static Graph parse(std::string_view text);
  /// Same name, nodes, outputs and updates.
  bool operator==(const Graph& other) const;

 private:
  Tensor append(Node node);
  Tensor declare(std::string_view op, const std::string& name, TensorType type, Attrs attrs);
  void check_owned(std::string_view what, const Tensor& tensor) const;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<NodeId> outputs_;
  std::vector<Update> updates_;
  std::map<std::string, NodeId, std::less<>> names_;   // of inputs, parameters and states
  std::unordered_map<NodeId, std::size_t> update_of_;  // position in updates_ by target
};

/// Checks every node against the op table, topological order, names, outputs and updates. Throws `invalid_graph`.
void verify(const Graph& graph);

/// Names of all parameters, in order of definition.
std::vector<std::string> trainable(const Graph& graph);
/// Start values of all parameters by their `Init`; counter-based random numbers from `seed` and the parameter's name,
/// so that adding a parameter does not change the others.
NamedArrays initial_values(const Graph& graph, std::uint64_t seed);

/// New graph whose outputs are `[loss, aux..., grad_0 ... grad_n]`, gradients in the order of `wrt` (names of
/// parameters, or of floating-point inputs or states). The cotangent of the loss is a new scalar input `d_output` of
/// the loss's dtype (`d_output_2` ... where the graph is a gradient itself and has one). Updates are kept. A gradient
/// that does not depend on anything is zeros. Throws `no_outputs`, `loss_not_scalar`, `empty_wrt`, `unknown_name`,
/// `duplicate_name`, `not_differentiable` (an integer name, or an op without gradient on the way).
Graph gradients_with_loss(const Graph& graph, const std::vector<std::string>& wrt);

/// Appends to `graph` the gradients of `output` (any shape), given its `cotangent`, with respect to each of `wrt` (any
/// floating-point tensors). Throws `shape_mismatch`, `dtype_mismatch`, `not_differentiable`, `invalid_argument` (a
/// tensor of another graph).
std::vector<Tensor> append_gradients(Graph& graph, Tensor output, Tensor cotangent, const std::vector<Tensor>& wrt);

}  // namespace wholestep
