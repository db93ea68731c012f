// Do the tokens of stacked attention become one vector? Measures of collapse layer by layer, for tokens of any model
// and for the bare recursion of the theory, with the guaranteed rate beside the measured one.
#pragma once

#include <string>
#include <vector>

#include "saddle/analysis/rank_collapse/mask.hpp"
#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::rank_collapse {

inline constexpr double default_rank_rtol = 1e-4;

// Of one token matrix x [N,d].
struct Measures {
  double mu = 0;              // Frobenius norm of x minus its mean token
  double mu_relative = 0;     // mu / |x|_F
  double effective_rank = 0;  // exp of the entropy of singular values
  double stable_rank = 0;     // sum of squared singular values by the largest squared
  double rank = 0;            // singular values above rank_rtol times the largest
  double sigma_min = 0;       // smallest of min(N,d) singular values
  double cos_abs_mean = 0;    // mean |cosine| of pairs of tokens (anisotropy); NaN for one token
  double cos_mean = 0;        // mean cosine of pairs of tokens; NaN for one token
  double oscillation = 0;     // largest range of a feature over tokens
};
SADDLE_API Measures measure(const Matrix& x, double rank_rtol = default_rank_rtol);
// One for each token matrix, in parallel: tokens[t] is what some model holds after t layers.
SADDLE_API std::vector<Measures> measure(const std::vector<Matrix>& tokens, double rank_rtol = default_rank_rtol);

// The factor by which a quantity falls per layer: exp of the slope of the line through ln values. 1: it does not fall.
// Values that are 0 or below `floor` times the first one, which rounding made, are left out; NaN if fewer than two
// stay.
SADDLE_API double measured_rate(const std::vector<double>& values, double floor = 1e-12);

// What the theorem guarantees for pure attention whose allowed weights are at least eps: per layer (1 - k eps^r)^(1/r),
// with radius r and k centres of that eccentricity. 1, which promises nothing, without a centre or without self-loops.
SADDLE_API double guaranteed_rate(const Graph& graph, double eps);
// oscillation(t) <= (1 - eps^r)^floor(t/r) oscillation(0) for t = 0..layers, for W_V = I.
SADDLE_API std::vector<double> oscillation_bound(const Graph& graph, double eps, double oscillation, Index layers);

enum class Norm { none, unit, layernorm };
SADDLE_API Norm norm_from(const std::string& name);

// The layers of the theory: X' = norm(sum over heads of A_h X W_V,h), or norm(X + ..), where A_h is the softmax of
// (X W_Q,h)(X W_K,h)^T / temperature over allowed tokens. Layer t takes weights t modulo Lw.
struct Stack {
  Array<double, 4> w_q, w_k;  // [Lw,H,d,dk]
  Array<double, 4> w_v;       // [Lw,H,d,d], output projection included
  Index layers = 1;
  Norm norm = Norm::none;  // unit: rows divided by their length; layernorm: centred and scaled, no affine
  bool residual = false;
  double temperature = 0;  // 0: sqrt(dk)
  double layernorm_eps = 1e-12;
};

struct Trace {
  std::vector<Matrix> tokens;         // [N,d] for t = 0..layers
  std::vector<Measures> measures;     // for t = 0..layers
  std::vector<double> attention_min;  // smallest weight on an allowed edge, for t = 1..layers
  Graph graph;
  std::vector<double> bound;  // oscillation_bound where it holds: no norm, no residual, one head, W_V = I
  double guaranteed = 1;      // rate per layer of the theorem, 1 where it is silent: norm, residual, several heads
  bool promised = false;      // it is not silent; a rate below 1 by less than rounding is 1 all the same
  double measured = 1;        // rate per layer of mu_relative
};
// Tokens x [N,d] through the stack. Rows of x are taken as they are: for Norm::unit normalise them first.
SADDLE_API Trace trace(const Stack& stack, const Matrix& x, const Mask& mask, double rank_rtol = default_rank_rtol);
// The same for any model: tokens[t] [N,d] after t layers. Without `bound`; with the smallest attention weights of its
// layers `guaranteed` is what pure attention with these weights would guarantee.
SADDLE_API Trace observe(std::vector<Matrix> tokens, const Mask& mask, std::vector<double> attention_min = {},
                         double rank_rtol = default_rank_rtol);

// Gradients of sum_t cot_mu[t] mu(X_t) + <cot_x, X_layers>.
struct Gradients {
  Matrix x;
  Array<double, 4> w_q, w_k, w_v;
};
SADDLE_API Gradients gradients(const Stack& stack, const Matrix& x, const Mask& mask, const std::vector<double>& cot_mu,
                               const Matrix& cot_x);

// Full rank in spite of attention: two tokens of width 2, causal, unit norm, W_V = [[1,1],[0,1]]. The second token
// stays at `limit`, away from the first, which goes to (0,1). beta > 0 is the sharpness W_Q W_K^T / temperature.
struct Counterexample {
  Stack stack;
  Mask mask;
  Matrix start;              // [2,2]
  double limit[2] = {0, 0};  // p = -exp(-beta (1 - q)), q = -sqrt(1 - p^2)
};
SADDLE_API Counterexample counterexample(double beta, Index layers);

SADDLE_API mechanisms::GoldenReport check(const TensorFile& golden, DType dtype);

// As an analysis of a trained model: what its tokens do from block to block, averaged over samples. Option `rank_rtol`.
SADDLE_API Result on_model(const ProbedModel& model, Options& options);
// Of tensors: the stack of the theory (x, w_q, w_k, w_v and mask, as in recorded cases), a mask alone, attention maps
// alone, or tokens of a model as probed_model() reads them. Options of a stack: `layers`, `norm`, `residual`,
// `temperature`, `mask` with `window`; of a mask: `layers`.
SADDLE_API Result on_tensors(const TensorFile& file, const std::string& name, Options& options);
// The counterexample, and random stacks of pure attention under several masks. Options `beta`, `layers`, `tokens`,
// `window`, `seed`.
SADDLE_API Result example(Options& options);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::rank_collapse
