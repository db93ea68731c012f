#include "saddle/nn/models/event_model.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/written.hpp"
#include "saddle/primal/cost.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "EventModel";
constexpr double norm_eps = 1e-8;

torch::nn::Linear glorot_linear(int64_t in, int64_t out) {
  torch::nn::Linear layer(in, out);
  torch::nn::init::xavier_uniform_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

// A declared attention that looks back only. One that cannot be causal says so.
std::string looking_back(const std::string& text, bool causal) {
  if (!causal || mechanisms::find_layer(text) || primal::is_causal(parsed(text).keys)) return text;
  try {
    parsed(text + "+causal");
    return text + "+causal";
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("[{}] '{}' cannot be causal: {}", self_name, text, error.what()),
                          "causal=false lets events see later ones; the event to predict is never among them");
  }
}

double linear_cost(const torch::nn::Linear& layer, int64_t rows) {
  return layer.is_empty() ? 0.0 : static_cast<double>(rows) * static_cast<double>(layer->weight.numel());
}

}  // namespace

EventBlockImpl::EventBlockImpl(const EventBlockOptions& given) : options(given) { reset(); }

mechanisms::LayerPlace EventBlockImpl::place() const {
  mechanisms::LayerPlace place;
  place.X = options.width();
  place.H = options.heads();
  place.N = options.tokens().most;
  place.index = options.tokens().layer;
  place.dropout = options.attention_dropout();
  return place;
}

void EventBlockImpl::reset() {
  const int64_t C = options.width(), H = options.heads();
  if (C < 1 || H < 1 || C % H != 0)
    throw InvalidArgument(
        fmt::format("[{}] {} features of events and times cannot be cut into {} heads", self_name, C, H),
        "width + time_width must be a multiple of the number of heads");
  ln1 = register_module("ln1", Norm(NormOptions(C).eps(norm_eps)));
  declared_layer_ = mechanisms::find_layer(options.attention());
  if (declared_layer_) {
    layer = register_module("layer", make_layer(*declared_layer_, place()));
  } else {
    value_ = parsed(options.attention());
    q = register_module("q", glorot_linear(C, C));
    k = register_module("k", glorot_linear(C, C));
    v = register_module("v", glorot_linear(C, C));
    attention_parameters_ = learnable_parameters(value_, H, C / H, C / H);
    for (auto& [name, tensor] : attention_parameters_) tensor = register_parameter(name, tensor);
  }
  ln2 = register_module("ln2", Norm(NormOptions(C).eps(norm_eps)));
  ffn1 = register_module("ffn1", glorot_linear(C, C));
  ffn2 = register_module("ffn2", glorot_linear(C, options.out()));
}

void EventBlockImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::EventBlock(" << options.width() << " -> " << options.out()
         << ", attention=" << options.attention() << ")";
}

// Queries of `normed`, keys and values of x, all [B,N,C].
Tensor EventBlockImpl::attended(const Tensor& normed, const Tensor& x, const Tensor& mask) {
  if (layer) return layer->forward(normed, mask);
  const auto heads = [&](const Tensor& tokens, const torch::nn::Linear& map) {
    return nn::linear(tokens, map->weight, map->bias).unflatten(2, {options.heads(), -1}).transpose(1, 2);
  };
  AttentionInputs inputs;
  inputs.q = heads(normed, q);
  inputs.k = heads(x, k);
  inputs.v = heads(x, v);
  if (value_.residual)
    inputs.skip = normed.to(inputs.q.scalar_type()).unflatten(2, {options.heads(), -1}).transpose(1, 2);
  inputs.key_mask = mask;
  inputs.parameters = attention_parameters_;
  if (is_training()) inputs.dropout = weight_dropout(value_, options.attention_dropout());
  Wanted wanted;
  wanted.weights = tap_wants_weights();
  const AttentionOutputs outputs = attention(value_, inputs, wanted);
  tap(outputs.y, outputs.weights, mask, {{"keys", inputs.k}, {"values", inputs.v}});
  return outputs.y.transpose(1, 2).flatten(2);
}

Tensor EventBlockImpl::forward(const Tensor& x, const Tensor& mask) {
  const auto type = x.scalar_type();
  const auto dropped = [&](const Tensor& y) { return is_training() ? nn::dropout(y, options.dropout()) : y; };
  const Tensor normed = ln1(x, type);
  const Tensor inner = ln2(attended(normed, x, mask).to(type) + normed, type);
  LinearOptions out;
  out.dtype = type;
  const Tensor hidden = dropped(nn::linear(inner, ffn1->weight, ffn1->bias).relu());
  Tensor y = dropped(nn::linear(hidden, ffn2->weight, ffn2->bias, out));
  if (options.width() == options.out()) y = y + inner;
  return mask.defined() ? y * mask.unsqueeze(2) : y;
}

