#include "saddle/nn/multihead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "saddle/nn/pooled_input.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {

namespace {

// Some of [H,..], without a copy where they are neighbours.
Tensor pick_heads(const Tensor& tensor, const std::vector<int64_t>& heads) {
  for (std::size_t i = 1; i < heads.size(); ++i)
    if (heads[i] != heads[i - 1] + 1)
      return tensor.index_select(0, torch::tensor(heads, torch::TensorOptions(torch::kInt64).device(tensor.device())));
  return tensor.narrow(0, heads.front(), static_cast<int64_t>(heads.size()));
}

// Weight and bias of an affine map.
struct Affine {
  Tensor weight, bias;

  Tensor operator()(const Tensor& x, const LinearOptions& options = {}) const {
    return nn::linear(x, weight, bias, options);
  }
  // The rows of some heads.
  Affine rows(const std::vector<int64_t>& heads, Index H) const {
    const auto pick = [&](const Tensor& tensor) {
      return tensor.defined() ? pick_heads(tensor.unflatten(0, {H, -1}), heads).flatten(0, 1) : tensor;
    };
    return {pick(weight), pick(bias)};
  }
};

struct Projections {
  Affine q, k, v;
};

Projections projections_of(const MultiheadWeights& weights, Index H) {
  const Index values = weights.out_proj_weight.size(1);
  const Index keys =
      weights.in_proj_weight.defined() ? (weights.in_proj_weight.size(0) - values) / 2 : weights.k_proj_weight.size(0);
  if (keys < 1 || keys % H != 0 || values % H != 0)
    throw InvalidArgument(fmt::format(
        "[multihead_attention] projections to {} (keys) and {} (values) cannot be cut into {} heads", keys, values, H));
  const auto part = [](const Tensor& tensor, Index first, Index size) {
    return tensor.defined() ? tensor.narrow(0, first, size) : tensor;
  };
  const auto affine = [&](const Tensor& own, Index first, Index size) {
    return Affine{own.defined() ? own : part(weights.in_proj_weight, first, size),
                  part(weights.in_proj_bias, first, size)};
  };
  return {affine(weights.q_proj_weight, 0, keys), affine(weights.k_proj_weight, keys, keys),
          affine(weights.v_proj_weight, 2 * keys, values)};
}

// [B,n,H C] -> [B,H,n,C] and back.
Tensor split_heads(const Tensor& x, Index heads) { return x.unflatten(2, {heads, -1}).transpose(1, 2); }
Tensor join_heads(const Tensor& y) { return y.transpose(1, 2).flatten(2); }

bool wants_nothing(const Wanted& wanted) { return !wanted.weights && !wanted.lse && !wanted.column_sums; }

// Averages over windows and affine maps commute, so fewer tokens need projecting: unless single tokens are hidden from
// single queries.
bool pools_input(const primal::Attention& attention, const AttentionInputs& rest, const Wanted& wanted) {
  return attention.pooling && !rest.mask.defined() && !rest.score_bias.defined() && wants_nothing(wanted) &&
         std::all_of(attention.keys.begin(), attention.keys.end(),
                     [](const primal::KeySet& keys) { return std::holds_alternative<primal::Padding>(keys); });
}

// Heads with the same factor are fitted on the same pooled tokens. Gives [B,N,H E].
Tensor attend_pooled(const primal::Attention& attention_value, Index H, const Projections& maps, const Tensor& query,
                     const Tensor& key, const Tensor& value, const AttentionInputs& rest) {
  const std::vector<HeadGroup> groups = head_groups(*attention_value.pooling, H);
  std::vector<int64_t> order, sizes;  // of heads, group by group
  for (const HeadGroup& group : groups) {
    order.insert(order.end(), group.heads.begin(), group.heads.end());
    sizes.push_back(static_cast<int64_t>(group.heads.size()));
  }
  // Rows of weights are put into that order rather than queries, which are many more.
  const std::vector<Tensor> queries = split_heads(maps.q.rows(order, H)(query), H).split_with_sizes(sizes, 1);
  primal::Attention own = attention_value;
  own.pooling.reset();
  std::vector<Tensor> parts;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto& [factor, heads] = groups[g];
    const PooledInput k = pool_input(*attention_value.pooling, factor, key, rest.key_mask);
    const PooledInput v = value.is_same(key) ? k : pool_input(*attention_value.pooling, factor, value, rest.key_mask);
    AttentionInputs inputs = rest;
    inputs.q = queries[g];
    inputs.k = split_heads(maps.k.rows(heads, H)(k.tokens), sizes[g]);
    inputs.v = split_heads(maps.v.rows(heads, H)(v.tokens), sizes[g]);
    inputs.key_mask = k.key_mask;
    for (auto& [name, tensor] : inputs.parameters)
      if (tensor.size(0) == H) tensor = pick_heads(tensor, heads);
    inputs.dropout.offset += static_cast<std::uint64_t>(heads.front()) << 32;  // groups drop different weights
    parts.push_back(join_heads(attention(own, inputs).y));
  }
  const Tensor y = parts.size() == 1 ? parts[0] : torch::cat(parts, 2);
  if (std::is_sorted(order.begin(), order.end())) return y;
  std::vector<int64_t> places(H);
  for (Index i = 0; i < H; ++i) places[order[i]] = i;
  return y.unflatten(2, {H, -1})
      .index_select(2, torch::tensor(places, torch::TensorOptions(torch::kInt64).device(y.device())))
      .flatten(2);
}

}  // namespace

