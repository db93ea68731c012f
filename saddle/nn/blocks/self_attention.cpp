#include "saddle/nn/blocks/self_attention.hpp"

#include <fmt/format.h>

#include "saddle/nn/written.hpp"
#include "saddle/primal/cost.hpp"

namespace saddle::nn {

SelfAttentionImpl::SelfAttentionImpl(const SelfAttentionOptions& given) : options(given) { reset(); }

void SelfAttentionImpl::reset() {
  const Index X = options.width(), H = options.heads();
  if (X < 1 || H < 1 || options.head_width() < 0 || (options.head_width() == 0 && X % H != 0))
    throw InvalidArgument(fmt::format("[SelfAttention] width {} cannot be cut into {} heads", X, H),
                          "the width must be a multiple of the number of heads, or head_width be given");
  declared_layer_ = mechanisms::find_layer(options.attention());
  const Index D = head_width();
  if (declared_layer_) {
    if (H * D != X)
      throw InvalidArgument(
          fmt::format("[SelfAttention] '{}' cuts the width {} into its heads, {} of width {} are asked",
                      options.attention(), X, H, D),
          "declared attentions such as softmax can have fewer heads");
    layer = register_module("layer", make_layer(*declared_layer_, place()));
    return;
  }
  value_ = parsed(options.attention());
  qkv = register_module("qkv", torch::nn::Linear(torch::nn::LinearOptions(X, 3 * H * D).bias(options.qkv_bias())));
  proj = register_module("proj", torch::nn::Linear(H * D, X));
  attention_parameters_ = learnable_parameters(value_, H, D, D);
  for (auto& [name, tensor] : attention_parameters_) tensor = register_parameter(name, tensor);
}

void SelfAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::SelfAttention(width=" << options.width() << ", heads=" << options.heads()
         << ", attention=" << options.attention() << ")";
}

mechanisms::LayerPlace SelfAttentionImpl::place() const {
  const Tokens& tokens = options.tokens();
  mechanisms::LayerPlace place;
  place.X = options.width();
  place.H = options.heads();
  place.N = tokens.most;
  place.grid = tokens.grid;
  place.prefix = tokens.prefix;
  place.index = tokens.layer;
  place.bias = options.qkv_bias();
  place.dropout = options.dropout();
  return place;
}

double SelfAttentionImpl::multiply_adds(int64_t N) const {
  if (declared_layer_) {
    mechanisms::LayerPlace longer = place();
    longer.N = N;
    return declared_layer_->cost(longer, 1, primal::Pass::forward, DType::f32).multiply_adds;
  }
  const Dims dims{1, options.heads(), N, N, head_width(), head_width()};
  return primal::layer_cost(value_, dims, options.width(), primal::cheaper_form(value_, dims), primal::Pass::forward)
      .multiply_adds;
}

Tensor SelfAttentionImpl::forward(const Tensor& x, const Tensor& key_mask, const LinearOptions& out) {
  return outputs(x, key_mask, {}, out).y;
}

AttentionOutputs SelfAttentionImpl::outputs(const Tensor& x, const Tensor& key_mask, const Wanted& wanted,
                                            const LinearOptions& out) {
  if (layer) {
    if (wanted.weights || wanted.lse || wanted.column_sums)
      throw InvalidArgument(fmt::format("[SelfAttention] '{}' gives nothing beside its output", options.attention()));
    Tensor y = layer->forward(x, key_mask);
    if (out.residual.defined()) y = out.residual + y;
    AttentionOutputs outputs;
    outputs.y = out.dtype ? y.to(*out.dtype) : y;
    return outputs;
  }
  AttentionInputs rest;
  rest.key_mask = key_mask;
  rest.parameters = attention_parameters_;
  if (is_training()) rest.dropout = weight_dropout(value_, options.dropout());
  const MultiheadWeights weights{qkv->weight, qkv->bias, {}, {}, {}, proj->weight, proj->bias};
  return multihead_attention(value_, options.heads(), weights, x, x, x, rest, wanted, out);
}

}  // namespace saddle::nn
