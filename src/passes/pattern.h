#pragma once
// Rewrite rules as the algebra they mean: what is written on the left, what replaces it, and when.
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep::passes {

/// A term: a variable (the same one twice is the same value twice), a constant (every element has exactly these bits),
/// or an op on terms.
struct Pattern {
  enum class Kind { variable, constant, op };
  Kind kind = Kind::variable;
  int variable = 0;
  double value = 0;
  std::string op;
  std::vector<Pattern> operands;
};

/// How the left side of a rule was found.
struct Match {
  std::array<Tensor, 3> variables;
  TensorType type;  // of the whole term
  Attrs outer;      // attributes of its op
  Attrs inner;      // attributes of the op inside it, if there is one
};

struct Rule {
  Pattern left;                              // an op
  Pattern right;                             // a variable, or an op on variables
  std::function<bool(const Match&)> when;    // always, where empty
  std::function<Attrs(const Match&)> attrs;  // of the op on the right; none, where empty
};

/// "neg(neg(x)) = x".
std::string to_string(const Rule& rule);

/// Rules, found by the op that they rewrite.
class RuleSet {
 public:
  explicit RuleSet(std::vector<Rule> rules);
  const std::vector<Rule>& rules() const { return rules_; }
  /// The value of `op` on `operands`, appended to `graph` only where no rule gives a simpler one. `type`: its type.
  Tensor emit(Graph& graph, const std::string& op, const std::vector<Tensor>& operands, const Attrs& attrs,
              const TensorType& type) const;

 private:
  std::vector<Rule> rules_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> by_op_;
};

/// The rules of the pass `simplify`.
const RuleSet& simplify_rules();

}  // namespace wholestep::passes
