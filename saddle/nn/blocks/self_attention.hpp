// Self-attention of tokens: a declared attention between projections named as in timm, qkv and proj, or a mechanism of
// the layer level, which brings its own.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/multihead.hpp"

namespace saddle::nn {

// What a model knows of its tokens and its layers.
struct Tokens {
  int64_t most = 0;        // 0: not known
  primal::Grid grid = {};  // of those behind the prefix, if they are an image
  int64_t prefix = 0, layer = 0;
};

struct SADDLE_TORCH_API SelfAttentionOptions {
  SelfAttentionOptions(int64_t width, int64_t heads) : width_(width), heads_(heads) {}

  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, heads);
  TORCH_ARG(int64_t, head_width) = 0;             // 0: width / heads
  TORCH_ARG(std::string, attention) = "softmax";  // a written form: "softmax+bn(beta=0.6)", "cat"
  TORCH_ARG(double, dropout) = 0;                 // of the weights, while training: see weight_dropout
  TORCH_ARG(bool, qkv_bias) = true;
  TORCH_ARG(Tokens, tokens) = {};  // that mechanisms of the layer level may ask for
};

// Learnable parameters of the attention (beta, kernel, bias) stand beside qkv and proj under their own names; those of
// a layer stand under `layer`, without qkv and proj.
class SADDLE_TORCH_API SelfAttentionImpl : public torch::nn::Cloneable<SelfAttentionImpl> {
 public:
  SelfAttentionImpl(int64_t width, int64_t heads) : SelfAttentionImpl(SelfAttentionOptions(width, heads)) {}
  explicit SelfAttentionImpl(const SelfAttentionOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,X] -> [B,N,X]; key_mask [B,N] true where a token exists. `out` goes to the output projection: a residual,
  // the type of the result.
  Tensor forward(const Tensor& x, const Tensor& key_mask = {}, const LinearOptions& out = {});
  // The same with weights, log-sum-exp or column sums beside y; a layer has none of them.
  AttentionOutputs outputs(const Tensor& x, const Tensor& key_mask, const Wanted& wanted,
                           const LinearOptions& out = {});

  // Of a declared attention; one with all defaults when a layer stands in its place.
  const primal::Attention& value() const { return value_; }
  int64_t head_width() const {
    return options.head_width() > 0 ? options.head_width() : options.width() / options.heads();
  }
  // Multiply-adds of N tokens, forward.
  double multiply_adds(int64_t N) const;

  SelfAttentionOptions options;
  torch::nn::Linear qkv{nullptr}, proj{nullptr};  // empty when a layer stands in their place
  AttentionLayerPtr layer;                        // null for a declared attention

 private:
  mechanisms::LayerPlace place() const;

  primal::Attention value_;
  std::map<std::string, Tensor> attention_parameters_;  // learnable ones
  mechanisms::LayerPtr declared_layer_;
};

TORCH_MODULE(SelfAttention);

}  // namespace saddle::nn
