// The bridge between attention and regression, both ways.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/primal/call.hpp"
#include "saddle/primal/svr.hpp"

namespace saddle::primal {

// The regression behind one query of one head: the keys it sees, after pooling and transforms.
struct TrainingSet {
  Index sample = 0, head = 0, query = 0;
  std::vector<Index> indices;  // [m] positions of the keys among the head's (pooled) keys
  Matrix keys;                 // [m,D] T k_j
  Matrix values;               // [m,E] v_j
  Vector h;                    // [m] h(T k_j)
  Matrix gram;                 // [m,m] kappa(T k_j, T k_j')/(h_j h_j')
  Vector query_tokens;         // [D] T q
  Index N = 0, K = 0;          // queries and keys of the head; sqrt_length needs them
  bool shared = true;          // all queries of the head see the same keys
};
SADDLE_API TrainingSet training_set(const Call& call, Index sample, Index head, Index query);

// kappa(Tx,Tk_j)/h(Tx) [m] for transformed points x [P,D].
SADDLE_API Matrix expansion_row(const Attention& attention, const TrainingSet& set, const Matrix& x);

// From a layer to its regression: beta_j = h_j v_j are the net multipliers of the regression with targets
// y = G beta + eps sign(beta); the layer is its optimum. From targets to a layer: the regression is solved and
// v_j = beta_j/h_j put back into the attention.
struct Certificate {
  TrainingSet set;
  double C = 0, epsilon = 0;
  // layer -> regression
  double primal = 0, dual = 0, gap = 0;  // objectives summed over channels, |P - D|/(1 + |P|) worst over channels
  double kkt = 0;                        // worst residual over channels / (1 + C)
  double resolved = 0;                   // |f - f*|/(1 + |f|) at the keys after solving that regression from scratch
  // regression -> layer
  double fit = 0;  // |attention with v = beta*/h - (f* - b)| at the keys, for seeded targets, / (1 + |f*|)
  double solve_gap = 0, solve_kkt = 0;
  Index support_vectors = 0, multipliers = 0;
  // primal form against dual form at the query
  Index features = 0;      // F, or the number of Taylor features used
  int taylor_order = -1;   // >= 0 when Phi is infinite and was truncated there
  double truncation = 0;   // largest error of the truncated kernel on the data
  double primal_dual = 0;  // |W Phi(q)/h(q) - sum_j A_j v_j|
  std::vector<std::string> notes;

  // A truncated Taylor map that is too coarse says nothing about the forms.
  SADDLE_API bool compares_forms() const;
  // Gap and residuals within 1e-8, fits within 1e-6, forms within 1e-8 plus the truncation error.
  SADDLE_API bool holds() const;
};
SADDLE_API Certificate certify(const Call& call, std::uint64_t seed = 0);

// Targets to attention: fits the regression of attention (kernel, normaliser, transforms, bias) to keys k [M,D] and
// targets y [M,E] and returns the attention that is its optimum. No pooling, no key sets: all keys are the training
// set.
struct Fit {
  Attention attention;
  Matrix k, v;  // [M,D] as given, [M,E] v_j = beta_j/h_j
  TrainingSet set;
  SvrSolution solution;

  // f and h at x [P,D]: the attention with queries x, keys k and values v, plus b.
  SADDLE_API Matrix predict(const Matrix& x) const;
  SADDLE_API Vector normaliser(const Matrix& x) const;
};
SADDLE_API Fit fit_attention(const Attention& attention, const Matrix& k, const Matrix& y, const SvrOptions& options);

}  // namespace saddle::primal
