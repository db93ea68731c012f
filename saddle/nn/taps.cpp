#include "saddle/nn/taps.hpp"

namespace saddle::nn {

namespace {

thread_local Taps* current_taps = nullptr;

}  // namespace

Taps::Taps(bool with_weights, bool with_tokens, bool with_parts)
    : weights_(with_weights), tokens_(with_tokens), parts_(with_parts), before_(current_taps) {
  current_taps = this;
}
Taps::~Taps() { current_taps = before_; }
Taps* Taps::current() { return current_taps; }

void tap_tokens(const Tensor& tokens) {
  if (current_taps != nullptr && current_taps->wants_tokens()) current_taps->tokens.push_back(tokens.detach());
}

HeadDistance head_distance(const Tensor& heads, const Tensor& token_mask) {
  const Tensor y = heads.detach().to(torch::kFloat64);
  const Index H = y.size(1);
  double sum = 0, squares = 0, count = 0, norms = 0, outputs = 0;
  for (Index s = 0; s < H; ++s) {
    Tensor norm = y.select(1, s).norm(2, -1);  // [B,N]
    if (token_mask.defined()) norm = norm.masked_select(token_mask);
    norms += norm.sum().item<double>();
    outputs += static_cast<double>(norm.numel());
    for (Index t = s + 1; t < H; ++t) {
      Tensor distance = (y.select(1, s) - y.select(1, t)).norm(2, -1);  // [B,N]
      if (token_mask.defined()) distance = distance.masked_select(token_mask);
      sum += distance.sum().item<double>();
      squares += distance.square().sum().item<double>();
      count += static_cast<double>(distance.numel());
    }
  }
  if (count == 0) return {};
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean)), norms / outputs};
}

}  // namespace saddle::nn
