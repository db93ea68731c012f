// The regressions of several heads side by side: their training sets and who sees what.
#pragma once

#include <ATen/TracerMode.h>

#include <vector>

#include "saddle/nn/attention.hpp"

namespace saddle::nn::composed {

// Tensors whose numbers are written by hand are constants to whoever traces: no operation tells how they came about.
using Untraced = at::tracer::impl::NoTracerDispatchMode;

// G heads that have equally many keys. Missing keys are cleared: they may hold anything.
struct Heads {
  Tensor q;             // [B,G,N,D]
  Tensor k;             // [B,G,R,K,D]; R = 1 until a transform tells the queries apart, N from then on
  Tensor v;             // [B,G,K,E]
  Tensor keep;          // [B|1,1,K] keys that exist
  Tensor keep_queries;  // [B,1,N] where queries and keys are the same tokens, else undefined
  Tensor visible;       // [B|1,G|1,N,K] key sets, masks and padding together
};

// All heads before pooling. Tensors of the call have the type that is computed in; mask, if any, is [B,H,N,M].
Heads all_heads(const primal::Attention& value, const AttentionInputs& inputs);
// Those of the given heads that share a pooling factor, with their keys and values pooled.
Heads pooled_heads(const primal::Attention& value, const Heads& all, const std::vector<Index>& heads, Index factor);

// The given heads [..,G,..] of [..,H,..]; what all heads share stays as it is.
Tensor select_heads(const Tensor& x, const std::vector<Index>& heads, Index dimension);

// The mean over the keys that count, 0 if none does: x [B,G,R,K,D], counted [B|1,G|1,R|N,K] -> [B,G,R|N,D].
Tensor mean_over(const Tensor& x, const Tensor& counted);

// Applies transform t of the declaration to queries and keys. theta [1|G,..]
void transform_heads(const primal::Attention& value, std::size_t t, const Tensor& theta, Heads& heads);

// The weights of the expansion and the logarithm of their normaliser.
struct Weights {
  Tensor weights;  // [B,G,N,K]
  Tensor lse;      // [B,G,N], with a row sum
};
// score_bias [B,G,N,K] or undefined.
Weights weigh(const primal::Attention& value, const Heads& heads, const Tensor& score_bias);

// What dropout multiplies the weights [B,G,N,K] of the given heads by, as primal/dropout.hpp defines it.
Tensor dropout_factors(const primal::Dropout& dropout, const Tensor& weights, const std::vector<Index>& heads, Index H);

}  // namespace saddle::nn::composed
