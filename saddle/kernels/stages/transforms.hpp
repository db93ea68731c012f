// The transforms of the primal layer on rows of T, and their gradients.
#pragma once

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/primal/transform.hpp"

namespace saddle::kernels::stages {

// Rows q [N,D] and k [K,D] of a head, and which of them exist. A gradient may lack q or k where nobody wants it.
template <class T>
struct TokenRows {
  Rows<T> q, k;
  Index N = 0, K = 0, D = 0;
  Kept keep_queries, keep_keys;
};

// Whether the output may take the place of the input.
bool works_in_place(const primal::Transform& transform);

// in -> out with the statistics of the existing keys. What a key that does not exist holds is not looked at; its output
// is zero.
template <class T>
void apply(const primal::Transform& transform, std::span<const double> theta, const TokenRows<const T>& in,
           const TokenRows<T>& out);

// `gradient` comes in with respect to the output and leaves with respect to the input; dtheta is added to,
// empty: not wanted.
template <class T>
void pullback(const primal::Transform& transform, std::span<const double> theta, const TokenRows<const T>& in,
              const TokenRows<T>& gradient, std::span<double> dtheta);

}  // namespace saddle::kernels::stages
