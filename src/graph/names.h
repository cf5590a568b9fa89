#pragma once
// What messages say about a name that is not there.
#include <string>
#include <string_view>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep {

/// Names for a message: each in quotes, or `none`; of more than twenty the first twenty and how many more there are.
std::string list_names(const std::vector<std::string>& names);
/// The same of nodes of op `kind` ("param", "input", "state").
std::string list_names(const Graph& graph, std::string_view kind);

/// Whether `name` is a parameter of `graph`.
bool is_param(const Graph& graph, std::string_view name);

/// Throws `unknown_name`, listing the parameters there are, where it is not.
void check_param(const Graph& graph, std::string_view name);

}  // namespace wholestep
