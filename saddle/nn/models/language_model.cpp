#include "saddle/nn/models/language_model.hpp"

#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "LanguageModel";
constexpr double deviation = 0.02;

std::string made_causal(const std::string& text) {
  if (const auto layer = mechanisms::find_layer(text)) {
    if (layer->causal()) return text;
    throw InvalidArgument(
        fmt::format("[{}] '{}' lets tokens see later ones", self_name, text),
        "layers that look back only are cat_causal, hyla(causal=true), rpc_attention(causal=true) and "
        "primal_attention(form=causal)");
  }
  if (primal::is_causal(parsed(text).keys)) return text;
  const std::string causal = text + "+causal";
  try {
    parsed(causal);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("[{}] '{}' cannot be causal: {}", self_name, text, error.what()), error.hint());
  }
  return causal;
}

}  // namespace

LanguageModelImpl::LanguageModelImpl(const LanguageModelOptions& given) : Model("language_model"), options(given) {
  require_positive(self_name, {{"vocab", options.vocab()}, {"max_len", options.max_len()}});
  EncoderOptions encoder = encoder_of(options, self_name);
  for (std::string& attention : encoder.attention()) attention = made_causal(attention);
  encoder.block().tokens({.most = options.max_len()});

  const int64_t X = options.width();
  token_embed = register_module("token_embed", torch::nn::Embedding(options.vocab(), X));
  torch::nn::init::normal_(token_embed->weight, 0, deviation);
  pos_embed = register_parameter("pos_embed", torch::empty({1, options.max_len(), X}).normal_(0, deviation));
  blocks = register_module("blocks", Encoder(encoder));
  norm = register_module("norm", Norm(X));
  if (!options.tied())
    head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(X, options.vocab()).bias(false)));

  initialise_linears(*this, deviation);
  const double at_ends = deviation / std::sqrt(2.0 * static_cast<double>(options.depth()));
  for (std::size_t layer = 0; layer < blocks->size(); ++layer) {
    if (!blocks[layer]->attn->proj.is_empty()) torch::nn::init::normal_(blocks[layer]->attn->proj->weight, 0, at_ends);
    torch::nn::init::normal_(blocks[layer]->mlp->fc2->weight, 0, at_ends);
  }
}

// [B,N] -> [B,N,X]
Tensor LanguageModelImpl::encoded(const Tensor& tokens, const Tensor& mask) {
  require_tokens(self_name, tokens, options.max_len());
  const int64_t N = tokens.size(1);
  Tensor x = embed(token_embed, tokens, self_name) + pos_embed.narrow(1, 0, N);
  if (is_training()) x = nn::dropout(x, options.dropout());
  return blocks(x, checked_mask(self_name, mask, tokens.size(0), N));
}

Tensor LanguageModelImpl::to_logits(const Tensor& x) {
  return classify(norm(x, c10::nullopt), options.tied() ? token_embed->weight : head->weight, {});
}

Tensor LanguageModelImpl::forward(const Tensor& tokens, const Tensor& mask) { return to_logits(encoded(tokens, mask)); }

Tensor LanguageModelImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  return forward(batch.inputs, batch.mask);
}

Tensor LanguageModelImpl::loss(const Tensor& tokens, const Tensor& targets, const Tensor& mask) {
  if (targets.defined())
    return torch::nn::functional::cross_entropy(forward(tokens, mask).flatten(0, 1),
                                                targets.flatten().to(torch::kInt64));
  require_tokens(self_name, tokens, options.max_len() + 1);
  const int64_t N = tokens.size(1) - 1;
  if (N < 1) throw InvalidArgument(fmt::format("[{}] one token tells no next one: give at least 2", self_name));
  return loss(tokens.narrow(1, 0, N), tokens.narrow(1, 1, N), mask.defined() ? mask.narrow(1, 0, N) : mask);
}

Tensor LanguageModelImpl::generate(Tensor tokens, int64_t count, double temperature) {
  if (!(temperature >= 0 && std::isfinite(temperature)))
    throw InvalidArgument(fmt::format("[{}] temperature is {}: it must be 0 or more", self_name, temperature));
  require_tokens(self_name, tokens, std::numeric_limits<int64_t>::max());
  const torch::NoGradGuard guard;
  const Evaluating evaluating(*this);
  for (int64_t step = 0; step < count; ++step) {
    const int64_t N = tokens.size(1), seen = std::min(N, options.max_len());
    const Tensor scores = to_logits(encoded(tokens.narrow(1, N - seen, seen), {}).select(1, seen - 1));
    const Tensor next =
        temperature == 0 ? scores.argmax(1, true) : torch::multinomial((scores / temperature).softmax(1), 1);
    tokens = torch::cat({tokens, next.to(tokens.scalar_type())}, 1);
  }
  return tokens;
}

std::vector<OptionValue> LanguageModelImpl::option_values() const { return option_values_of(options); }

std::shared_ptr<Model> LanguageModelImpl::fresh() const { return std::make_shared<LanguageModelImpl>(options); }

}  // namespace saddle::nn
