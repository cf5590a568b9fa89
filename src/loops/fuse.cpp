#include "loops/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "graph/op.h"
#include "loops/lowering.h"
#include "loops/merge_axes.h"
#include "loops/roots.h"
#include "loops/sequence.h"

namespace wholestep::loops {
namespace {

// Values computed together over one parallel domain.
struct Group {
  Form form = Form::point;
  bool open = true;
  bool has_reduction = false;
  std::vector<std::int64_t> domain;  // extents of the parallel axes
  std::vector<NodeId> roots;
  int functions = 0;  // in all of them
  int level = 0;      // longest path of groups that lead here
};

// Rows shared by one kernel run one after another where there are few of them: worth it for small tensors only.
constexpr std::int64_t kEnoughRows = 32;
constexpr std::int64_t kSmallElements = 16384;
constexpr std::size_t kMaxRoots = 48;
// How many of the latest readers of a value are offered as company.
constexpr std::size_t kSiblings = 4;

std::int64_t product(const std::vector<std::int64_t>& extents) {
  std::int64_t result = 1;
  for (std::int64_t extent : extents) result *= extent;
  return result;
}

bool is_prefix(const std::vector<std::int64_t>& prefix, const std::vector<std::int64_t>& whole) {
  return prefix.size() <= whole.size() && std::equal(prefix.begin(), prefix.end(), whole.begin());
}

class Fuser {
 public:
  Fuser(const Graph& graph, const FuseOptions& options)
      : graph_(graph),
        options_(options),
        roots_(choose_roots(graph, options)),
        group_of_(graph.nodes().size(), -1),
        readers_(graph.nodes().size()),
        alone_(options.alone.begin(), options.alone.end()) {}

  std::vector<Kernel> run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (roots_.is_root[i]) place(static_cast<NodeId>(i));
    std::vector<std::size_t> order(groups_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return groups_[a].level < groups_[b].level; });
    std::vector<Kernel> kernels;
    for (std::size_t i : order) kernels.push_back(emit(static_cast<int>(i)));
    return kernels;
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  int functions_of(NodeId root) const { return roots_.functions[static_cast<std::size_t>(root)]; }
  int& group_of(NodeId id) { return group_of_[static_cast<std::size_t>(id)]; }

  void place(NodeId root) {
    const std::vector<NodeId>& reads = roots_.reads[static_cast<std::size_t>(root)];
    int natural = 0;
    for (NodeId read : reads)
      if (group_of(read) >= 0) natural = std::max(natural, groups_[static_cast<std::size_t>(group_of(read))].level + 1);
    int chosen = -1;
    if (options_.enabled && !alone_.count(root)) {
      for (int candidate : candidates(reads)) {
        if (joins(root, reads, candidate, natural)) {
          chosen = candidate;
          break;
        }
      }
    }
    if (chosen < 0) {
      chosen = static_cast<int>(groups_.size());
      groups_.push_back(fresh(root, natural));
    }
    Group& group = groups_[static_cast<std::size_t>(chosen)];
    group.roots.push_back(root);
    group.functions += functions_of(root);
    group_of(root) = chosen;
    for (NodeId read : reads) {
      std::vector<int>& readers = readers_[static_cast<std::size_t>(read)];
      if (readers.empty() || readers.back() != chosen) readers.push_back(chosen);
    }
  }

  // Producers' groups, latest first, then groups that read the same values.
  std::vector<int> candidates(const std::vector<NodeId>& reads) {
    std::vector<int> result;
    auto offer = [&](int group) {
      if (group >= 0 && std::find(result.begin(), result.end(), group) == result.end()) result.push_back(group);
    };
    for (NodeId read : reads) offer(group_of(read));
    std::sort(result.begin(), result.end(), [&](int a, int b) {
      return groups_[static_cast<std::size_t>(a)].level > groups_[static_cast<std::size_t>(b)].level;
    });
    for (NodeId read : reads) {
      const std::vector<int>& readers = readers_[static_cast<std::size_t>(read)];
      for (std::size_t i = readers.size() > kSiblings ? readers.size() - kSiblings : 0; i < readers.size(); ++i)
        offer(readers[i]);
    }
    return result;
  }

