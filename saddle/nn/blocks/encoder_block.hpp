// Attention and a two-layer network around a residual stream, normalised before or behind each.
#pragma once

#include "saddle/nn/blocks/mlp.hpp"
#include "saddle/nn/blocks/norm.hpp"
#include "saddle/nn/blocks/self_attention.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API EncoderBlockOptions {
  EncoderBlockOptions(int64_t width, int64_t heads) : width_(width), heads_(heads) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, heads);
  TORCH_ARG(int64_t, head_width) = 0;  // 0: width / heads
  TORCH_ARG(std::string, attention) = "softmax";
  TORCH_ARG(int64_t, hidden) = 0;  // of the network; 0: 4 width
  TORCH_ARG(std::string, activation) = "gelu";
  TORCH_ARG(std::string, norm) = "layer";  // or "batch"
  TORCH_ARG(double, norm_eps) = 1e-5;
  TORCH_ARG(bool, norm_first) = true;  // x + f(norm(x)), else norm(x + f(x))
  TORCH_ARG(bool, qkv_bias) = true;
  TORCH_ARG(double, dropout) = 0;            // of what each branch adds, and of the hidden layer
  TORCH_ARG(double, attention_dropout) = 0;  // of the weights
  TORCH_ARG(double, drop_path) = 0;          // leaves out a whole branch of a sequence
  TORCH_ARG(Tokens, tokens) = {};
};

// Children: norm1, attn, norm2, mlp. Under autocast to bfloat16 the residual stream stays as it is.
class SADDLE_TORCH_API EncoderBlockImpl : public torch::nn::Cloneable<EncoderBlockImpl> {
 public:
  EncoderBlockImpl(int64_t width, int64_t heads) : EncoderBlockImpl(EncoderBlockOptions(width, heads)) {}
  explicit EncoderBlockImpl(const EncoderBlockOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,X] -> [B,N,X]; key_mask [B,N] true where a token exists.
  Tensor forward(const Tensor& x, const Tensor& key_mask = {});

  EncoderBlockOptions options;
  Norm norm1{nullptr}, norm2{nullptr};
  SelfAttention attn{nullptr};
  Mlp mlp{nullptr};

 private:
  template <class Branch>
  Tensor added(const Tensor& x, Norm& norm, Branch&& branch) const;
};

TORCH_MODULE(EncoderBlock);

}  // namespace saddle::nn
