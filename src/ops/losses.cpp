// Losses over a batch, and the count of correct predictions.
#include <cmath>

#include "ops/shape_rules.h"

namespace wholestep {
namespace {

// logits [..., C], C >= 1, integer labels [...].
void check_labels(const InferArgs& args) {
  const TensorType &logits = args.operands[0], &labels = args.operands[1];
  if (!is_float(logits.dtype)) args.fail(ErrorCode::dtype_mismatch, "expected floating-point logits");
  if (!is_integer(labels.dtype)) args.fail(ErrorCode::dtype_mismatch, "expected integer labels");
  if (logits.shape.empty() || logits.shape.back() == 0) {
    args.fail(ErrorCode::shape_mismatch, "expected logits [..., classes] with at least one class");
  }
  const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  if (labels.shape != rows) args.fail(ErrorCode::shape_mismatch, "expected labels of shape " + to_string(rows));
}

// Rows of logits, as a number to divide by.
double row_count(const Shape& logits) {
  return static_cast<double>(rules::elements({logits.begin(), logits.end() - 1}));
}

TensorType infer_cross_entropy(const InferArgs& args) {
  check_labels(args);
  return {args.operands[0].dtype, {}};
}

void evaluate_cross_entropy(const EvalArgs& args) {
  const HostValue &logits = *args.operands[0], &labels = *args.operands[1];
  const std::int64_t classes = logits.type.shape.back();
  double total = 0;
  for (std::int64_t row = 0; row < labels.size(); ++row) {
    const double* x = logits.real.data() + row * classes;
    const std::int64_t label = labels.integer[static_cast<std::size_t>(row)];
    const double largest = *std::max_element(x, x + classes);
    double sum = 0;
    for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(x[i] - largest);
    const bool known = label >= 0 && label < classes;
    total += std::log(sum) - (known ? x[label] - largest : -std::numeric_limits<double>::infinity());
  }
  args.result.real[0] = total / static_cast<double>(labels.size());
}

Tensor decompose_cross_entropy(Graph& graph, const Node&, const std::vector<Tensor>& operands) {
  Tensor x = rules::widen(operands[0]);
  const Shape shape = x.shape();
  const std::int64_t last = x.rank() - 1;
  Tensor shifted = sub(x, broadcast(reduce_max(x, {last}, true), shape));
  Tensor normalizer = log(reduce_sum(exp(shifted), {last}, true));
  // A row whose label is no class finds nothing: its loss is infinite, not silently some number.
  Tensor nothing = graph.full(shape, -std::numeric_limits<double>::infinity(), x.dtype());
  Tensor picked =
      reduce_max(select(one_hot(operands[1], shape.back(), DType::boolean), shifted, nothing), {last}, true);
  return rules::narrow(reduce_mean(sub(normalizer, picked)), operands[0].dtype());
}

std::vector<Tensor> gradient_of_cross_entropy(const GradientArgs& args) {
  if (!args.wanted[0]) return {Tensor(), Tensor()};
  Tensor logits = args.operands[0], labels = args.operands[1];
  const Shape shape = logits.shape();
  Tensor each = broadcast(div(args.cotangent, row_count(shape)), shape);
  return {mul(sub(softmax(logits), one_hot(labels, shape.back(), logits.dtype())), each), Tensor()};
}

TensorType infer_squared_error(const InferArgs& args) {
  if (!is_float(args.operands[0].dtype) || args.operands[0].dtype != args.operands[1].dtype) {
    args.fail(ErrorCode::dtype_mismatch, "expected a prediction and a target of one floating-point type");
  }
  if (args.operands[0].shape != args.operands[1].shape) {
    args.fail(ErrorCode::shape_mismatch, "expected a prediction and a target of one shape");
  }
  return {args.operands[0].dtype, {}};
}

void evaluate_squared_error(const EvalArgs& args) {
  const HostValue &prediction = *args.operands[0], &target = *args.operands[1];
  double total = 0;
  for (std::size_t i = 0; i < prediction.real.size(); ++i) {
    const double error = prediction.real[i] - target.real[i];
    total += error * error;
  }
  args.result.real[0] = total / static_cast<double>(prediction.real.size());
}

Tensor decompose_squared_error(Graph&, const Node&, const std::vector<Tensor>& operands) {
  Tensor error = sub(rules::widen(operands[0]), rules::widen(operands[1]));
  return rules::narrow(reduce_mean(mul(error, error)), operands[0].dtype());
}

std::vector<Tensor> gradient_of_squared_error(const GradientArgs& args) {
  Tensor prediction = args.operands[0], target = args.operands[1];
  const Shape shape = prediction.shape();
  const auto count = static_cast<double>(rules::elements(shape));
  Tensor each = broadcast(div(mul(args.cotangent, 2.0), count), shape);
  Tensor grad = mul(sub(prediction, target), each);
  return {args.wanted[0] ? grad : Tensor(), args.wanted[1] ? neg(grad) : Tensor()};
}

TensorType infer_count_correct(const InferArgs& args) {
  check_labels(args);
  return {DType::i32, {}};
}

void evaluate_count_correct(const EvalArgs& args) {
  const HostValue &logits = *args.operands[0], &labels = *args.operands[1];
  const std::int64_t classes = logits.type.shape.back();
  const auto precedes = [](double a, double b) { return !std::isnan(b) && (std::isnan(a) || a > b); };
  std::int64_t correct = 0;
  for (std::int64_t row = 0; row < labels.size(); ++row) {
    const double* x = logits.real.data() + row * classes;
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < classes; ++i) best = precedes(x[i], x[best]) ? i : best;
    if (best == labels.integer[static_cast<std::size_t>(row)]) ++correct;
  }
  args.result.integer[0] = correct;
}

Tensor decompose_count_correct(Graph&, const Node&, const std::vector<Tensor>& operands) {
  Tensor hits = equal(argmax(operands[0], -1), rules::narrow(operands[1], DType::i64));
  return reduce_sum(cast(hits, DType::i32));
}

std::int64_t classes_of(const std::vector<TensorType>& operands, const Attrs&) { return operands[0].shape.back(); }

}  // namespace

