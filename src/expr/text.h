#pragma once
#include <functional>
#include <string>
#include <vector>

#include "expr/expr.h"

namespace wholestep::loops {

/// An expression as text, shared parts written out. `buffers` are the names of the kernel's buffers.
std::string to_text(const std::vector<Expr>& exprs, ExprId id, const std::vector<std::string>& buffers);

/// Checks that `id` exists, comes after its operands and has the dtypes that its kind asks for. Throws `invalid_graph`
/// naming `where`.
void verify_expr(const std::vector<Expr>& exprs, ExprId id, std::size_t buffers, const std::string& where);

/// Calls `visit` once for `id` and each expression below it, operands first.
void for_each_below(const std::vector<Expr>& exprs, ExprId id, const std::function<void(ExprId)>& visit);

}  // namespace wholestep::loops
