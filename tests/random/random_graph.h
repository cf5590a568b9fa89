#pragma once
// Random graphs, well-typed, from the whole op table, with values on which two devices can be compared: intervals are
// tracked so that nothing overflows or comes near a pole, and an op that jumps (floor, less, argmax) is applied only to
// values that every device computes to the last bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "graph/op.h"
#include "wholestep/ops.h"

namespace wholestep::testing {

/// A graph and a value for each of its inputs, parameters and states.
struct RandomGraph {
  Graph graph;
  NamedArrays values;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed)
      : random_(seed, 0),
        result_{Graph("random" + std::to_string(seed)), {}},
        draws_(seed % 10 == 0),
        gradients_(chance(0.5)) {
    static constexpr std::array kExtents = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 19, 31, 32, 33, 37, 40};
    const auto extent = [&]() -> std::int64_t { return chance(0.02) ? 0 : kExtents[below(kExtents.size())]; };
    const std::int64_t rows = extent(), columns = extent(), batch = 1 + static_cast<std::int64_t>(below(3));
    shapes_ = {{rows, columns},        {rows, columns}, {columns}, {rows, 1}, {1, columns}, {},
               {batch, rows, columns}, {rows}};
  }

  RandomGraph make() {
    const std::size_t sources = 2 + below(3);
    for (std::size_t i = 0; i < sources; ++i) add(source(pick_shape(), pick_float()));
    if (chance(0.6)) add(integers(pick_shape()));
    std::size_t left = 3 + below(12);
    for (int attempts = 0; left > 0 && attempts < 80; ++attempts) {
      if (const auto value = (this->*kSteps[below(std::size(kSteps))])()) {
        add(*value);
        --left;
      }
    }
    if (draws_) add_drawn();
    finish();
    return std::move(result_);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kLargest = 1000;
  static constexpr std::int64_t kMostElements = 4000;

  /// A value: all elements are in [low, high]; `exact` ones have the same bits on every device.
  struct Value {
    Tensor tensor;
    double low, high;
    bool exact;
    const Shape& shape() const { return tensor.shape(); }
    DType dtype() const { return tensor.dtype(); }
    double bound() const { return std::max(std::abs(low), std::abs(high)); }
  };
  using Maybe = std::optional<Value>;
  enum class Smoothness { smooth, kink, jump };

  // Chance.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_.below(n)); }
  bool chance(double p) { return random_.uniform() < p; }
  DType pick_float() {
    if (chance(0.7)) return f32;
    if (chance(0.4)) return f64;
    return gradients_ || chance(0.5) ? bf16 : f16;  // gradients outgrow f16
  }
  const Shape& pick_shape() { return shapes_[below(shapes_.size())]; }

  // Values that exist.
  void add(const Value& value) { pool_.push_back(value); }
  template <class Wanted>
  Maybe pick(const Wanted& wanted) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      if (wanted(pool_[i])) found.insert(found.end(), i + 4 < pool_.size() ? 1 : 3, i);  // recent ones more often
    }
    return found.empty() ? Maybe() : pool_[found[below(found.size())]];
  }
  static bool is_number(const Value& v) { return v.dtype() != boolean; }
  static bool floating(const Value& v) { return is_float(v.dtype()); }
  static bool small(const Shape& shape) { return num_elements(shape) <= kMostElements; }
  /// Whether an op of this smoothness gives comparable results on `v`.
  bool comparable(const Value& v, Smoothness smoothness) const {
    return v.exact || smoothness == Smoothness::smooth || (smoothness == Smoothness::kink && !gradients_);
  }
  static std::optional<Shape> common(const Shape& a, const Shape& b) {
    Shape shape(std::max(a.size(), b.size()), 1);
    for (const Shape* s : {&a, &b}) {
      for (std::size_t i = 0; i < s->size(); ++i) {
        std::int64_t& extent = shape[shape.size() - s->size() + i];
        if (extent != 1 && (*s)[i] != 1 && extent != (*s)[i]) return std::nullopt;
        if (extent == 1) extent = (*s)[i];
      }
    }
    return shape;
  }
  /// A value of the dtype of `a` that combines with it by broadcasting.
  Maybe partner(const Value& a) {
    return pick([&](const Value& b) {
      const auto shape = common(a.shape(), b.shape());
      return b.dtype() == a.dtype() && shape && small(*shape);
    });
  }
  /// `v`, squeezed well into [low, high] where it might be outside.
  Value fit(const Value& v, double low, double high) {
    if (v.low >= low && v.high <= high) return v;
    if (high > 100) high = low + 6;  // so that rounding at the far end does not reach the near one
    return {add_scaled(tanh(v.tensor), 0.45 * (high - low), (high + low) / 2), low, high, false};
  }
  static Tensor add_scaled(Tensor x, double scale, double offset) { return wholestep::add(mul(x, scale), offset); }

  // Sources.
  std::string new_name(const char* kind) { return kind + std::to_string(names_++); }
  std::vector<double> uniform(std::int64_t count, double low, double high) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& x : values) x = low + (high - low) * random_.uniform();
    return values;
  }
  Value source(const Shape& shape, DType dtype) {
    const bool positive = chance(0.3);
    const double low = positive ? 0.5 : -2, high = positive ? 1.5 : 2;
    const std::vector<double> values = uniform(num_elements(shape), low, high);
    if (chance(0.1)) return {result_.graph.constant(Array::from_doubles({dtype, shape}, values)), low, high, true};
    const bool param = chance(0.6);
    const std::string name = new_name(param ? "p" : "x");
    result_.values.emplace_back(name, Array::from_doubles({dtype, shape}, values));
    if (param) params_.push_back(name);
    return {param ? result_.graph.param(name, shape, dtype) : result_.graph.input(name, shape, dtype), low, high, true};
  }
  /// An integer input with values in [low, high).
  Value indices(const Shape& shape, DType dtype, std::int64_t low, std::int64_t high) {
    const std::string name = new_name("i");
    std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
    for (double& x : values)
      x = static_cast<double>(low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low))));
    result_.values.emplace_back(name, Array::from_doubles({dtype, shape}, values));
    return {result_.graph.input(name, shape, dtype), static_cast<double>(low), static_cast<double>(high - 1), true};
  }
  Value integers(const Shape& shape) {
    const DType dtype = std::array{i32, i32, i64, u8}[below(4)];
    if (dtype == u8) return indices(shape, u8, 0, chance(0.5) ? 10 : 256);
    if (chance(0.2))
      return indices(shape, dtype, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
    return indices(shape, dtype, -9, 10);
  }
  Maybe new_source() { return chance(0.7) ? source(pick_shape(), pick_float()) : integers(pick_shape()); }
  DType pick_index() { return std::array{i32, i64}[below(2)]; }

  // Element-wise ops.
  struct UnaryCase {
    std::string name;
    double low, high;            // where it is used
    double (*monotone)(double);  // gives the result's interval; else:
    double result_low, result_high;
    Smoothness smoothness = Smoothness::smooth;
    bool exact = false;  // rounds once
  };
  static const std::vector<UnaryCase>& unary_cases() {
    constexpr Smoothness kKink = Smoothness::kink, kJump = Smoothness::jump;
    constexpr double kAny = kLargest;
    static const std::vector<UnaryCase> cases = with_other_ops({
        {"neg", -kAny, kAny, [](double x) { return -x; }, 0, 0, Smoothness::smooth, true},
        {"abs", -kAny, kAny, nullptr, 0, kAny, kKink, true},
        {"relu", -kAny, kAny, [](double x) { return std::max(x, 0.0); }, 0, 0, kKink, true},
        {"sign", -kAny, kAny, nullptr, -1, 1, kJump, true},
        {"ceil", -kAny, kAny, std::ceil, 0, 0, kJump, true},
        {"floor", -kAny, kAny, std::floor, 0, 0, kJump, true},
        {"round", -kAny, kAny, std::nearbyint, 0, 0, kJump, true},
        {"trunc", -kAny, kAny, std::trunc, 0, 0, kJump, true},
        {"sqrt", 0.2, kAny, std::sqrt, 0, 0, Smoothness::smooth, true},
        {"rsqrt", 0.2, kAny, [](double x) { return 1 / std::sqrt(x); }, 0, 0},
        {"reciprocal", 0.3, kAny, [](double x) { return 1 / x; }, 0, 0, Smoothness::smooth, true},
        {"square", -30, 30, nullptr, 0, 900, Smoothness::smooth, true},
        {"exp", -5, 3, std::exp, 0, 0},
        {"expm1", -5, 3, std::expm1, 0, 0},
        {"log", 0.2, kAny, std::log, 0, 0},
        {"log1p", -0.7, kAny, std::log1p, 0, 0},
        {"sin", -30, 30, nullptr, -1, 1},
        {"cos", -30, 30, nullptr, -1, 1},
        {"tan", -1.2, 1.2, std::tan, 0, 0},
        {"asin", -0.9, 0.9, std::asin, 0, 0},
        {"acos", -0.9, 0.9, std::acos, 0, 0},
        {"atan", -kAny, kAny, std::atan, 0, 0},
        {"sinh", -3, 3, std::sinh, 0, 0},
        {"cosh", -3, 3, nullptr, 1, 10.1},
        {"tanh", -kAny, kAny, std::tanh, 0, 0},
        {"asinh", -kAny, kAny, std::asinh, 0, 0},
        {"acosh", 1.2, kAny, std::acosh, 0, 0},
        {"atanh", -0.9, 0.9, std::atanh, 0, 0},
        {"erf", -kAny, kAny, std::erf, 0, 0},
        {"erfc", -3, 3, std::erfc, 0, 0},
        {"sigmoid", -50, 50, nullptr, 0, 1},
        {"log_sigmoid", -50, 50, nullptr, -50, 0},
        {"softsign", -kAny, kAny, nullptr, -1, 1},
        {"silu", -50, 50, nullptr, -0.3, 50},
        {"gelu", -50, 50, nullptr, -0.2, 50},
        {"gelu_tanh", -50, 50, nullptr, -0.2, 50},
    });
    return cases;
  }
  /// The element-wise ops of one number that are not listed above, on the range of their first example; there, the
  /// table's own evaluation tells the result's interval.
  static std::vector<UnaryCase> with_other_ops(std::vector<UnaryCase> cases) {
    const std::size_t listed = cases.size();
    for (const OpDef* op : op_table().all()) {
      const bool known = std::any_of(cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(listed),
                                     [&](const UnaryCase& c) { return c.name == op->name; });
      const bool smooth = std::holds_alternative<GradientRule>(op->gradient);
      if (known || !smooth || op->kind != OpKind::elementwise || op->max_operands != 1 || !op->attrs.empty()) continue;
      const auto example = std::find_if(op->examples.begin(), op->examples.end(),
                                        [](const OpExample& e) { return is_float(e.operands[0].dtype); });
      if (example == op->examples.end()) continue;
      const auto [low, high] = example->ranges.empty() ? std::pair(-2.0, 2.0) : example->ranges[0];
      HostValue x({f64, {65}}), y(x.type);
      for (int i = 0; i <= 64; ++i) x.real[static_cast<std::size_t>(i)] = low + (high - low) * i / 64;
      const Node node{op, {0}, {}, y.type, {}};
      op->evaluate({node, {&x}, y});
      const auto [least, most] = std::minmax_element(y.real.begin(), y.real.end());
      const double margin = 0.1 * (*most - *least);
      cases.push_back({op->name, low, high, nullptr, *least - margin, *most + margin});
    }
    return cases;
  }
  Maybe unary() {
    const UnaryCase& f = unary_cases()[below(unary_cases().size())];
    const Maybe x = pick([&](const Value& v) { return floating(v) && comparable(v, f.smoothness); });
    if (!x) return {};
    const Value inside = fit(*x, f.low, f.high);
    if (!comparable(inside, f.smoothness)) return {};
    double low = f.result_low, high = f.result_high;
    if (f.monotone) std::tie(low, high) = std::minmax({f.monotone(inside.low), f.monotone(inside.high)});
    return Value{result_.graph.apply(f.name, {inside.tensor}), low, high, f.exact && inside.exact};
  }

  Maybe binary() {
    const Maybe a = pick(floating);
    const Maybe b = a ? partner(*a) : Maybe();
    if (!b) return {};
    const bool exact = a->exact && b->exact;
    const auto corners = [&](const auto& f, const Value& x, const Value& y) {
      return std::minmax({f(x.low, y.low), f(x.low, y.high), f(x.high, y.low), f(x.high, y.high)});
    };
    const auto result = [&](Tensor t, std::pair<double, double> interval, bool is_exact) -> Maybe {
      if (std::max(std::abs(interval.first), std::abs(interval.second)) > kLargest) return {};
      return Value{t, interval.first, interval.second, is_exact};
    };
    switch (below(10)) {
      case 0:
      case 1:
        return result(wholestep::add(a->tensor, b->tensor), {a->low + b->low, a->high + b->high}, exact);
      case 2:
        return result(sub(a->tensor, b->tensor), {a->low - b->high, a->high - b->low}, exact);
      case 3:
      case 4:
        return result(mul(a->tensor, b->tensor), corners(std::multiplies<double>(), *a, *b), exact);
      case 5: {
        const Value by = b->low > 0.25 || b->high < -0.25 ? *b : fit(*b, 0.5, 2.5);
        return result(div(a->tensor, by.tensor), corners(std::divides<double>(), *a, by), a->exact && by.exact);
      }
      case 6: {
        const Value base = fit(*a, 0.3, 3), power = fit(*b, -2, 2);
        return result(pow(base.tensor, power.tensor), {0, 12}, false);
      }
      case 7: {
        const Value right = fit(*b, 0.3, kLargest);
        return result(atan2(a->tensor, right.tensor), {-1.6, 1.6}, false);
      }
      case 8: {
        if (!exact || b->low < 0.25) return {};
        return result(rem(a->tensor, b->tensor), {-b->high, b->high}, true);
      }
      default: {
        if (!comparable(*a, Smoothness::kink) || !comparable(*b, Smoothness::kink)) return {};
        const bool larger = chance(0.5);
        return result(larger ? maximum(a->tensor, b->tensor) : minimum(a->tensor, b->tensor),
                      {std::min(a->low, b->low), std::max(a->high, b->high)}, exact);
      }
    }
  }

  Maybe scaled() {
    const Maybe x = pick(floating);
    if (!x || x->bound() > 100) return {};
    return Value{add_scaled(x->tensor, -1.5, 0.25), -1.5 * x->high + 0.25, -1.5 * x->low + 0.25, x->exact};
  }

  Maybe integer_unary() {
    static constexpr std::array kOps = {"neg", "abs", "sign", "square", "bit_not"};
    const Maybe x = pick([](const Value& v) { return is_integer(v.dtype()); });
    if (!x) return {};
    return Value{result_.graph.apply(kOps[below(kOps.size())], {x->tensor}), -kInfinity, kInfinity, true};
  }

  Maybe integer_binary() {
    static constexpr std::array kOps = {"add",     "sub",     "mul",    "div",     "rem",        "maximum",
                                        "minimum", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"};
    const Maybe a = pick([](const Value& v) { return is_integer(v.dtype()); });
    const Maybe b = a ? partner(*a) : Maybe();
    if (!b) return {};
    const Shape shape = *common(a->shape(), b->shape());
    const char* op = kOps[below(kOps.size())];
    return Value{result_.graph.apply(op, {broadcast(a->tensor, shape), broadcast(b->tensor, shape)}), -kInfinity,
                 kInfinity, true};
  }

  Maybe compare() {
    static constexpr std::array kOps = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
    if (chance(0.1)) {
      const Maybe x = pick(floating);
      if (x) return Value{is_nan(x->tensor), 0, 1, true};
    }
    const Maybe a = pick([&](const Value& v) { return is_number(v) && v.exact; });
    const Maybe b = a ? partner(*a) : Maybe();
    if (!b || !b->exact) return {};
    const Shape shape = *common(a->shape(), b->shape());
    return Value{
        result_.graph.apply(kOps[below(kOps.size())], {broadcast(a->tensor, shape), broadcast(b->tensor, shape)}), 0, 1,
        true};
  }

  Maybe logic() {
    const Maybe a = pick([](const Value& v) { return v.dtype() == boolean; });
    const Maybe b = a ? partner(*a) : Maybe();
    if (!b) return {};
    switch (below(4)) {
      case 0:
        return Value{logical_and(a->tensor, b->tensor), 0, 1, true};
      case 1:
        return Value{logical_or(a->tensor, b->tensor), 0, 1, true};
      case 2:
        return Value{logical_xor(a->tensor, b->tensor), 0, 1, true};
      default:
        return Value{logical_not(a->tensor), 0, 1, true};
    }
  }

  Maybe choose() {
    const Maybe condition = pick([](const Value& v) { return v.dtype() == boolean; });
    if (!condition) return {};
    const auto combines = [&](const Value& v) {
      const auto shape = common(condition->shape(), v.shape());
      return is_number(v) && shape && *shape == condition->shape();
    };
    const Maybe a = pick(combines);
    const Maybe b = a ? pick([&](const Value& v) { return combines(v) && v.dtype() == a->dtype(); }) : Maybe();
    if (!b) return {};
    return Value{
        select(condition->tensor, broadcast(a->tensor, condition->shape()), broadcast(b->tensor, condition->shape())),
        std::min(a->low, b->low), std::max(a->high, b->high), a->exact && b->exact};
  }

  Maybe convert() {
    const Maybe x = pick([](const Value&) { return true; });
    const DType to = chance(0.7) ? pick_float() : std::array{i32, i64, u8, boolean}[below(4)];
    if (!x || to == x->dtype()) return {};
    if (is_float(to)) {
      if (x->bound() > kLargest) return {};
      const double slack = x->bound() / 100;  // rounding to bf16
      return Value{cast(x->tensor, to), x->low - slack, x->high + slack, x->exact};
    }
    if (!x->exact) return {};
    const bool kept = x->bound() <= kLargest && to != u8 && to != boolean;
    return Value{cast(x->tensor, to),
                 to == boolean ? 0
                 : kept        ? x->low - 1
                               : -kInfinity,
                 to == boolean ? 1
                 : kept        ? x->high + 1
                               : kInfinity,
                 true};
  }

  // Views.
  Maybe view() {
    const Maybe x = pick([](const Value&) { return true; });
    if (!x) return {};
    const Shape shape = x->shape();
    const auto same = [&](Tensor t) { return Value{t, x->low, x->high, x->exact}; };
    switch (below(6)) {
      case 0:
        return same(flatten(x->tensor, shape.size() > 1 ? static_cast<std::int64_t>(below(shape.size() - 1)) : 0));
      case 1: {
        std::vector<std::int64_t> perm(shape.size());
        for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<std::int64_t>(i);
        for (std::size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[below(i)]);
        return same(transpose(x->tensor, perm));
      }
      case 2: {
        Shape larger = shape;
        for (std::int64_t& extent : larger) extent = extent == 1 ? 1 + static_cast<std::int64_t>(below(9)) : extent;
        if (chance(0.4)) larger.insert(larger.begin(), 1 + static_cast<std::int64_t>(below(3)));
        return small(larger) ? Maybe(same(broadcast(x->tensor, larger))) : Maybe();
      }
      case 3: {
        std::vector<std::int64_t> starts, limits, strides;
        for (const std::int64_t extent : shape) {
          starts.push_back(static_cast<std::int64_t>(below(static_cast<std::size_t>(extent) / 2 + 1)));
          limits.push_back(extent -
                           static_cast<std::int64_t>(below(static_cast<std::size_t>(extent - starts.back()) / 2 + 1)));
          strides.push_back(chance(0.7) ? 1 : 1 + static_cast<std::int64_t>(below(3)));
        }
        return same(slice(x->tensor, starts, limits, strides));
      }
      case 4: {
        std::vector<std::int64_t> low, high;
        Shape padded = shape;
        for (std::size_t i = 0; i < shape.size(); ++i) {
          low.push_back(static_cast<std::int64_t>(below(3)));
          high.push_back(static_cast<std::int64_t>(below(3)));
          padded[i] += low[i] + high[i];
        }
        const double value = chance(0.5) ? 0 : 1;
        if (!small(padded)) return {};
        return Value{pad(x->tensor, low, high, value), std::min(x->low, value), std::max(x->high, value), x->exact};
      }
      default:
        return split_axis(*x);
    }
  }
  /// Reshapes [.., a * b, ..] to [.., a, b, ..].
  Maybe split_axis(const Value& x) {
    Shape shape = x.shape();
    if (shape.empty() || shape.size() > 3) return {};
    const std::size_t axis = below(shape.size());
    for (const std::int64_t factor : {2, 3, 5}) {
      if (shape[axis] == 0 || shape[axis] % factor != 0) continue;
      shape[axis] /= factor;
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), factor);
      return Value{reshape(x.tensor, shape), x.low, x.high, x.exact};
    }
    return {};
  }
  Maybe join() {
    const Maybe a = pick([](const Value& v) { return !v.shape().empty(); });
    if (!a) return {};
    const std::size_t axis = below(a->shape().size());
    const auto follows = [&](const Value& v) {
      Shape shape = v.shape();
      if (v.dtype() != a->dtype() || shape.size() != a->shape().size()) return false;
      shape[axis] = a->shape()[axis];
      return shape == a->shape() && num_elements(v.shape()) + num_elements(shape) <= kMostElements;
    };
    const Maybe b = pick(follows);
    if (!b) return {};
    return Value{concat({a->tensor, b->tensor}, static_cast<std::int64_t>(axis)), std::min(a->low, b->low),
                 std::max(a->high, b->high), a->exact && b->exact};
  }
  Maybe positions() {
    Shape shape = pick_shape();
    if (shape.empty()) return {};
    const std::size_t axis = below(shape.size());
    const DType dtype = chance(0.5) ? pick_float() : pick_index();
    const auto high = static_cast<double>(std::max<std::int64_t>(shape[axis] - 1, 0));
    return Value{iota(result_.graph, shape, static_cast<std::int64_t>(axis), dtype), 0, high, true};
  }

  // Reductions and products.
  Maybe reduction() {
    const Maybe x = pick([](const Value&) { return true; });
    if (!x) return {};
    std::vector<std::int64_t> axes;
    std::int64_t group = 1;
    for (std::size_t i = 0; i < x->shape().size(); ++i) {
      if (chance(0.4)) continue;
      axes.push_back(static_cast<std::int64_t>(i));
      group *= x->shape()[i];
    }
    const bool keepdims = chance(0.4);
    const auto count = static_cast<double>(group);
    const bool extreme = chance(0.4);
    if (extreme && group > 0 && comparable(*x, Smoothness::kink)) {
      return Value{chance(0.5) ? reduce_max(x->tensor, axes, keepdims) : reduce_min(x->tensor, axes, keepdims), x->low,
                   x->high, x->exact};
    }
    if (x->dtype() == boolean) return {};
    if (!floating(*x)) {
      return Value{chance(0.7) ? sum(x->tensor, axes, keepdims) : prod(x->tensor, axes, keepdims), -kInfinity,
                   kInfinity, true};
    }
    if (chance(0.15) && group <= 12) return Value{prod(fit(*x, 0.6, 1.4).tensor, axes, keepdims), 0, 60, false};
    if (group > 0 && (chance(0.3) || x->bound() * count > kLargest))
      return Value{mean(x->tensor, axes, keepdims), x->low, x->high, false};
    if (x->bound() * count > kLargest) return {};
    return Value{sum(x->tensor, axes, keepdims), std::min(0.0, x->low * count), std::max(0.0, x->high * count), false};
  }
  Maybe position_of_extreme() {
    const Maybe x = pick([](const Value& v) { return v.exact && !v.shape().empty(); });
    if (!x) return {};
    const std::size_t axis = below(x->shape().size());
    if (x->shape()[axis] == 0) return {};
    const auto at = static_cast<std::int64_t>(axis);
    const auto high = static_cast<double>(x->shape()[axis] - 1);
    const bool keepdims = chance(0.3);
    return Value{chance(0.5) ? argmax(x->tensor, at, keepdims) : argmin(x->tensor, at, keepdims), 0, high, true};
  }
  Maybe product() {
    const Maybe a = pick([](const Value& v) { return is_number(v) && v.shape().size() >= 2; });
    if (!a) return {};
    const bool transpose_a = chance(0.3), transpose_b = chance(0.3);
    const std::size_t rank = a->shape().size();
    const std::int64_t k = a->shape()[transpose_a ? rank - 2 : rank - 1];
    const std::int64_t inner = static_cast<std::int64_t>(rank) - (transpose_b ? 1 : 2);
    Maybe b = pick([&](const Value& v) {
      return v.dtype() == a->dtype() && (v.shape().size() == 2 || v.shape().size() == rank) &&
             v.shape()[static_cast<std::size_t>(inner) - (rank - v.shape().size())] == k &&
             common({a->shape().begin(), a->shape().end() - 2}, {v.shape().begin(), v.shape().end() - 2});
    });
    if (!b && floating(*a)) {
      const std::int64_t n = 1 + static_cast<std::int64_t>(below(40));
      b = source(transpose_b ? Shape{n, k} : Shape{k, n}, a->dtype());
    }
    if (!b) return {};
    Tensor t = matmul(a->tensor, b->tensor, transpose_a, transpose_b);
    if (!small(t.shape())) return {};
    if (!floating(*a)) return Value{t, -kInfinity, kInfinity, true};
    const double bound = a->bound() * b->bound() * static_cast<double>(k);
    if (bound <= kLargest) return Value{t, -bound, bound, false};
    if (a->dtype() == f16) return {};
    return Value{mul(t, 1.0 / static_cast<double>(std::int64_t{1} << static_cast<int>(std::log2(bound / 16)))), -33, 33,
                 false};
  }
  Maybe gathered() {
    const Maybe table = pick([](const Value& v) { return !v.shape().empty() && v.shape()[0] > 0; });
    if (!table) return {};
    const Shape shape = chance(0.3) ? Shape{} : Shape{1 + static_cast<std::int64_t>(below(12))};
    const Maybe computed = pick([](const Value& v) { return is_integer(v.dtype()) && v.shape().size() <= 1; });
    const bool any = computed && chance(0.3);
    Tensor index =
        any ? wholestep::add(computed->tensor, 0.0) : indices(shape, pick_index(), 0, table->shape()[0]).tensor;
    Tensor rows = gather_rows(table->tensor, index);
    return small(rows.shape()) ? Maybe(Value{rows, table->low, table->high, table->exact}) : Maybe();
  }
  Maybe scattered() {
    const Maybe base = pick([](const Value& v) { return is_number(v) && !v.shape().empty(); });
    if (!base || base->dtype() == bf16 || base->dtype() == f16) return {};
    const Maybe updates = pick([&](const Value& v) {
      return v.dtype() == base->dtype() && v.shape().size() == base->shape().size() &&
             std::equal(v.shape().begin() + 1, v.shape().end(), base->shape().begin() + 1);
    });
    const std::int64_t rows = updates->shape()[0];
    const double bound = base->bound() + static_cast<double>(rows) * updates->bound();
    if (floating(*base) && bound > kLargest) return {};
    const Value index = indices({rows}, pick_index(), -1, base->shape()[0] + 1);
    return Value{scatter_add_rows(base->tensor, index.tensor, updates->tensor), -bound, bound, !floating(*base)};
  }

  // Classification.
  Maybe marked() {
    const std::int64_t depth = 1 + static_cast<std::int64_t>(below(20));
    const Value labels =
        indices(chance(0.3) ? Shape{} : Shape{1 + static_cast<std::int64_t>(below(20))}, pick_index(), 0, depth);
    return Value{one_hot(labels.tensor, depth, chance(0.7) ? pick_float() : boolean), 0, 1, true};
  }
  Maybe probabilities() {
    const Maybe x = pick([](const Value& v) { return floating(v) && !v.shape().empty(); });
    if (!x) return {};
    const auto axis = static_cast<std::int64_t>(below(x->shape().size()));
    const Value inside = fit(*x, -50, 50);
    if (chance(0.5)) return Value{softmax(inside.tensor, axis), 0, 1, false};
    return Value{log_softmax(inside.tensor, axis), -110, 0, false};
  }
  Maybe loss_of() {
    const Maybe x = pick([](const Value& v) { return floating(v) && num_elements(v.shape()) > 0; });
    if (!x) return {};
    if (chance(0.3)) {
      const Maybe target = pick([&](const Value& v) { return v.dtype() == x->dtype() && v.shape() == x->shape(); });
      const Value a = fit(*x, -10, 10), b = fit(*target, -10, 10);
      return Value{squared_error(a.tensor, b.tensor), 0, 400, false};
    }
    if (x->shape().empty()) return {};
    const Shape rows(x->shape().begin(), x->shape().end() - 1);
    const Value labels = indices(rows, pick_index(), 0, x->shape().back());
    if (x->exact && chance(0.3))
      return Value{count_correct(x->tensor, labels.tensor), 0, static_cast<double>(num_elements(rows)), true};
    return Value{cross_entropy(fit(*x, -50, 50).tensor, labels.tensor), 0, 110, false};
  }

  using Step = Maybe (Generator::*)();
  static constexpr Step kSteps[] = {&Generator::unary,          &Generator::unary,
                                    &Generator::unary,          &Generator::unary,
                                    &Generator::unary,          &Generator::binary,
                                    &Generator::binary,         &Generator::binary,
                                    &Generator::binary,         &Generator::binary,
                                    &Generator::scaled,         &Generator::integer_unary,
                                    &Generator::integer_binary, &Generator::compare,
                                    &Generator::compare,        &Generator::logic,
                                    &Generator::choose,         &Generator::choose,
                                    &Generator::convert,        &Generator::convert,
                                    &Generator::view,           &Generator::view,
                                    &Generator::view,           &Generator::join,
                                    &Generator::positions,      &Generator::reduction,
                                    &Generator::reduction,      &Generator::reduction,
                                    &Generator::product,        &Generator::product,
                                    &Generator::product,        &Generator::gathered,
                                    &Generator::scattered,      &Generator::position_of_extreme,
                                    &Generator::probabilities,  &Generator::probabilities,
                                    &Generator::marked,         &Generator::loss_of,
                                    &Generator::loss_of,        &Generator::new_source};

  /// A value masked and scaled by random numbers. Not a step like the others, since they take long to compile.
  void add_drawn() {
    const Maybe x = pick([](const Value& v) { return floating(v) && v.bound() <= kLargest / 2; });
    if (!x) return;
    Tensor key = result_.graph.input("key", {4}, i32);
    result_.values.emplace_back("key", Array::from_doubles(key.type(), uniform(4, -0x1p31, 0x1p31)));
    const Tensor drawn = random_uniform(key, x->shape(), static_cast<std::int64_t>(below(3)), x->dtype());
    const double low = std::min(x->low, 0.0), high = std::max(x->high, 0.0);
    add({select(greater_equal(drawn, 0.25), x->tensor, 0.0), low, high, x->exact});
    add({multiply_add(x->tensor, drawn, x->tensor), low + x->low, high + x->high, false});
  }

  // Outputs.
  void finish() {
    std::vector<Tensor> outputs;
    std::vector<bool> used(result_.graph.nodes().size(), false);
    for (const Node& node : result_.graph.nodes()) {
      for (const NodeId id : node.operands) used[static_cast<std::size_t>(id)] = true;
    }
    for (const Value& value : pool_) {
      if (!used[static_cast<std::size_t>(value.tensor.id())] || chance(0.1)) outputs.push_back(value.tensor);
    }
    if (gradients_ && !params_.empty()) {
      finish_with_gradients(std::move(outputs));
      return;
    }
    if (chance(0.4)) add_state();
    result_.graph.set_outputs(outputs);
  }
  void add_state() {
    const Maybe x = pick([](const Value& v) { return floating(v) && v.bound() <= 100; });
    if (!x) return;
    const std::string name = new_name("s");
    Tensor state = result_.graph.state(name, x->shape(), x->dtype());
    result_.values.emplace_back(name, Array::from_doubles(x->tensor.type(), uniform(num_elements(x->shape()), -1, 1)));
    result_.graph.set_update(state, wholestep::add(mul(state, 0.5), x->tensor));
  }
  /// The loss is a sum of means over all floating-point results; parameters may take a step against their gradient.
  void finish_with_gradients(std::vector<Tensor> outputs) {
    Tensor loss = result_.graph.constant(0, f32);
    for (const Value& value : pool_) {
      if (!floating(value) || num_elements(value.shape()) == 0) continue;
      const bool is_output =
          std::any_of(outputs.begin(), outputs.end(), [&](Tensor t) { return t.id() == value.tensor.id(); });
      if (!is_output) continue;
      Tensor x = value.dtype() == f32 ? value.tensor : cast(value.tensor, f32);
      loss = wholestep::add(loss, mean(value.bound() < 10 ? square(x) : x));
    }
    outputs.insert(outputs.begin(), loss);
    result_.graph.set_outputs(outputs);
    result_.graph = gradients_with_loss(result_.graph, params_);
    result_.values.emplace_back("d_output", Array::scalar(1.0f));
    if (!chance(0.5)) return;
    const std::vector<NodeId> with_gradients = result_.graph.outputs();
    for (std::size_t i = 0; i < params_.size(); ++i) {
      Tensor param = result_.graph.find(params_[i]);
      Tensor grad = result_.graph.tensor(with_gradients[with_gradients.size() - params_.size() + i]);
      result_.graph.set_update(param, sub(param, mul(grad, 0.125)));
    }
  }

  random::Stream random_;
  RandomGraph result_;
  bool draws_;
  bool gradients_;
  std::vector<Shape> shapes_;
  std::vector<Value> pool_;
  std::vector<std::string> params_;
  int names_ = 0;
};

/// The random graph of `seed`.
inline RandomGraph random_graph(std::uint64_t seed) { return Generator(seed).make(); }

}  // namespace wholestep::testing
