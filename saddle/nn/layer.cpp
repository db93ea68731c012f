#include "saddle/nn/layer.hpp"

#include <fmt/format.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {

namespace {

thread_local ExtraLosses* current_losses = nullptr;
thread_local Shown* current_shown = nullptr;

}  // namespace

void AttentionLayer::clone_(torch::nn::Module& other, const c10::optional<torch::Device>& device) {
  const torch::NoGradGuard guard;
  auto parameters = named_parameters(), buffers = named_buffers();
  for (auto& item : other.named_parameters()) parameters[item.key()].set_data(item.value().detach().clone());
  for (auto& item : other.named_buffers()) buffers[item.key()].set_data(item.value().detach().clone());
  if (device) to(*device);
}

Tensor AttentionLayer::across(const Tensor&, const Tensor&) {
  throw NotSupported("this layer makes queries, keys and values of the same tokens", {});
}

AttentionLayerPtr make_layer(const mechanisms::Layer& layer, const mechanisms::LayerPlace& place) {
  layer.check(place);
  for (const LayerModule& module : generated_layer_modules())
    if (module.mechanism == layer.name()) return module.make(layer, place);
  throw NotSupported(fmt::format("[{}] the mechanism has no module that trains", layer.text()), {});
}

void tap(const Tensor& heads, const Tensor& weights, const Tensor& key_mask,
         const std::map<std::string, Tensor>& parts) {
  Taps* const taps = Taps::current();
  if (taps == nullptr) return;
  taps->layers.push_back({heads.detach(), weights.defined() ? weights.detach() : weights, key_mask, heads.size(1)});
  if (!taps->wants_parts()) return;
  for (const auto& [name, part] : parts) taps->layers.back().parts.emplace(name, part.detach());
}

bool tap_wants_weights() { return Taps::current() != nullptr && Taps::current()->wants_weights(); }

Shown::Shown() : before_(current_shown) { current_shown = this; }
Shown::~Shown() { current_shown = before_; }
Shown* Shown::current() { return current_shown; }

ExtraLosses::ExtraLosses() : before_(current_losses) { current_losses = this; }
ExtraLosses::~ExtraLosses() { current_losses = before_; }
ExtraLosses* ExtraLosses::current() { return current_losses; }

Tensor ExtraLosses::mean() const {
  if (terms_.empty()) return whole_;
  const Tensor mean = torch::stack(terms_).mean();
  return whole_.defined() ? mean + whole_ : mean;
}

}  // namespace saddle::nn
