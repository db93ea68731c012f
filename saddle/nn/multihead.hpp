// Projections around an attention, as a function of its weights: what the modules of C++ and Python share.
#pragma once

#include <optional>

#include "saddle/nn/attention.hpp"
#include "saddle/nn/dense/linear.hpp"

namespace saddle::nn {

// Named as in torch.nn.MultiheadAttention. Either in_proj_weight [2 H D + H E, X] or the three others; biases may be
// undefined.
struct MultiheadWeights {
  Tensor in_proj_weight, in_proj_bias;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // [H D,X], [H D,..], [H E,..]
  Tensor out_proj_weight, out_proj_bias;               // [X,H E], [X]
};

// query [B,N,X], key and value [B,M,..] -> y [B,N,X] and what is wanted beside. `rest` brings masks, parameters and
// dropout, `out` what the output projection adds and its type. With residual the queries are added there too.
SADDLE_TORCH_API AttentionOutputs multihead_attention(const primal::Attention& attention, Index heads,
                                                      const MultiheadWeights& weights, const Tensor& query,
                                                      const Tensor& key, const Tensor& value,
                                                      const AttentionInputs& rest = {}, const Wanted& wanted = {},
                                                      const LinearOptions& out = {});

// Masks as torch.nn.MultiheadAttention takes them, put into `inputs`: key_padding_mask [B,M] true where a key is to be
// ignored, attn_mask [N,M] or [B H,N,M] true where a query must not look; or either of them numbers that are added to
// the scores. Numbers that are all 0 or -inf become a key set. Of dims B, H, N and M count.
SADDLE_TORCH_API void put_torch_masks(const Tensor& key_padding_mask, const Tensor& attn_mask, const Dims& dims,
                                      AttentionInputs& inputs);

}  // namespace saddle::nn
