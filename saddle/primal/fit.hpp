// The regression behind an attention: its training set, and fitting it to a table.
#pragma once

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

// Targets to attention: fits the regression of attention (kernel, normaliser, transforms, bias) to keys k [M,D] and
// targets y [M,E] and returns the attention that is its optimum. All rows are keys and stand for themselves: throws
// NotSupported for pooling, key sets, residual, and transforms that mix tokens.
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