  Group fresh(NodeId root, int level) {
    Group group;
    group.level = level;
    const Node& n = node(root);
    group.domain = squeeze(n.type.shape);
    group.open = options_.enabled && !alone_.count(root);
    switch (n.op->kind) {
      case OpKind::contraction:
        group.form = Form::contraction;
        group.has_reduction = true;
        break;
      case OpKind::scatter: {
        group.open = false;
        Shape rest(n.type.shape.begin() + 1, n.type.shape.end());
        group.domain = squeeze(rest);
        break;
      }
      case OpKind::sequential:
        group.open = false;
        group.form = Form::sequence;
        group.domain = squeeze(Shape(n.type.shape.begin(), n.type.shape.end() - 2));
        break;
      case OpKind::reduction:
        group.form = reduces_innermost(root) ? Form::rows : Form::point;
        group.has_reduction = true;
        break;
      default:
        break;
    }
    return group;
  }

  bool reduces_innermost(NodeId root) {
    Kernel scratch;
    Var next = 0;
    Lowering lowering(graph_, scratch, next);
    Stage stage;
    Index at = index_of(root, scratch, next, stage, squeeze(node(root).type.shape).size());
    lowering.lower_root(root, at, stage, [&](NodeId value, const Index&, bool) { return outside(value); });
    return lowering.reduces_innermost();
  }

  Access outside(NodeId value) const { return {roots_.in_memory(value) ? Access::Kind::memory : Access::Kind::expand}; }

  // Index of `root`'s element at the kernel's parallel axes (made here where there are none) and new map axes of
  // `stage`.
  Index index_of(NodeId root, Kernel& kernel, Var& next, Stage& stage, std::size_t parallel_count) {
    Index at;
    std::size_t dim = 0;
    for (std::int64_t extent : node(root).type.shape) {
      if (extent == 1) {
        at.push_back(0);
        continue;
      }
      if (dim < parallel_count) {
        if (kernel.parallel.size() <= dim) kernel.parallel.push_back({next++, extent});
        at.push_back(Affine::of(kernel.parallel[dim].var));
      } else {
        stage.map_axes.push_back({next, extent});
        at.push_back(Affine::of(next++));
      }
      ++dim;
    }
    return at;
  }

  // Whether the element read belongs to the same parallel point.
  static bool same_point(const Kernel& kernel, const Shape& shape, const Index& at) {
    std::size_t dim = 0;
    for (std::size_t i = 0; i < shape.size() && dim < kernel.parallel.size(); ++i) {
      if (shape[i] == 1) continue;
      if (!(at[i] == Affine::of(kernel.parallel[dim].var))) return false;
      ++dim;
    }
    return dim == kernel.parallel.size();
  }

  bool joins(NodeId root, const std::vector<NodeId>& reads, int candidate, int natural) {
    Group& group = groups_[static_cast<std::size_t>(candidate)];
    if (!group.open || group.roots.size() >= kMaxRoots) return false;
    if (functions_of(root) > 0 && group.functions + functions_of(root) > kMostFunctions) return false;
    bool depends = false;
    for (NodeId read : reads) {
      if (group_of(read) == candidate) {
        depends = true;
      } else if (group_of(read) >= 0 && groups_[static_cast<std::size_t>(group_of(read))].level >= group.level) {
        return false;
      }
    }
    if (!depends && group.level != natural) return false;
    const OpKind kind = node(root).op->kind;
    if (kind == OpKind::contraction || kind == OpKind::scatter || kind == OpKind::sequential) return false;
    const std::vector<std::int64_t> domain = squeeze(node(root).type.shape);
    if (product(domain) == 0) return false;
    const bool reduction = kind == OpKind::reduction;
    Group trial = group;
    if (group.form == Form::contraction) {
      if (!depends || reduction || domain != group.domain) return false;
    } else if (reduction) {
      const bool rows = reduces_innermost(root);
      if (rows && group.form == Form::point && !group.has_reduction && depends) {
        // The maps computed so far become row maps, if rows are what the reduction leaves.
        if (!is_prefix(domain, group.domain)) return false;
        if (product(domain) < kEnoughRows && product(group.domain) > kSmallElements) return false;
        trial.form = Form::rows;
        trial.domain = domain;
      } else if (rows != (group.form == Form::rows) || domain != group.domain) {
        return false;
      }
      trial.has_reduction = true;
    } else if (group.form == Form::point) {
      if (domain != group.domain) return false;
    } else {
      if (!is_prefix(group.domain, domain)) return false;
      if (domain.size() > group.domain.size()) {
        if (!depends) return false;
        if (product(group.domain) < kEnoughRows && product(domain) > kSmallElements) return false;
      }
    }
    if (!reads_same_points(root, trial, candidate)) return false;
    if (trial.form != group.form) {
      for (NodeId earlier : group.roots)
        if (!reads_same_points(earlier, trial, candidate)) return false;
    }
    group = trial;
    return true;
  }

