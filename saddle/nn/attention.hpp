// Attention on torch tensors: any declared value, with gradients. On CPUs the kernels of this library run; everything
// else goes through composed.hpp.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "saddle/nn/export.hpp"
#include "saddle/primal/call.hpp"

namespace saddle::nn {

using torch::Tensor;

// Undefined tensors are left out. Floating tensors share one dtype: float32, bfloat16 or float64.
struct AttentionInputs {
  Tensor q;           // [B,H,N,D], any strides
  Tensor k;           // [B,H,M,D]
  Tensor v;           // [B,H,M,E]
  Tensor key_mask;    // [B,M], true: the key exists
  Tensor mask;        // broadcasts to [B,H,N,M], true: the query sees the key
  Tensor score_bias;  // broadcasts to [B,H,N,M], added to the scores of an exponential kernel; composed path only
  Tensor skip;        // [B,H,N,E], with residual
  std::map<std::string, Tensor> parameters;  // named and shaped as primal::parameters() says
  primal::Dropout dropout;
};

// What to compute beside y. These carry no gradients.
struct Wanted {
  bool weights = false, lse = false, column_sums = false;
};

struct AttentionOutputs {
  Tensor y;            // [B,H,N,E], in memory (B,N,H,E): transpose(1,2).flatten(2) is a view
  Tensor weights;      // [B,H,N,K], before dropout
  Tensor lse;          // [B,H,N], float32 or float64
  Tensor column_sums;  // [B,H,K]
};

// Throws InvalidArgument with what was found and what would fit.
SADDLE_TORCH_API AttentionOutputs attention(const primal::Attention& value, const AttentionInputs& inputs,
                                            const Wanted& wanted = {});

// Self-attention out of one projection: qkv [B,N,2 H D + H E], q first, then k and v -> y [B,N,H E]. The gradient is
// one tensor too. value_width is E, 0: E = D.
SADDLE_TORCH_API Tensor attention_qkv(const primal::Attention& value, const Tensor& qkv, Index heads,
                                      const AttentionInputs& rest = {}, Index value_width = 0);

// Dropout of weights with probability p in a layer that trains. An attention with a primal form never computes single
// weights: it gets none, as in published linear attention, and stays linear in the length.
SADDLE_TORCH_API primal::Dropout weight_dropout(const primal::Attention& value, double p);

// The dims of a call, checked for rank only.
SADDLE_TORCH_API Dims dims_of(const AttentionInputs& inputs);

}  // namespace saddle::nn