double EventBlockImpl::multiply_adds(int64_t N) const {
  double sum = linear_cost(ffn1, N) + linear_cost(ffn2, N);
  if (declared_layer_) {
    mechanisms::LayerPlace longer = place();
    longer.N = N;
    return sum + declared_layer_->cost(longer, 1, primal::Pass::forward, DType::f32).multiply_adds;
  }
  for (const torch::nn::Linear& map : {q, k, v}) sum += linear_cost(map, N);
  const Index D = options.width() / options.heads();
  const Dims dims{1, options.heads(), N, N, D, D};
  return sum +
         primal::attention_cost(value_, dims, primal::cheaper_form(value_, dims), primal::Pass::forward).multiply_adds;
}

EventModelImpl::EventModelImpl(const EventModelOptions& given) : Model("event_model"), options(given) {
  require_positive(self_name, {{"vocab", options.vocab()},
                               {"max_len", options.max_len()},
                               {"classes", options.classes()},
                               {"width", options.width()},
                               {"time_width", options.time_width()},
                               {"heads", options.heads()},
                               {"depth", options.depth()}});
  require_probability(self_name, "dropout", options.dropout());
  require_probability(self_name, "attention_dropout", options.attention_dropout());
  const int64_t d = options.width(), C = d + options.time_width();
  item_emb = register_parameter("item_emb", torch::empty({options.vocab(), d}));
  torch::nn::init::xavier_uniform_(item_emb);
  time = register_module(
      "time", TimeEncoding(TimeEncodingOptions(options.time_width(), options.time()).positions(options.max_len())));
  const auto each = attention_of_layers(options.attention(), options.last_attention(), options.depth());
  for (int64_t layer = 0; layer < options.depth(); ++layer) {
    const auto block = EventBlockOptions(C, layer + 1 < options.depth() ? C : d)
                           .heads(options.heads())
                           .attention(looking_back(each[static_cast<std::size_t>(layer)], options.causal()))
                           .dropout(options.dropout())
                           .attention_dropout(options.attention_dropout())
                           .tokens({.most = options.max_len(), .layer = layer});
    event_blocks.push_back(register_module(fmt::format("block{}", layer), EventBlock(block)));
  }
  final_ln = register_module("final_ln", Norm(NormOptions(d).eps(norm_eps)));
  head = register_module("cls", glorot_linear(d, options.classes()));
}

// The embeddings with row 0 zero, which so has no gradient.
Tensor EventModelImpl::table() const {
  return torch::constant_pad_nd(item_emb.narrow(0, 1, item_emb.size(0) - 1), {0, 0, 1, 0});
}

Tensor EventModelImpl::sequence(const Tensor& item, const Tensor& times) {
  require_tokens(self_name, item, options.max_len());
  if (!times.defined() || times.sizes() != item.sizes())
    throw InvalidArgument(fmt::format("[{}] times have shape {}: {} is expected, one for each event", self_name,
                                      shape_text(times), shape_text(item)));
  if (item.min().item<int64_t>() < 0 || item.max().item<int64_t>() >= options.vocab())
    throw InvalidArgument(fmt::format("[{}] events lie between {} and {}, they must lie between 0 and {}", self_name,
                                      item.min().item<int64_t>(), item.max().item<int64_t>(), options.vocab() - 1));
  Tensor mask = item.ne(0);
  const Tensor events = torch::embedding(table(), item) * std::sqrt(static_cast<double>(options.width()));
  Tensor x = torch::cat({events, time(times, mask)}, 2);
  if (is_training()) x = nn::dropout(x, options.dropout());
  if (mask.all().item<bool>()) {
    mask = Tensor();  // one that hides nothing would only cost
  } else {
    x = x * mask.unsqueeze(2);
  }
  tap_tokens(x);
  for (EventBlock& block : event_blocks) {
    x = block(x, mask);
    tap_tokens(x);
  }
  return final_ln(x, x.scalar_type());
}

Tensor EventModelImpl::forward(const Tensor& item, const Tensor& times) {
  const Tensor all = sequence(item, times);
  const Tensor places = torch::arange(item.size(1), item.options());
  const Tensor last = (item.ne(0) * places).argmax(1);
  return classify(all.gather(1, last.view({-1, 1, 1}).expand({-1, 1, all.size(2)})).squeeze(1), head->weight,
                  head->bias);
}

Tensor EventModelImpl::item_logits(const Tensor& sequence, const Tensor& items) {
  return torch::matmul(sequence, torch::embedding(table(), items).t());
}

Tensor EventModelImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  const Tensor mask = checked_mask(self_name, batch.mask, batch.inputs.size(0), batch.inputs.size(1));
  return forward(mask.defined() ? batch.inputs * mask : batch.inputs, batch.times);
}

std::vector<OptionValue> EventModelImpl::option_values() const { return option_values_of(options); }

std::vector<AttentionOfLayer> EventModelImpl::attentions() const {
  std::vector<AttentionOfLayer> list;
  for (const EventBlock& block : event_blocks)
    list.push_back({block->options.attention(), block->value(), block->options.heads()});
  return list;
}

std::shared_ptr<Model> EventModelImpl::fresh() const { return std::make_shared<EventModelImpl>(options); }

}  // namespace saddle::nn
