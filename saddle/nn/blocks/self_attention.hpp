// Self-attention with one projection to queries, keys and values, named as in timm: qkv and proj.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/multihead.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API SelfAttentionOptions {
  SelfAttentionOptions(int64_t width, int64_t heads) : width_(width), heads_(heads) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, heads);
  TORCH_ARG(std::string, attention) = "softmax";  // a written form: "softmax+bn(beta=0.6)"
  TORCH_ARG(double, dropout) = 0;                 // of the weights, while training
  TORCH_ARG(bool, qkv_bias) = true;
};

// Learnable parameters of the attention (beta, kernel, bias) stand beside qkv and proj under their own names.
class SADDLE_TORCH_API SelfAttentionImpl : public torch::nn::Cloneable<SelfAttentionImpl> {
 public:
  SelfAttentionImpl(int64_t width, int64_t heads) : SelfAttentionImpl(SelfAttentionOptions(width, heads)) {}
  explicit SelfAttentionImpl(const SelfAttentionOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,X] -> [B,N,X]; key_mask [B,N] true where a token exists. `out` goes to the output projection: a residual,
  // the type of the result.
  Tensor forward(const Tensor& x, const Tensor& key_mask = {}, const LinearOptions& out = {});
  // The same with weights, log-sum-exp or column sums beside y.
  AttentionOutputs outputs(const Tensor& x, const Tensor& key_mask, const Wanted& wanted,
                           const LinearOptions& out = {});

  const primal::Attention& value() const { return value_; }

  SelfAttentionOptions options;
  torch::nn::Linear qkv{nullptr}, proj{nullptr};

 private:
  primal::Attention value_;
  std::map<std::string, Tensor> attention_parameters_;  // learnable ones
};

TORCH_MODULE(SelfAttention);

}  // namespace saddle::nn
