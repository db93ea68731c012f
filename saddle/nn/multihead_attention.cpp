#include "saddle/nn/multihead_attention.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& given) : options(given) { reset(); }

void MultiheadAttentionImpl::reset() {
  const Index X = options.embed_dim(), H = options.num_heads();
  if (X < 1 || H < 1 || (options.key_width() == 0 && X % H != 0))
    throw InvalidArgument(fmt::format("[MultiheadAttention] embed_dim {} cannot be cut into {} heads", X, H),
                          "embed_dim must be a multiple of num_heads, or key_width be given");
  const Index D = options.key_width() > 0 ? options.key_width() : X / H;
  const Index E = options.value_width() > 0 ? options.value_width() : D;
  value_ = parsed(options.attention());

  const Index kdim = options.kdim() > 0 ? options.kdim() : X, vdim = options.vdim() > 0 ? options.vdim() : X;
  const auto weight = [&](const char* name, Index rows, Index columns) {
    const Tensor tensor = register_parameter(name, torch::empty({rows, columns}));
    torch::nn::init::xavier_uniform_(tensor);
    return tensor;
  };
  if (kdim == X && vdim == X) {
    in_proj_weight = weight("in_proj_weight", H * (2 * D + E), X);
  } else {
    q_proj_weight = weight("q_proj_weight", H * D, X);
    k_proj_weight = weight("k_proj_weight", H * D, kdim);
    v_proj_weight = weight("v_proj_weight", H * E, vdim);
  }
  if (options.bias()) in_proj_bias = register_parameter("in_proj_bias", torch::zeros({H * (2 * D + E)}));
  out_proj = register_module("out_proj", torch::nn::Linear(torch::nn::LinearOptions(H * E, X).bias(options.bias())));
  if (options.bias()) torch::nn::init::zeros_(out_proj->bias);

  attention_parameters_ = learnable_parameters(value_, H, D, E);
  for (auto& [name, tensor] : attention_parameters_) tensor = register_parameter(name, tensor);
}

void MultiheadAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::MultiheadAttention(embed_dim=" << options.embed_dim() << ", num_heads=" << options.num_heads()
         << ", attention=" << options.attention() << ")";
}

MultiheadWeights MultiheadAttentionImpl::weights() const {
  return {in_proj_weight, in_proj_bias, q_proj_weight, k_proj_weight, v_proj_weight, out_proj->weight, out_proj->bias};
}

AttentionInputs MultiheadAttentionImpl::rest() const {
  AttentionInputs inputs;
  inputs.parameters = attention_parameters_;
  if (is_training() && options.dropout() > 0) inputs.dropout = {options.dropout(), next_seed(), 0};
  return inputs;
}

Tensor MultiheadAttentionImpl::self_attention(const Tensor& x, const Tensor& key_mask) {
  AttentionInputs inputs = rest();
  inputs.key_mask = key_mask;
  return multihead_attention(value_, options.num_heads(), weights(), x, x, x, inputs).y;
}

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& key_padding_mask, bool need_weights,
                                                           const Tensor& attn_mask, bool average_attn_weights) {
  for (const auto& [tensor, name] : {std::pair{&query, "query"}, {&key, "key"}, {&value, "value"}})
    if (!tensor->defined() || tensor->dim() != query.dim() || (tensor->dim() != 3 && tensor->dim() != 2))
      throw InvalidArgument(
          fmt::format("[MultiheadAttention] {} must have 3 dimensions, or all of query, key and value 2", name));
  const bool batched = query.dim() == 3;
  const auto batch_first = [&](const Tensor& x) {
    if (!batched) return x.unsqueeze(0);
    return options.batch_first() ? x : x.transpose(0, 1);
  };
  const Tensor q = batch_first(query);
  const Tensor k = key.is_same(query) ? q : batch_first(key);
  const Tensor v = value.is_same(key) ? k : batch_first(value);
  const bool lone_padding = key_padding_mask.defined() && !batched;
  AttentionInputs inputs = rest();
  put_torch_masks(lone_padding ? key_padding_mask.unsqueeze(0) : key_padding_mask, attn_mask,
                  {q.size(0), options.num_heads(), q.size(1), k.size(1)}, inputs);
  Wanted wanted;
  wanted.weights = need_weights;
  auto [y, own_weights, lse, sums] =
      multihead_attention(value_, options.num_heads(), weights(), q, k, v, inputs, wanted);
  if (need_weights && average_attn_weights) own_weights = own_weights.mean(1);
  if (!batched) return {y.squeeze(0), need_weights ? own_weights.squeeze(0) : own_weights};
  return {options.batch_first() ? y : y.transpose(0, 1), own_weights};
}

}  // namespace saddle::nn