/// Mean over all rows of -log(softmax(logits)[label]): logits [..., C], integer labels [...], a scalar of the logits'
/// type. Infinite where a label is outside [0, C); labels that are graph inputs are checked before a run. NaN over no
/// rows. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor cross_entropy(Tensor logits, Tensor labels) {
  return rules::graph_of("cross_entropy", logits).apply("cross_entropy", {logits, labels});
}

/// Mean of (prediction - target)^2 over all elements, a scalar; NaN over none. Throws `shape_mismatch`,
/// `dtype_mismatch`.
Tensor squared_error(Tensor prediction, Tensor target) {
  return rules::graph_of("squared_error", prediction).apply("squared_error", {prediction, target});
}

/// Number (i32 scalar) of rows of logits [..., C] whose largest element, the first of ties, is at the integer label
/// [...]. Throws `shape_mismatch`, `dtype_mismatch`.
Tensor count_correct(Tensor logits, Tensor labels) {
  return rules::graph_of("count_correct", logits).apply("count_correct", {logits, labels});
}

void register_losses(OpTable& table) {
  const std::vector<OpExample> classifiers = {
      {{{f32, {4, 5}}, {i32, {4}}}},
      {{{f32, {2, 3, 7}}, {i64, {2, 3}}}},
      {{{f32, {5}}, {i32, {}}}},
      {{{f32, {17, 33}}, {u8, {17}}}},
      {{{f64, {3, 10}}, {i32, {3}}}},
      {{{bf16, {4, 6}}, {i32, {4}}}},
      {{{f32, {3, 1}}, {i32, {3}}}, {}, {{-2, 2}, {0, 1}}},
  };
  OpDef entropy{.name = "cross_entropy",
                .doc =
                    "Mean of -log(softmax(logits)[label]) over all rows; infinite where a label is no class. bf16 and "
                    "f16 in f32.",
                .kind = OpKind::composite};
  entropy.min_operands = 2;
  entropy.max_operands = 2;
  entropy.infer = infer_cross_entropy;
  entropy.evaluate = evaluate_cross_entropy;
  entropy.decompose = decompose_cross_entropy;
  entropy.gradient = gradient_of_cross_entropy;
  entropy.index_operand = IndexOperand{1, classes_of};
  entropy.examples = classifiers;
  entropy.examples.push_back({{{f32, {3, 9}}, {i32, {3}}}, {}, {{-80, 80}, {0, 9}}});
  table.add(std::move(entropy));

  OpDef square_error{.name = "squared_error",
                     .doc = "Mean of (prediction - target)^2 over all elements; NaN over none. bf16 and f16 in f32.",
                     .kind = OpKind::composite};
  square_error.min_operands = 2;
  square_error.max_operands = 2;
  square_error.infer = infer_squared_error;
  square_error.evaluate = evaluate_squared_error;
  square_error.decompose = decompose_squared_error;
  square_error.gradient = gradient_of_squared_error;
  square_error.examples = {
      {{{f32, {6}}, {f32, {6}}}},         {{{f32, {3, 5}}, {f32, {3, 5}}}},   {{{f32, {}}, {f32, {}}}},
      {{{f64, {17, 3}}, {f64, {17, 3}}}}, {{{bf16, {4, 4}}, {bf16, {4, 4}}}},
  };
  table.add(std::move(square_error));

  OpDef correct{.name = "count_correct",
                .doc = "Number of rows whose largest logit, the first of ties, is at the label.",
                .kind = OpKind::composite};
  correct.min_operands = 2;
  correct.max_operands = 2;
  correct.infer = infer_count_correct;
  correct.evaluate = evaluate_count_correct;
  correct.decompose = decompose_count_correct;
  correct.gradient = NotDifferentiable{"a count does not move with small changes"};
  correct.index_operand = IndexOperand{1, classes_of};
  correct.examples = classifiers;
  correct.examples.push_back({{{f32, {0, 3}}, {i32, {0}}}});
  table.add(std::move(correct));
}

}  // namespace wholestep
