#include "saddle/nn/prune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "saddle/base/text.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::nn {

namespace {

const SelfAttention& attention_of(const Model& model, std::size_t layer) {
  Encoder blocks = model.blocks;
  return blocks[layer]->attn;
}

void require_blocks(const Model& model) {
  if (model.blocks.is_empty())
    throw NotSupported(
        fmt::format("heads of the model '{}' cannot be taken out: its layers are of its own kind", model.name()), {},
        "time_series, sequence_classifier, vision_transformer and language_model can be pruned");
}

bool keeps_all(const Model& model, std::size_t layer, const std::vector<int64_t>& kept) {
  return static_cast<int64_t>(kept.size()) == attention_of(model, layer)->options.heads();
}

void check(const Model& model, const KeptHeads& kept) {
  require_blocks(model);
  const std::size_t depth = model.blocks->size();
  if (kept.size() != depth)
    throw InvalidArgument(fmt::format("[prune] heads of {} layers are given, the model has {}", kept.size(), depth));
  for (std::size_t layer = 0; layer < depth; ++layer) {
    const SelfAttention& attention = attention_of(model, layer);
    const int64_t H = attention->options.heads();
    const std::vector<int64_t>& own = kept[layer];
    if (own.empty())
      throw InvalidArgument(fmt::format("[prune] layer {} would have no head left", layer), "every layer keeps one");
    if (own.front() < 0 || own.back() >= H ||
        std::adjacent_find(own.begin(), own.end(), std::greater_equal<>()) != own.end())
      throw InvalidArgument(
          fmt::format("[prune] layer {} cannot keep the heads {}: they must be numbers from 0 to {}, "
                      "in ascending order",
                      layer, fmt::join(own, ", "), H - 1));
    if (keeps_all(model, layer, own)) continue;
    if (attention->layer)
      throw NotSupported(fmt::format("heads of layer {} cannot be taken out: '{}' cuts the width of the model into its "
                                     "heads",
                                     layer, attention->options.attention()),
                         {}, "declared attentions such as softmax can lose heads");
    // What a head sees may follow from its number.
    for (const primal::KeySet& keys : attention->value().keys)
      if (const auto* fixed = std::get_if<primal::Fixed>(&keys))
        for (std::size_t i = 0; i < own.size(); ++i)
          if ((own[i] - static_cast<int64_t>(i)) % fixed->num_verts != 0)
            throw NotSupported(
                fmt::format("head {} of layer {} cannot become head {}: by '{}' heads take turns over {} "
                            "groups of columns",
                            own[i], layer, i, attention->options.attention(), fixed->num_verts),
                {}, "keep heads whose numbers stay the same modulo num_verts");
  }
}

// The written form of a layer that keeps some heads: pooling factors belong to single heads.
std::string kept_attention(const SelfAttention& attention, const std::vector<int64_t>& kept) {
  if (attention->layer || !attention->value().pooling) return attention->options.attention();
  primal::Attention value = attention->value();
  const std::vector<Index> factors = primal::pooling_factors(*value.pooling, attention->options.heads());
  value.pooling->factors.clear();
  for (const int64_t head : kept) value.pooling->factors.push_back(factors[static_cast<std::size_t>(head)]);
  return primal::to_text(value);
}

// Part of a tensor [..,H,..] along a dimension that holds the heads side by side, `outer` times over.
Tensor of_heads(const Tensor& tensor, int64_t dimension, int64_t outer, int64_t H, const Tensor& heads) {
  return tensor.unflatten(dimension, {outer, H, -1})
      .index_select(dimension + 1, heads)
      .flatten(dimension, dimension + 2);
}

// What is left of a tensor of an attention with H heads; `name` is its name there.
Tensor kept_part(const std::string& name, const Tensor& tensor, int64_t H, const std::vector<int64_t>& kept) {
  const Tensor heads = torch::tensor(kept, torch::TensorOptions(torch::kInt64).device(tensor.device()));
  if (name == "qkv.weight" || name == "qkv.bias") return of_heads(tensor, 0, 3, H, heads);
  if (name == "proj.weight") return of_heads(tensor, 1, 1, H, heads);
  // Parameters of the attention [H,..], or [1,..] where heads share them.
  if (name != "proj.bias" && tensor.size(0) == H) return tensor.index_select(0, heads);
  return tensor;
}

OptionTexts options_of(const Model& model, const KeptHeads& kept) {
  OptionTexts texts;
  for (const OptionValue& option : model.option_values()) texts[option.name] = option.value;
  std::vector<std::string> counts, attentions;
  bool pools = false;
  for (std::size_t layer = 0; layer < kept.size(); ++layer) {
    const SelfAttention& attention = attention_of(model, layer);
    counts.push_back(std::to_string(kept[layer].size()));
    attentions.push_back(kept_attention(attention, kept[layer]));
    pools |= attentions.back() != attention->options.attention();
  }
  texts["layer_heads"] = join(counts, ",");
  if (pools) {
    texts["attention"] = join(attentions, ",");
    texts["last_attention"] = "";
  }
  return texts;
}

}  // namespace

