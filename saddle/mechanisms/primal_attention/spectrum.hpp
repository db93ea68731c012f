// Singular values of the kernel that Primal-Attention learns, for analysis. No matrix of N x N is built.
//
// The objective of a head is 1/2 sum_i e_i' L e_i + 1/2 sum_j r_j' L r_j - Tr(We' Wr) with L = diag(lambda^2) / N.
// Where its gradient vanishes, the dual variables L e and L r are the singular vectors of the kernel and 1/L its
// singular values, so the kernel's part of rank s is E L R' with the scores as rows of E and R.
#pragma once

#include "saddle/base/tape.hpp"

namespace saddle::mechanisms::primal_attention {

// escore, rscore [B,H,N,s], lambda [H,s] -> [B,H,min(N,s)]: singular values of E L R', largest first. This is what the
// layer computes with at any time of training.
SADDLE_API tape::Value learned_spectrum(const tape::Value& escore, const tape::Value& rscore,
                                        const tape::Value& lambda);

// lambda [H,s] -> [H,s]: 1/L = N / lambda^2, largest first. What the above must become if training reaches a stationary
// point of the objective.
SADDLE_API tape::Value stationary_spectrum(const tape::Value& lambda, Index N);

// phi_q, phi_k [B,H,N,D], sample [B,H,n,D] or undefined -> [B,H,min(N,D)]: singular values, largest first, of the
// kernel <F phi_q(x_i), F phi_k(x_j)>, F the sample; <phi_q(x_i), phi_k(x_j)> without one. The first is what the form
// `dependent` decomposes, the second the form `causal`, and with trace=with_x also `dependent`, if the sample has rank
// D.
SADDLE_API tape::Value kernel_spectrum(const tape::Value& phi_q, const tape::Value& phi_k,
                                       const tape::Value& sample = {});

}  // namespace saddle::mechanisms::primal_attention
