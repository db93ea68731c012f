#include "saddle/nn/models/pretraining.hpp"

#include <torch/nn/functional/loss.h>

#include <cmath>
#include <limits>

namespace saddle::nn {

namespace {

constexpr double shown_as_mask = 0.8, shown_as_another = 0.1;
constexpr int64_t few_features = 16;
constexpr double masked_features = 0.15;

// Of rows x [n,..] that may be none.
Tensor mean_or_zero(const Tensor& x, const Tensor& of) { return x.size(0) > 0 ? x.mean() : of.sum() * 0; }

}  // namespace

MaskedWords mask_words(const Tensor& tokens, const Tensor& exist, double share, int64_t words, int64_t mask_token) {
  const auto draw = [&] { return torch::rand(tokens.sizes(), tokens.device()); };
  Tensor chosen = draw().lt(share);
  if (exist.defined()) chosen = chosen.logical_and(exist);
  const Tensor fate = draw(), others = torch::randint(1, words, tokens.sizes(), tokens.options());
  Tensor shown = torch::where(chosen.logical_and(fate.lt(shown_as_mask)), torch::full_like(tokens, mask_token), tokens);
  const Tensor replaced = fate.ge(shown_as_mask).logical_and(fate.lt(shown_as_mask + shown_as_another));
  shown = torch::where(chosen.logical_and(replaced), others, shown);
  return {shown, chosen};
}

Tensor masked_word_loss(const Tensor& logits, const Tensor& tokens, const Tensor& chosen) {
  const auto each = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone);
  const Tensor asked = logits.index({chosen});
  return mean_or_zero(torch::nn::functional::cross_entropy(asked, tokens.index({chosen}), each), logits);
}

Matches draw_matches(int64_t B) {
  const Tensor own = torch::arange(B);
  if (B < 2) return {own, torch::ones({B}, torch::kBool)};
  const Tensor match = torch::rand({B}).ge(0.5);
  const Tensor other = (own + torch::randint(1, B, {B}, torch::kInt64)).remainder(B);
  return {torch::where(match, own, other), match};
}

Tensor pick_features(int64_t B, int64_t V, int64_t top) {
  if (V <= few_features)
    return torch::zeros({B, V}, torch::kBool).scatter_(1, torch::randint(V, {B, 1}, torch::kInt64), true);
  // A token stays if neither it nor one of the about `top` tokens that would take it along is picked.
  return torch::rand({B, V}).lt(1 - std::pow(1 - masked_features, 1.0 / static_cast<double>(1 + top)));
}

Tensor feature_mask(const Tensor& weights, const Tensor& picked, int64_t top) {
  const Tensor mean = weights.detach().mean(1);  // [B,V,V]
  const int64_t V = mean.size(1);
  const Tensor self = torch::eye(V, torch::TensorOptions(torch::kBool).device(mean.device()));
  const Tensor others = mean.masked_fill(self, -std::numeric_limits<double>::infinity());
  const Tensor order = std::get<1>(torch::sort(others, /*stable=*/true, /*dim=*/2, /*descending=*/true));
  const Tensor most = order.narrow(2, 0, std::min(top, V - 1));
  const Tensor along = torch::zeros({mean.size(0), V, V}, picked.options()).scatter_(2, most, true);  // by [picked]
  return picked.logical_or(along.logical_and(picked.unsqueeze(2)).any(1));
}

Tensor masked_feature_loss(const Tensor& prediction, const Tensor& feature, const Tensor& mask) {
  const Tensor squares = (prediction - feature.detach()).square().mean(2);  // [B,V]
  return mean_or_zero(squares.index({mask}), prediction);
}

}  // namespace saddle::nn