  bool reads_same_points(NodeId root, const Group& group, int index) {
    Kernel kernel;
    Var next = 0;
    for (std::int64_t extent : group.domain) kernel.parallel.push_back({next++, extent});
    Stage stage;
    Lowering lowering(graph_, kernel, next);
    const Index at = index_of(root, kernel, next, stage, group.domain.size());
    bool legal = true;
    lowering.lower_root(root, at, stage, [&](NodeId value, const Index& where, bool affine) {
      if (roots_.in_memory(value) && group_of(value) == index) {
        legal = legal && affine && same_point(kernel, node(value).type.shape, where);
      }
      return outside(value);
    });
    return legal;
  }

  Kernel emit(int index) {
    const Group& group = groups_[static_cast<std::size_t>(index)];
    Kernel kernel;
    kernel.form = group.form;
    Var next = 0;
    for (std::int64_t extent : group.domain) kernel.parallel.push_back({next++, extent});
    Lowering lowering(graph_, kernel, next);
    if (node(group.roots[0]).op->kind == OpKind::scatter) {
      emit_scatter(group.roots[0], kernel, lowering, next);
    } else if (group.form == Form::sequence) {
      write_sequence(graph_, group.roots[0], kernel, lowering);
    } else {
      emit_stages(group, index, kernel, lowering, next);
    }
    for (NodeId root : group.roots) roots_.add_nodes_of(graph_, root, kernel.nodes);
    kernel.name = fmt::format("{}_{}", node(group.roots.front()).op->name, group.roots.front());
    merge_axes(kernel);
    verify(kernel);
    return kernel;
  }

  void emit_stages(const Group& group, int index, Kernel& kernel, Lowering& lowering, Var& next) {
    struct Made {
      int stage;
      ExprId value;
      Affine flat;
      bool row;  // has map axes: later stages read it from memory
      bool reduction;
      bool stored;
    };
    std::unordered_map<NodeId, Made> made;
    for (NodeId root : group.roots) {
      Stage stage;
      const Index at = index_of(root, kernel, next, stage, group.domain.size());
      auto resolve = [&](NodeId value, const Index&, bool) -> Access {
        auto found = made.find(value);
        if (found == made.end()) return outside(value);
        Made& earlier = found->second;
        if (earlier.row) {
          earlier.stored = true;
          return {Access::Kind::memory};
        }
        if (earlier.reduction) return {Access::Kind::result, earlier.stage};
        return {Access::Kind::expand};
      };
      const ExprId value = lowering.lower_root(root, at, stage, resolve);
      const bool row = !stage.map_axes.empty();
      const bool reduction = stage.reduce.has_value();
      kernel.stages.push_back(std::move(stage));
      made[root] = {static_cast<int>(kernel.stages.size()) - 1,
                    value,
                    flatten(at, node(root).type.shape),
                    row,
                    reduction,
                    roots_.is_destination[static_cast<std::size_t>(root)] || read_elsewhere(root, index)};
    }
    for (NodeId root : group.roots) {
      const Made& m = made[root];
      if (!m.stored) continue;
      const int buffer = lowering.buffer_of(root);
      kernel.buffers[static_cast<std::size_t>(buffer)].written = true;
      kernel.stages[static_cast<std::size_t>(m.stage)].stores.push_back({buffer, m.flat, m.value});
    }
    drop_and_join_stages(kernel);
  }

