// Groups of parameters by patterns on their names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "optim/rule.h"

namespace wholestep {
namespace {

using namespace optim;

/// Whether `text` is what `pattern` describes: * stands for any characters, ? for one. Where what follows a * does not
/// fit, the last * takes one character more: the earlier ones need never change, so the time is |pattern| * |text|.
bool matches(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0, t = 0, last_star = kNone, taken_until = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      last_star = p++;
      taken_until = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (last_star != kNone) {
      p = last_star + 1;
      t = ++taken_until;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

class GroupsRule final : public CompositeRule {
 public:
  GroupsRule(std::vector<ParameterGroup> groups, Optimizer rest) : groups_(std::move(groups)) {
    groups_.push_back({"*", std::move(rest)});
    for (const ParameterGroup& group : groups_) {
      if (!group.optimizer) {
        throw Error(ErrorCode::invalid_argument, fmt::format("groups: no optimizer given for \"{}\"", group.pattern));
      }
      require_non_negative("groups", fmt::format("lr_scale of \"{}\"", group.pattern), group.lr_scale);
    }
    require_positive("groups", "lr of the rest's optimizer", lr());
    for (const ParameterGroup& group : groups_) {
      require_non_negative("groups", fmt::format("the ratio of \"{}\" to lr of the rest", group.pattern), ratio(group));
    }
  }

  // With the patterns: a checkpoint is for the same choice of rules alone, even where their slots have the same names.
  std::string name() const override {
    std::vector<std::string> names;
    for (const ParameterGroup& group : groups_) {
      names.push_back(fmt::format("{:?}: {}", group.pattern, group.optimizer->name()));
    }
    return fmt::format("groups({})", fmt::join(names, ", "));
  }
  double lr() const override { return groups_.back().optimizer->lr(); }

  ParameterRule rule_for(std::string_view param, const TensorType& type) const override {
    const ParameterGroup& group = groups_[group_of(param)];
    ParameterRule chosen = group.optimizer->rule_for(param, type);
    chosen.lr_scale *= ratio(group);
    return chosen;
  }

  void check_parameters(const std::vector<std::pair<std::string, TensorType>>& params) const override {
    std::vector<std::vector<std::pair<std::string, TensorType>>> members(groups_.size());
    std::vector<std::string_view> names;
    for (const auto& param : params) {
      members[group_of(param.first)].push_back(param);
      names.push_back(param.first);
    }
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (members[i].empty() && i + 1 < groups_.size()) {
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("groups: pattern \"{}\" matches no parameter that earlier patterns leave; parameters: {}",
                        groups_[i].pattern, fmt::join(names, ", ")));
      }
      if (!members[i].empty()) groups_[i].optimizer->check_parameters(members[i]);
    }
  }

 private:
  /// Of the group's learning rate to that of the rest.
  double ratio(const ParameterGroup& group) const { return group.lr_scale * (group.optimizer->lr() / lr()); }
  std::size_t group_of(std::string_view param) const {
    std::size_t i = 0;
    while (!matches(groups_[i].pattern, param)) ++i;
    return i;
  }

  std::vector<ParameterGroup> groups_;  // the last takes the rest
};

}  // namespace

Optimizer groups(std::vector<ParameterGroup> groups, Optimizer rest) {
  return std::make_shared<GroupsRule>(std::move(groups), std::move(rest));
}

}  // namespace wholestep
