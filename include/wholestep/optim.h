#pragma once
// Optimizers. Each is written once, as a function that appends graph ops; every device runs that.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wholestep/graph.h"

namespace wholestep {

/// A tensor that an optimizer keeps for each parameter ("m", "v", "momentum"). Starts as zeros.
struct OptimizerSlot {
  std::string name;
  TensorType type;
};

/// A number that changes with the step: computed on the host in double precision for step `t` (1 for a parameter's
/// first), given to the program as an f32 input.
struct StepScalar {
  std::string name;
  std::function<double(std::int64_t t)> value;
};

/// What `OptimizerRule::append` works on. All scalars are rank-0 f32.
struct OptimizerArgs {
  Graph& graph;
  Tensor param;
  Tensor grad;                // same shape as param, in the dtype of the update (f32 for bf16 and f16)
  std::vector<Tensor> slots;  // in the order of slots()
  Tensor lr;
  std::vector<Tensor> scalars;  // in the order of scalars()
};
/// What `OptimizerRule::append_refresh` works on.
struct RefreshArgs {
  const OptimizerArgs& step;  // as `append` will see it, with slots from before the refresh
  int kind = 1;               // which refresh is due
  Tensor curvature;           // estimate of the Hessian's diagonal, where the rule asks for one; f32 or f64
  std::function<Tensor(Shape shape)> normal;  // standard normal f32 numbers, others at each step
};
struct OptimizerResult {
  Tensor param;
  std::vector<Tensor> slots;
};

class OptimizerRule;

/// The rule of one parameter, and its learning rate as a multiple of the trainer's.
struct ParameterRule {
  const OptimizerRule* rule;
  double lr_scale = 1;
};

/// The seam for optimizers: derive, validate hyper-parameters in the constructor, append ops. The built-in ones update
/// bf16 and f16 parameters in f32, with f32 slots, and f64 parameters in f64; learning rate and scalars are f32 inputs.
/// Hyper-parameters are finite in f32, and where they must be above zero, normal numbers of f32.
class OptimizerRule {
 public:
  virtual ~OptimizerRule() = default;
  virtual std::string name() const = 0;
  virtual double lr() const = 0;
  /// What it was made with, by name, for those who write it down in another format; empty where nobody does.
  virtual std::vector<std::pair<std::string, double>> hyper_parameters() const;
  virtual std::vector<OptimizerSlot> slots(const TensorType& param) const = 0;
  virtual std::vector<StepScalar> scalars() const { return {}; }
  /// Appends one step of one parameter. The results have the types of `args.param` and of the slots.
  virtual OptimizerResult append(const OptimizerArgs& args) const = 0;

  /// Work that only some steps need (a factor of a preconditioner, an estimate of curvature): where a refresh is due,
  /// slots take the values of `append_refresh` before `append` of that step reads them. Such a step is a program of its
  /// own on the same state. Which refresh a parameter's step `t` needs: 1 to `refresh_kinds()`, or 0.
  virtual int refresh_due(std::int64_t t) const;
  virtual int refresh_kinds() const { return 0; }
  virtual bool needs_curvature() const { return false; }
  virtual std::vector<Tensor> append_refresh(const RefreshArgs& args) const;

  /// The value of a parameter that evaluation uses, where that is not the one being trained (a running average, say).
  virtual Tensor evaluation_value(Graph& graph, Tensor param, const std::vector<Tensor>& slots) const;

