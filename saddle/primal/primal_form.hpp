// The primal form, for finite Phi: build W = sum_j v_j Phi(k_j)^T and z = sum_j Phi(k_j) once, then
// f(q) = W Phi(q)/h(q). Causal key sets use running sums; the sums are also the state of a decoder.
#pragma once

#include "saddle/primal/call.hpp"
#include "saddle/primal/features.hpp"

namespace saddle::primal {

// W and z of one head, grown key by key and read at any point. Tokens come in pooled and transformed: only kernel and
// normaliser of the attention matter here.
class SADDLE_API PrimalState {
 public:
  // Throws NotSupported when Phi is infinite. N and K, the numbers of queries and keys, matter to sqrt_length only.
  PrimalState(const Attention& attention, Index D, Index E, Index N = 1, Index K = 1);

  // k [D], v [E]: W += v Phi(k)^T, z += Phi(k)
  void append(const double* k, const double* v);
  // q [D] -> y [E] = W Phi(q)/h(q), 0 as long as nothing was appended or weighs anything. Returns h(q).
  double read(const double* q, double* y) const;

  const FeatureMap& features() const { return features_; }
  const Matrix& w() const { return w_; }  // [E,F]
  const Vector& z() const { return z_; }  // [F]
  bool empty() const { return count_ == 0; }
  // h(q) for given features phi [F] of the query.
  double normaliser(const double* phi) const;
  bool row_sum() const { return h_.row_sum; }

 private:
  FeatureMap features_;
  Matrix w_;
  Vector z_;
  Index count_ = 0;
  NormaliserRule h_;
};

// Why this attention has no primal form; empty when it has one. `mask`: the call brings a mask of queries by keys.
SADDLE_API std::vector<std::string> primal_form_refusals(const Attention& attention, bool mask);

// Both expect a validated call without refusals.
SADDLE_API void primal_forward(const Call& call, const Outputs& outputs);
SADDLE_API void primal_backward(const Call& call, const Gradients& gradients);

// W [B,H,E,F] and z [B,H,F] over all existing keys of each head.
struct PrimalWeights {
  Array<double, 4> w;
  Array<double, 3> z;
};
SADDLE_API PrimalWeights primal_weights(const Call& call);

}  // namespace saddle::primal
