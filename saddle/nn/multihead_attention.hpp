// Multi-head attention with any declared attention inside: takes and gives what torch::nn::MultiheadAttention does,
// with the same names of weights.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "saddle/nn/multihead.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads) : embed_dim_(embed_dim), num_heads_(num_heads) {}

  TORCH_ARG(int64_t, embed_dim);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(std::string, attention) = "softmax";  // a written form: "softmax+bn(beta=0.6)"
  TORCH_ARG(double, dropout) = 0;                 // of the weights, while training
  TORCH_ARG(bool, bias) = true;                   // of the projections
  TORCH_ARG(bool, batch_first) = false;           // (B,N,X) instead of (N,B,X)
  TORCH_ARG(int64_t, kdim) = 0;                   // width of the tokens that give keys; 0: embed_dim
  TORCH_ARG(int64_t, vdim) = 0;                   // and values
  TORCH_ARG(int64_t, key_width) = 0;              // D of a head; 0: embed_dim / num_heads
  TORCH_ARG(int64_t, value_width) = 0;            // E of a head; 0: D
};

// Weights: in_proj_weight [2 H D + H E, X] and in_proj_bias, or q_proj_weight, k_proj_weight, v_proj_weight where the
// widths of query, key and value differ; out_proj; and the learnable parameters of the attention: beta, kernel, bias.
// Weights that are given back carry no gradient.
class SADDLE_TORCH_API MultiheadAttentionImpl : public torch::nn::Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // query [N,B,X], key [M,B,..], value [M,B,..] (batch_first: [B,N,X] ..) -> output as query, and weights [B,N,K] or,
  // not averaged, [B,H,N,K]; undefined when not needed. key_padding_mask [B,M]: true where a key is to be ignored.
  // attn_mask [N,M] or [B H,N,M]: true where a query must not look, or numbers added to the scores; numbers that are
  // all 0 or -inf count as such a mask.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true);
  // x [B,N,X] -> [B,N,X] whatever batch_first says; key_mask [B,N] true where a token exists.
  Tensor self_attention(const Tensor& x, const Tensor& key_mask = {});

  const primal::Attention& value() const { return value_; }

  MultiheadAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
  torch::nn::Linear out_proj{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, torch::nn::AnyValue(Tensor())}, {4, torch::nn::AnyValue(true)},
                           {5, torch::nn::AnyValue(Tensor())}, {6, torch::nn::AnyValue(true)})

 private:
  MultiheadWeights weights() const;
  AttentionInputs rest() const;

  primal::Attention value_;
  std::map<std::string, Tensor> attention_parameters_;  // learnable ones
};

TORCH_MODULE(MultiheadAttention);

}  // namespace saddle::nn