  /// Composite rules answer with the rule of parameter `param`, which lives as long as this one and is no composite.
  /// Slots, scalars, update and evaluation of a parameter are those of its own rule.
  virtual ParameterRule rule_for(std::string_view param, const TensorType& type) const;
  /// Throws `invalid_argument` where the rule does not fit the parameters that are to be trained.
  virtual void check_parameters(const std::vector<std::pair<std::string, TensorType>>& params) const;
};

/// Shared handle of a rule.
using Optimizer = std::shared_ptr<const OptimizerRule>;

/// Stochastic gradient descent as in PyTorch: g += weight_decay * p; the momentum buffer b = momentum * b +
/// (1 - dampening) * g, b = g at the first step; p -= lr * b, with Nesterov p -= lr * (g + momentum * b) (Sutskever et
/// al., 2013). lr >= 0, 0 <= momentum, 0 <= dampening, weight_decay >= 0, Nesterov needs momentum > 0 and dampening 0.
struct SGD {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// Throws `invalid_argument` naming the hyper-parameter, its range and its value.
  operator Optimizer() const;
};

/// Adam (Kingma and Ba, 2015, algorithm 1): m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps); weight_decay is added to the gradient (L2).
/// Computed as p -= (lr / (1 - beta1^t)) * (m / (sqrt(v) * (1 / sqrt(1 - beta2^t)) + eps)), both corrections in double
/// on the host. lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// AdamW (Loshchilov and Hutter, 2019, algorithm 2): m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, m^ =
/// m / (1 - beta1^t), v^ = v / (1 - beta2^t), p -= lr * weight_decay * p, p -= lr * m^ / (sqrt(v^) + eps). Computed as
/// Adam. lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// NAdam (Dozat, 2016) with AdamW's decay, as PyTorch's NAdam with decoupled_weight_decay:
/// m and v as in Adam, mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2), p -= lr * weight_decay * p,
/// p -= lr * ((1 - mu_t) / (1 - mu_1 ... mu_t) g + mu_{t+1} / (1 - mu_1 ... mu_{t+1}) m) / (sqrt(v / (1 - beta2^t)) +
/// eps). lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0, momentum_decay >= 0.
struct NAdamW {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double momentum_decay = 4e-3;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// RAdam (Liu et al., 2020, algorithm 2), as PyTorch's: rho_inf = 2 / (1 - beta2) - 1,
/// rho_t = rho_inf - 2 t beta2^t / (1 - beta2^t), m^ = m / (1 - beta1^t); where rho_t > 5,
/// r_t = sqrt((rho_t - 4)(rho_t - 2) rho_inf / ((rho_inf - 4)(rho_inf - 2) rho_t)) and
/// p -= lr * r_t * m^ * sqrt(1 - beta2^t) / (sqrt(v) + eps), else p -= lr * m^. The decay is added to the gradient, or
/// taken from the parameter where it is decoupled. lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0.
struct RAdam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// QHAdam (Ma and Yarats, 2019, section 4) with AdamW's decay: m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2)
/// g^2, m^ = m / (1 - beta1^t), v^ = v / (1 - beta2^t), p -= lr * weight_decay * p, p -= lr * ((1 - nu1) g + nu1 m^) /
/// (sqrt((1 - nu2) g^2 + nu2 v^) + eps). nu1 = nu2 = 1 is AdamW. lr >= 0, 0 <= beta < 1, 0 <= nu <= 1, eps > 0,
/// weight_decay >= 0.
struct QHAdamW {
  double lr = 1e-3;
  double beta1 = 0.995;
  double beta2 = 0.999;
  double nu1 = 0.7;
  double nu2 = 1.0;
  double eps = 1e-8;
  double weight_decay = 0.01;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// LAMB (You et al., 2020, algorithm 2): m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, m^ = m / (1 -
/// beta1^t), v^ = v / (1 - beta2^t), r = m^ / (sqrt(v^) + eps), u = r + weight_decay * p, p -= lr * (|p| / |u|) * u
/// with the norms of the whole parameter; the ratio is 1 where either is zero. lr >= 0, 0 <= beta < 1, eps > 0,
/// weight_decay >= 0.
struct LAMB {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// Adafactor (Shazeer and Stern, 2018, algorithms 4 and 5 without momentum), as PyTorch's: b_t = 1 - t^beta2_decay; for
/// rank 2 and more R = b_t R + (1 - b_t) mean of g^2 over the last axis, C over the one before it, v = R C / mean(R),
/// one for each index of the axes before those two; below rank 2, v is the moving average itself. u = g / sqrt(max(v,
/// eps1^2)), p -= lr * weight_decay * p, p -= min(lr, 1 / sqrt(t)) * max(eps2, RMS(p)) * u / max(1, RMS(u) / d). lr >=
/// 0, beta2_decay <= 0, 2^-63 <= eps1 <= 2^63, eps2 > 0, d >= 1, weight_decay >= 0.
struct Adafactor {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  double eps1 = 0x1p-23;
  double eps2 = 1e-3;
  double d = 1.0;
  double weight_decay = 0;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// Lion (Chen et al., 2023, algorithm 2): p -= lr * (sign(beta1 m + (1 - beta1) g) + weight_decay * p), then
/// m = beta2 m + (1 - beta2) g. lr >= 0, 0 <= beta < 1, weight_decay >= 0.
struct Lion {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.01;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// Muon (Jordan et al., 2024) for matrices and, as [outputs, inputs], for convolution kernels (rank 4); `rest` for
/// parameters of any other rank. m = momentum * m + (1 - momentum) g, with Nesterov b = momentum * m + (1 - momentum)
/// g, else b = m; X = b / (|b| + 1e-7), `iterations` times X = 3.4445 X + (-4.775 A + 2.0315 A A) X with A = X X^T on
/// the side of fewer rows; p -= lr * weight_decay * p, p -= lr * sqrt(max(1, outputs / inputs)) * X. A matrix is
/// [inputs, outputs], as `nn::linear` has it. Computed in f32 where the authors use bf16. lr > 0, 0 <= momentum < 1,
/// iterations >= 1, weight_decay >= 0. The learning rate of `rest` keeps its ratio to `lr`.
struct Muon {
  double lr = 0.02;
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;
  double weight_decay = 0;
  AdamW rest{.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// MARS-AdamW (Yuan et al., 2024, algorithm 2 with the gradient of the last step in place of one of the last parameters
/// on this batch): c = g + gamma * beta1 / (1 - beta1) * (g - g_last), divided by its norm where that is above 1; then
/// AdamW with c as gradient. g_last starts as zeros. The authors give vectors plain AdamW: `groups` does. lr >= 0, 0 <=
/// beta < 1, gamma >= 0, eps > 0, weight_decay >= 0.
struct MARS {
  double lr = 3e-3;
  double beta1 = 0.95;
  double beta2 = 0.99;
  double gamma = 0.025;
  double eps = 1e-8;
  double weight_decay = 0;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// Schedule-free AdamW (Defazio et al., 2024, algorithm 1), as the authors' package: the parameter holds y, at which
/// gradients are taken; evaluation uses x. v = beta2 v + (1 - beta2) g^2, u = g / (sqrt(v / (1 - beta2^t)) + eps) +
/// weight_decay * y, w = t^r * (largest lr so far)^weight_lr_power, c = w / (sum of all w), z -= lr * u, x = (1 - c) x
/// + c z, y = (1 - beta1) z + beta1 x. lr >= 0, 0 < beta1 < 1, 0 <= beta2 < 1, eps > 0, weight_decay >= 0, r >= 0,
/// weight_lr_power >= 0.
struct ScheduleFree {
  double lr = 2.5e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double r = 0;
  double weight_lr_power = 2;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// SOAP (Vyas et al., 2025, algorithm 3), as the authors' code: Adam in the eigenbasis of Shampoo's preconditioner. For
/// each axis i of at most `max_precond_dim`, of parameters of rank 2 and more, L_i = shampoo_beta L_i + (1 -
/// shampoo_beta) G_i G_i^T with G_i the gradient as a matrix of that axis and the others; Q_i = eigenvectors(L_i) after
/// the first step, and every `precondition_frequency` steps from then on Q_i = Q of the QR factorisation of L_i Q_i,
/// its columns in falling order of the diagonal of Q_i^T L_i Q_i. G' and m' are G and m in the bases Q_i; v = beta2 v +
/// (1 - beta2) G'^2; p -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * (m' / (sqrt(v) + eps) back from the bases), then p
/// -= lr * weight_decay * p. The first step moves nothing but L. lr >= 0, 0 <= beta < 1, eps > 0, weight_decay >= 0,
/// precondition_frequency >= 1, max_precond_dim >= 0.
struct SOAP {
  double lr = 3e-3;
  double beta1 = 0.95;
  double beta2 = 0.95;
  double shampoo_beta = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.01;
  int precondition_frequency = 10;
  std::int64_t max_precond_dim = 10000;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// PSGD with a Kronecker-factored preconditioner (Li, 2018; kron_torch): m = beta1 m + (1 - beta1) g, m^ = m / (1 -
/// beta1^t); a parameter of rank above 2 is taken as a matrix of its first or its last axis and the others. Each axis
/// has a factor Q, upper triangular, or diagonal for extents of 1 or above `max_size_triangular` and for vectors. Where
/// an update of the factors is due, with V standard normal, G = m^ + 2^-11.5 mean|m^| V, A = Q_1 G Q_2^T and B = Q_1^-T
/// V Q_2^-1, Q_1 -= precond_lr * triu(A A^T - B B^T) Q_1 / |A A^T + B B^T|, Q_2 alike with A^T A and B^T B; the norm is
/// a lower bound of the spectral one (the largest element for a diagonal). u = Q_1^T Q_1 m^ Q_2^T Q_2, scaled to a root
/// mean square of at most 1.1; p -= lr * (u + weight_decay * p), without decay for vectors. Updates are due at every
/// step up to `flat_start`, then at a share of steps that falls as exp(-decay (t - flat_start)) to `min_probability`,
/// evenly spaced; every hundredth balances the factors' norms. lr >= 0, 0 <= beta1 < 1, weight_decay >= 0,
/// max_size_triangular >= 0, precond_lr > 0, 0 < min_probability <= 1, decay > 0, flat_start >= 0.
struct Kron {
  double lr = 3e-4;
  double beta1 = 0.9;
  double weight_decay = 0;
  std::int64_t max_size_triangular = 8192;
  double precond_lr = 0.1;
  double min_probability = 0.03;
  double decay = 0.001;
  double flat_start = 500;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// Sophia-H (Liu et al., 2024, algorithm 3): at steps 1, 1 + k, 1 + 2k ... the diagonal of the Hessian is estimated as
/// u * (H u) with random signs u (Hutchinson's estimator, by gradients of gradients), h = beta2 h + (1 - beta2) u * (H
/// u); m = beta1 m + (1 - beta1) g, p -= lr * weight_decay * p, p -= lr * clip(m / max(gamma h, eps), -1, 1). lr >= 0,
/// 0 <= beta < 1, gamma > 0, eps > 0, weight_decay >= 0, k >= 1.
/// Over micro-batches, it is the mean of their estimates, each with signs of its own.
struct Sophia {
  double lr = 1e-4;
  double beta1 = 0.965;
  double beta2 = 0.99;
  double gamma = 0.01;
  double eps = 1e-12;
  double weight_decay = 0.1;
  int k = 10;
  /// Throws `invalid_argument`.
  operator Optimizer() const;
};

/// The optimizer of the parameters whose names fit `pattern` (* stands for any characters, ? for one), with its own
/// learning rate times `lr_scale`.
struct ParameterGroup {
  std::string pattern;
  Optimizer optimizer;
  double lr_scale = 1;
};

/// The first group whose pattern fits has the parameter, `rest` those that no pattern fits. The learning rate is that
/// of `rest`; what the trainer makes of it changes those of all groups by the same factor. A checkpoint is for the same
/// patterns and optimizers. Throws `invalid_argument`: no optimizer, lr_scale not finite or negative, a learning rate
/// of `rest` that is not above zero, or to which that of a group has a ratio that f32 does not hold. A pattern that no
/// parameter takes is `invalid_argument` when a trainer is made.
Optimizer groups(std::vector<ParameterGroup> groups, Optimizer rest);

/// What `optimizer_by_name` knows: "sgd", "adam", ...
std::vector<std::string> optimizer_names();
/// An optimizer by name with its defaults; its learning rate `lr` unless that is negative. Throws `unknown_name`
/// listing the names; `invalid_argument`.
Optimizer optimizer_by_name(const std::string& name, double lr = -1);

}  // namespace wholestep