  bool read_elsewhere(NodeId root, int index) const {
    for (int reader : readers_[static_cast<std::size_t>(root)])
      if (reader != index) return true;
    return false;
  }

  // Stages that neither reduce nor store go; adjacent plain ones over the same axes are one, so that what they share is
  // computed once.
  static void drop_and_join_stages(Kernel& kernel) {
    std::vector<Stage> stages;
    std::vector<int> moved(kernel.stages.size(), -1);
    for (std::size_t i = 0; i < kernel.stages.size(); ++i) {
      Stage& stage = kernel.stages[i];
      if (!stage.reduce && stage.stores.empty()) continue;
      const bool plain = !stage.reduce && stage.map_axes.empty();
      if (plain && !stages.empty() && stages.back().map_axes.empty()) {
        for (Store& store : stage.stores) stages.back().stores.push_back(store);
      } else {
        stages.push_back(stage);
      }
      moved[i] = static_cast<int>(stages.size()) - 1;
    }
    kernel.stages = std::move(stages);
    for (Expr& expr : kernel.exprs)
      if (expr.kind == ExprKind::stage_result) expr.slot = moved[static_cast<std::size_t>(expr.slot)];
  }

  // First the base is copied, then rows are added one after another; the columns are parallel.
  void emit_scatter(NodeId root, Kernel& kernel, Lowering& lowering, Var& next) {
    const Node& n = node(root);
    auto resolve = [&](NodeId value, const Index&, bool) { return outside(value); };
    const Shape& shape = n.type.shape;
    auto rest_index = [&] {
      Index rest;
      std::size_t dim = 0;
      for (std::size_t i = 1; i < shape.size(); ++i)
        rest.push_back(shape[i] == 1 ? Affine(0) : Affine::of(kernel.parallel[dim++].var));
      return rest;
    };
    const int buffer = lowering.buffer_of(root);
    kernel.buffers[static_cast<std::size_t>(buffer)].written = true;
    kernel.buffers[static_cast<std::size_t>(buffer)].read = true;

    Stage copy;
    Index at = rest_index();
    if (shape[0] == 1) {
      at.insert(at.begin(), Affine(0));
    } else {
      copy.map_axes.push_back({next, shape[0]});
      at.insert(at.begin(), Affine::of(next++));
    }
    const ExprId base = lowering.lower_operand(root, 0, at, resolve);
    copy.stores.push_back({buffer, flatten(at, shape), base});
    kernel.stages.push_back(std::move(copy));

    Stage add;
    add.in_order = true;
    Index from;
    for (std::int64_t extent : node(n.operands[1]).type.shape) {
      if (extent == 1) {
        from.push_back(0);
      } else {
        add.map_axes.push_back({next, extent});
        from.push_back(Affine::of(next++));
      }
    }
    Index rest = rest_index();
    from.insert(from.end(), rest.begin(), rest.end());
    const ExprId value = lowering.lower_root(root, from, add, resolve);
    Index row_start = rest_index();
    row_start.insert(row_start.begin(), Affine(0));
    Store store{buffer, flatten(row_start, shape), value, lowering.row()};
    store.limit = shape[0];
    store.scale = shape[0] == 0 ? 0 : num_elements(shape) / shape[0];
    add.stores.push_back(store);
    kernel.stages.push_back(std::move(add));
  }

  const Graph& graph_;
  const FuseOptions& options_;
  Roots roots_;
  std::vector<Group> groups_;
  std::vector<int> group_of_;
  std::vector<std::vector<int>> readers_;  // groups that read a value
  std::set<NodeId> alone_;
};

}  // namespace

std::vector<Kernel> fuse(const Graph& graph, const FuseOptions& options) { return Fuser(graph, options).run(); }

}  // namespace wholestep::loops
