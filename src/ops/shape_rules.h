#pragma once
// What the type rules and builders of shaped ops share: checks that never overflow, axes, and walks over elements.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep::rules {

inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

/// The graph of a builder's operand. Throws `invalid_argument` for a default-constructed tensor.
inline Graph& graph_of(std::string_view op, Tensor x) {
  if (!x.valid()) {
    throw Error(ErrorCode::invalid_argument, std::string(op) + ": an operand is a tensor of no graph");
  }
  return x.graph();
}

/// `axis` counted from the front: negative ones count from the back. Throws `invalid_argument`.
inline std::int64_t normalize_axis(std::string_view op, std::int64_t axis, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    throw Error(ErrorCode::invalid_argument, std::string(op) + ": axis " + std::to_string(axis) + " of " +
                                                 to_string(shape) + ", which has " + std::to_string(rank) + " axes");
  }
  return axis < 0 ? axis + rank : axis;
}

/// Every axis counted from the front, ascending. Throws `invalid_argument` for an axis that is missing or given twice.
inline std::vector<std::int64_t> normalize_axes(std::string_view op, std::vector<std::int64_t> axes,
                                                const Shape& shape) {
  for (std::int64_t& axis : axes) axis = normalize_axis(op, axis, shape);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    throw Error(ErrorCode::invalid_argument, std::string(op) + ": an axis of " + to_string(shape) + " is given twice");
  }
  return axes;
}

/// 0, 1, ... rank - 1.
inline std::vector<std::int64_t> all_axes(const Shape& shape) {
  std::vector<std::int64_t> axes(shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
  return axes;
}

/// Fails unless extents are non-negative and their product, zeros left out so that strides fit too, is at most 2^62.
inline void check_shape(const InferArgs& args, const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) args.fail(ErrorCode::invalid_argument, "negative extent in " + to_string(shape));
    if (extent > 0 && product > kMaxElements / extent) {
      args.fail(ErrorCode::invalid_argument, "more than 2^62 elements in " + to_string(shape));
    }
    if (extent > 0) product *= extent;
  }
}

/// Elements of a shape that `check_shape` has passed.
inline std::int64_t elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

/// a + b, both non-negative; fails above 2^62.
inline std::int64_t add_extents(const InferArgs& args, std::int64_t a, std::int64_t b) {
  if (a > kMaxElements - b) args.fail(ErrorCode::invalid_argument, "an extent above 2^62");
  return a + b;
}

/// Attribute `axis`, which must be an axis of `shape`.
inline std::int64_t axis_attr(const InferArgs& args, const Shape& shape) {
  const std::int64_t axis = args.attrs.get<std::int64_t>("axis");
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
    args.fail(ErrorCode::invalid_argument, "axis " + std::to_string(axis) + " is not an axis of " + to_string(shape));
  }
  return axis;
}

/// Attribute `axes`, which must be ascending axes of `shape`.
inline const std::vector<std::int64_t>& axes_attr(const InferArgs& args, const Shape& shape) {
  const auto& axes = args.attrs.get<std::vector<std::int64_t>>("axes");
  std::int64_t previous = -1;
  for (const std::int64_t axis : axes) {
    if (axis <= previous || axis >= static_cast<std::int64_t>(shape.size())) {
      args.fail(ErrorCode::invalid_argument,
                "axes " + to_string(axes) + " are not ascending axes of " + to_string(shape));
    }
    previous = axis;
  }
  return axes;
}

inline bool contains(const std::vector<std::int64_t>& axes, std::int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// `shape` with `axes` removed, or of extent 1 where `keepdims`.
inline Shape reduced_shape(const Shape& shape, const std::vector<std::int64_t>& axes, bool keepdims) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = contains(axes, static_cast<std::int64_t>(i));
    if (!reduced) result.push_back(shape[i]);
    if (reduced && keepdims) result.push_back(1);
  }
  return result;
}

/// Calls visit(flat, index) for every element of `shape`, in row-major order.
template <class Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  const std::int64_t count = elements(shape);
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::int64_t flat = 0; flat < count; ++flat) {
    visit(flat, index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

inline std::int64_t dot(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& strides) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < index.size(); ++i) sum += index[i] * strides[i];
  return sum;
}

/// to[to_index] = from[from_index]; equal dtypes.
inline void copy_element(const HostValue& from, std::int64_t from_index, HostValue& to, std::int64_t to_index) {
  if (is_float(to.type.dtype)) {
    to.real[static_cast<std::size_t>(to_index)] = from.real[static_cast<std::size_t>(from_index)];
  } else {
    to.integer[static_cast<std::size_t>(to_index)] = from.integer[static_cast<std::size_t>(from_index)];
  }
}

/// value[index] = x, an integer or boolean truncated to what it means as such.
inline void set_element(HostValue& value, std::int64_t index, double x) {
  if (is_float(value.type.dtype)) {
    value.real[static_cast<std::size_t>(index)] = x;
  } else {
    value.integer[static_cast<std::size_t>(index)] = static_cast<std::int64_t>(x);
  }
}

/// a + b and a * b modulo 2^64: what integer ops mean before they wrap to their dtype.
inline std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Smallest and largest value of an integer or boolean dtype.
inline std::pair<std::int64_t, std::int64_t> integer_range(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
    case DType::i32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case DType::u8:
      return {0, 255};
    default:
      return {0, 1};
  }
}

/// A walk over rows along `axis`: row r starts at `start(r)` and steps by `stride`.
struct Rows {
  std::int64_t count, extent, stride;
  Rows(const Shape& shape, std::int64_t axis) : count(1), extent(shape[static_cast<std::size_t>(axis)]), stride(1) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<std::int64_t>(i) != axis) count *= shape[i];
      if (static_cast<std::int64_t>(i) > axis) stride *= shape[i];
    }
  }
  std::int64_t start(std::int64_t row) const { return row / stride * stride * extent + row % stride; }
};

/// bf16 and f16, which composites compute in f32 and round once at the end.
inline bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }
/// `x` in f32 where it is bf16 or f16.
inline Tensor widen(Tensor x) { return is_half(x.dtype()) ? cast(x, DType::f32) : x; }
/// `x` in `dtype`.
inline Tensor narrow(Tensor x, DType dtype) { return x.dtype() == dtype ? x : cast(x, dtype); }

/// Loop expression `x` in the dtype that sums of `dtype` accumulate in.
inline loops::ExprId widen(LowerContext& ctx, loops::ExprId x) {
  return is_half(ctx.exprs()[x].dtype) ? ctx.exprs().cast(x, DType::f32) : x;
}
/// Loop expression `x` in the dtype of the node that is lowered.
inline loops::ExprId narrow(LowerContext& ctx, loops::ExprId x) {
  const DType dtype = ctx.node().type.dtype;
  return ctx.exprs()[x].dtype == dtype ? x : ctx.exprs().cast(x, dtype);
}

}  // namespace wholestep::rules
