#include "saddle/nn/blocks/self_attention.hpp"

#include <fmt/format.h>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {

SelfAttentionImpl::SelfAttentionImpl(const SelfAttentionOptions& given) : options(given) { reset(); }

void SelfAttentionImpl::reset() {
  const Index X = options.width(), H = options.heads();
  if (X < 1 || H < 1 || X % H != 0)
    throw InvalidArgument(fmt::format("[SelfAttention] width {} cannot be cut into {} heads", X, H),
                          "the width must be a multiple of the number of heads");
  value_ = parsed(options.attention());
  qkv = register_module("qkv", torch::nn::Linear(torch::nn::LinearOptions(X, 3 * X).bias(options.qkv_bias())));
  proj = register_module("proj", torch::nn::Linear(X, X));
  attention_parameters_ = learnable_parameters(value_, H, X / H, X / H);
  for (auto& [name, tensor] : attention_parameters_) tensor = register_parameter(name, tensor);
}

void SelfAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::SelfAttention(width=" << options.width() << ", heads=" << options.heads()
         << ", attention=" << options.attention() << ")";
}

Tensor SelfAttentionImpl::forward(const Tensor& x, const Tensor& key_mask, const LinearOptions& out) {
  return outputs(x, key_mask, {}, out).y;
}

AttentionOutputs SelfAttentionImpl::outputs(const Tensor& x, const Tensor& key_mask, const Wanted& wanted,
                                            const LinearOptions& out) {
  AttentionInputs rest;
  rest.key_mask = key_mask;
  rest.parameters = attention_parameters_;
  if (is_training() && options.dropout() > 0) rest.dropout = {options.dropout(), next_seed(), 0};
  const MultiheadWeights weights{qkv->weight, qkv->bias, {}, {}, {}, proj->weight, proj->bias};
  return multihead_attention(value_, options.heads(), weights, x, x, x, rest, wanted, out);
}

}  // namespace saddle::nn