KeptHeads all_heads(const Model& model) {
  require_blocks(model);
  KeptHeads all;
  for (std::size_t layer = 0; layer < model.blocks->size(); ++layer) {
    std::vector<int64_t>& own = all.emplace_back(static_cast<std::size_t>(attention_of(model, layer)->options.heads()));
    std::iota(own.begin(), own.end(), int64_t{0});
  }
  return all;
}

bool can_lose_heads(const Model& model, std::size_t layer) {
  require_blocks(model);
  const SelfAttention& attention = attention_of(model, layer);
  return !attention->layer && attention->options.heads() > 1;
}

std::shared_ptr<Model> with_heads(const Model& model, const KeptHeads& kept) {
  check(model, kept);
  const torch::NoGradGuard guard;
  const std::shared_ptr<Model> pruned = make_model(model.name(), options_of(model, kept));
  const auto copy = [&](torch::OrderedDict<std::string, Tensor> to,
                        const torch::OrderedDict<std::string, Tensor>& from) {
    for (const auto& item : from) {
      Tensor part = item.value();
      for (std::size_t layer = 0; layer < kept.size(); ++layer) {
        const std::string prefix = fmt::format("blocks.{}.attn.", layer);
        const SelfAttention& attention = attention_of(model, layer);
        if (item.key().starts_with(prefix) && !attention->layer)
          part = kept_part(item.key().substr(prefix.size()), part, attention->options.heads(), kept[layer]);
      }
      to[item.key()].set_data(part.clone());
      to[item.key()].set_requires_grad(item.value().requires_grad());
    }
  };
  copy(pruned->named_parameters(), model.named_parameters());
  copy(pruned->named_buffers(), model.named_buffers());
  set_training(*pruned, training_of(model));
  return pruned;
}

void rescale_layers(Model& pruned, const Model& before) {
  const torch::NoGradGuard guard;
  for (std::size_t layer = 0; layer < pruned.blocks->size(); ++layer) {
    const SelfAttention &now = attention_of(pruned, layer), &was = attention_of(before, layer);
    if (now->layer) continue;
    torch::nn::Linear proj = now->proj;
    proj->weight.mul_(std::sqrt(static_cast<double>(was->options.heads()) / static_cast<double>(now->options.heads())));
  }
}

std::vector<std::vector<double>> head_norms(const Model& model) {
  require_blocks(model);
  const torch::NoGradGuard guard;
  std::vector<std::vector<double>> norms(model.blocks->size());
  for (std::size_t layer = 0; layer < norms.size(); ++layer) {
    if (!can_lose_heads(model, layer)) continue;
    const SelfAttention& attention = attention_of(model, layer);
    const int64_t H = attention->options.heads();
    const auto squares = [](const Tensor& tensor) { return tensor.to(torch::kFloat64).square(); };
    const Tensor in = squares(attention->qkv->weight).unflatten(0, {3, H, -1}).sum({0, 2, 3});
    const Tensor out = squares(attention->proj->weight).unflatten(1, {H, -1}).sum(2).sum(0);
    const Tensor norm = (in + out).sqrt().to(torch::kCPU).contiguous();
    norms[layer].assign(norm.data_ptr<double>(), norm.data_ptr<double>() + H);
  }
  return norms;
}

}  // namespace saddle::nn