AttentionOutputs multihead_attention(const primal::Attention& declared, Index heads, const MultiheadWeights& weights,
                                     const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttentionInputs& rest, const Wanted& asked, const LinearOptions& out) {
  primal::Attention own = declared;
  own.residual.reset();
  Taps* const taps = Taps::current();
  Wanted wanted = asked;
  wanted.weights = asked.weights || (taps != nullptr && taps->wants_weights());
  const bool shows_parts = taps != nullptr && taps->wants_parts();  // so keys and values must exist by themselves
  const Projections maps = projections_of(weights, heads);
  const Affine to_outputs{weights.out_proj_weight, weights.out_proj_bias};
  AttentionOutputs outputs;
  Tensor y;  // [B,N,H E]
  std::map<std::string, Tensor> parts;
  if (!shows_parts && pools_input(own, rest, wanted)) {
    y = attend_pooled(own, heads, maps, query, key, value, rest);
  } else if (!shows_parts && weights.in_proj_weight.defined() && wants_nothing(wanted) && query.is_same(key) &&
             key.is_same(value)) {
    const Affine all{weights.in_proj_weight, weights.in_proj_bias};
    y = attention_qkv(own, all(query), heads, rest, to_outputs.weight.size(1) / heads);
  } else {
    AttentionInputs inputs = rest;
    inputs.q = split_heads(maps.q(query), heads);
    inputs.k = split_heads(maps.k(key), heads);
    inputs.v = split_heads(maps.v(value), heads);
    outputs = attention(own, inputs, wanted);
    y = join_heads(outputs.y);
    if (shows_parts) parts = {{"keys", inputs.k.detach()}, {"values", inputs.v.detach()}};
  }
  if (taps != nullptr)
    taps->layers.push_back({split_heads(y, heads).detach(), outputs.weights, rest.key_mask, heads, std::move(parts)});
  LinearOptions last = out;
  if (declared.residual) last.residual = out.residual.defined() ? out.residual + query : query;
  outputs.y = to_outputs(y, last);
  return outputs;
}

void put_torch_masks(const Tensor& key_padding_mask, const Tensor& attn_mask, const Dims& dims,
                     AttentionInputs& inputs) {
  const auto [B, H, N, M] = std::array{dims.B, dims.H, dims.N, dims.M};
  const auto require = [](const Tensor& mask, const char* name, bool fits, const std::string& shapes) {
    if (!fits)
      throw InvalidArgument(fmt::format("[multihead_attention] {} has shape {}, expected {}", name,
                                        to_string(Shape(mask.sizes().begin(), mask.sizes().end())), shapes));
    const auto type = mask.scalar_type();
    if (!mask.is_floating_point() && type != torch::kBool && type != torch::kUInt8)
      throw InvalidArgument(fmt::format("[multihead_attention] {} is {}, expected bool or numbers to add to the scores",
                                        name, c10::toString(type)));
  };
  const auto add_bias = [&](const Tensor& numbers) {
    inputs.score_bias = inputs.score_bias.defined() ? inputs.score_bias + numbers : numbers;
  };
  // Of numbers: where they hide a key, and whether anything else is left to add.
  const auto hides = [](const Tensor& mask) { return mask.detach().eq(-std::numeric_limits<double>::infinity()); };
  const auto adds = [](const Tensor& numbers) { return numbers.requires_grad() || numbers.ne(0).any().item<bool>(); };

  if (key_padding_mask.defined()) {
    const Tensor& mask = key_padding_mask;
    require(mask, "key_padding_mask", mask.sizes() == torch::IntArrayRef({B, M}), fmt::format("({},{})", B, M));
    const Tensor hidden = mask.is_floating_point() ? hides(mask) : mask.to(torch::kBool);
    inputs.key_mask = hidden.logical_not();
    if (mask.is_floating_point())
      if (const Tensor numbers = mask.masked_fill(hidden, 0); adds(numbers))
        add_bias(numbers.unsqueeze(1).unsqueeze(1));
  }
  if (!attn_mask.defined()) return;
  const bool shared = attn_mask.sizes() == torch::IntArrayRef({N, M});
  require(attn_mask, "attn_mask", shared || attn_mask.sizes() == torch::IntArrayRef({B * H, N, M}),
          fmt::format("({},{}) or ({},{},{})", N, M, B * H, N, M));
  const Tensor mask = shared ? attn_mask : attn_mask.unflatten(0, {B, H});
  if (!mask.is_floating_point()) {
    inputs.mask = mask.to(torch::kBool).logical_not();
    return;
  }
  const Tensor hidden = hides(mask);
  if (hidden.any().item<bool>()) inputs.mask = hidden.logical_not();
  if (const Tensor numbers = mask.masked_fill(hidden, 0); adds(numbers)) add_bias(numbers);
}

}  // namespace saddle::nn
