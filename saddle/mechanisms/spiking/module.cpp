#include "saddle/mechanisms/spiking/module.hpp"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>

#include "saddle/nn/attention.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/spiking.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/widened.hpp"

namespace saddle::mechanisms::spiking {

namespace {

using torch::Tensor;

// [T,B,N,X] -> [T B,H,N,D], a view.
Tensor heads_of(const Tensor& x, Index H) { return x.flatten(0, 1).unflatten(2, {H, -1}).transpose(1, 2); }

// [T B,H,N,D] -> [T,B,N,X]
Tensor tokens_of(const Tensor& heads, Index T) { return heads.transpose(1, 2).flatten(2).unflatten(0, {T, -1}); }

// The mask [B,N] for all steps.
Tensor for_steps(const Tensor& mask, Index T) { return mask.defined() ? mask.repeat({T, 1}) : mask; }

// Sums of spikes are whole numbers, which bfloat16 holds up to 256 only.
c10::impl::ExcludeDispatchKeyGuard without_autocast() {
  return c10::impl::ExcludeDispatchKeyGuard(c10::autocast_dispatch_keyset);
}

}  // namespace

SpikingAttention::SpikingAttention(const Spiking& spiking, const LayerPlace& place)
    : spiking_(spiking), place_(place), plan_(spiking) {
  const auto map = [&](const std::string& name, bool bias, torch::nn::Linear& linear, nn::Norm& norm) {
    linear = register_module(name, torch::nn::Linear(torch::nn::LinearOptions(place.X, place.X).bias(bias)));
    norm = register_module(name + "_bn", nn::Norm(nn::NormOptions(place.X).kind("batch").eps(plan_.eps)));
  };
  map("q", plan_.biased(), q_, q_bn_);
  map("k", plan_.biased(), k_, k_bn_);
  if (plan_.has_values()) map("v", plan_.biased(), v_, v_bn_);
  map("proj", true, proj_, proj_bn_);
}

Tensor SpikingAttention::forward(const Tensor& x, const Tensor& key_mask) {
  if (x.dim() == 4) return run(x, key_mask, x.size(0), false);
  return run(x.unsqueeze(0), key_mask, spiking_.steps, false).mean(0);
}

Tensor SpikingAttention::over_time(const Tensor& x) { return run(x, {}, x.size(0), true); }

// Neurons and norms run in float at least, whatever the products run in.
Tensor SpikingAttention::projected(const Tensor& x, torch::nn::Linear& map, nn::Norm& norm) const {
  nn::LinearOptions options;
  options.dtype = map->weight.scalar_type();
  return norm(nn::linear(x, map->weight, map->bias, options));
}

Tensor SpikingAttention::run(const Tensor& given, const Tensor& key_mask, Index T, bool spikes) {
  const Index N = given.size(2), X = place_.X;
  Tensor x = nn::widened(given);
  if (plan_.input_spikes()) x = nn::fire(x, plan_.neuron, T);
  auto* const shown = nn::Shown::current();
  if (shown != nullptr && plan_.input_spikes())
    shown->values[plan_.variant == Variant::sdsa ? "spikes.shortcut_lif" : "spikes.proj_lif"] = x;
  const auto made = [&](const char* name, torch::nn::Linear& map, nn::Norm& norm, const Tensor& in,
                        bool fed_by_spikes) {
    if (auto* const meter = nn::EnergyMeter::current()) {
      const double macs = static_cast<double>(N * X * X);
      fed_by_spikes ? meter->spikes_into(name, in, T, macs) : meter->numbers_into(name, T, macs);
    }
    return projected(in, map, norm);
  };
  const bool from_spikes = spikes || plan_.input_spikes();
  const Tensor q = nn::fire(made("q", q_, q_bn_, x, from_spikes), plan_.neuron, T);
  const Tensor k = nn::fire(made("k", k_, k_bn_, x, from_spikes), plan_.neuron, T);
  Tensor v;
  if (plan_.has_values()) v = made("v", v_, v_bn_, x, from_spikes);
  if (plan_.has_values() && plan_.value_spikes()) v = nn::fire(v, plan_.neuron, T);
  const Tensor a = attended(q, k, v, key_mask);
  Tensor y = made("proj", proj_, proj_bn_, a, true);
  if (plan_.output_spikes()) y = nn::fire(y, plan_.neuron, T);
  if (shown != nullptr) {
    shown->values["spikes.q_lif"] = q;
    shown->values["spikes.k_lif"] = k;
    if (plan_.has_values()) shown->values["spikes.v_lif"] = v;
    if (plan_.output_spikes()) shown->values["spikes.proj_lif"] = y;
  }
  return key_mask.defined() ? y * key_mask.view({1, key_mask.size(0), N, 1}) : y;
}

Tensor SpikingAttention::attended(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask) {
  const Index T = q.size(0), B = q.size(1), N = q.size(2), H = place_.H, D = place_.X / H;
  const auto guard = without_autocast();
  const auto present = [&](const Tensor& keys) {
    return key_mask.defined() ? keys * key_mask.view({1, B, N, 1}) : keys;
  };
  auto* const meter = nn::EnergyMeter::current();
  auto* const shown = nn::Shown::current();
  Tensor a;
  if (plan_.variant == Variant::qkformer_token) {
    const Tensor gate = nn::fire(q.unflatten(3, {H, D}).sum(4, true), plan_.attention, T);
    a = (gate * k.unflatten(3, {H, D})).flatten(3);
    if (shown) shown->values["spikes.attn_lif"] = gate.transpose(2, 3);
    if (meter) meter->spikes_into("token", q, T, static_cast<double>(N * place_.X));
  } else if (plan_.variant == Variant::sdsa) {
    const Tensor gate = nn::fire((present(k) * v).sum(2, true), plan_.attention, T);
    a = gate * q;
    if (shown) shown->values["spikes.talking_heads_lif"] = gate.unflatten(3, {H, D}).transpose(2, 3);
    if (meter) meter->spikes_into("gate", k * v, T, static_cast<double>(N * place_.X));
  } else {
    a = nn::fire(product(q, plan_.linear() ? present(k) : k, v, key_mask), plan_.attention, T);
    if (shown) shown->values["spikes.attn_lif"] = a;
    if (meter) {
      const double rate_q = nn::firing_rate(q), rate_k = nn::firing_rate(k);
      meter->add("product", rate_q,
                 plan_.linear() ? ssa_product(T, H, N, D, rate_q, rate_k, plan_.value_spikes() ? nn::firing_rate(v) : 1)
                                : bsa_product(T, H, N, D, rate_q, rate_k));
    }
  }
  if (nn::Taps::current() != nullptr) {
    const Tensor heads = a.mean(0).unflatten(2, {H, D}).transpose(1, 2);
    const bool with_weights =
        nn::tap_wants_weights() && plan_.variant != Variant::qkformer_token && plan_.variant != Variant::sdsa;
    nn::tap(heads, with_weights ? weights(q, k, key_mask).unflatten(0, {T, B}).mean(0) : Tensor(), key_mask);
  }
  return a;
}

Tensor SpikingAttention::product(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask) {
  const Index T = q.size(0), H = place_.H;
  const Tensor qh = heads_of(q, H), kh = heads_of(k, H), vh = heads_of(v.expand({T, -1, -1, -1}), H);
  const auto all = [](const Tensor& heads) { return heads.flatten(0, 1); };
  if (plan_.linear()) {
    const Tensor y = nn::spike_product(all(qh), all(kh), all(vh)) * plan_.scale;
    return tokens_of(y.unflatten(0, {-1, H}), T);
  }
  if (plan_.constraint == Constraint::softmax) {
    primal::Attention softmax;
    softmax.kernel = primal::ExpDot{.scale = 1.0};
    nn::AttentionInputs inputs;
    inputs.q = qh;
    inputs.k = kh;
    inputs.v = vh;
    inputs.key_mask = for_steps(key_mask, T);
    return tokens_of(nn::attention(softmax, inputs).y, T);
  }
  const Tensor y = nn::shiftmax_product(all(qh), all(kh), all(vh), key_mask, H);
  return tokens_of(y.unflatten(0, {-1, H}), T);
}

Tensor SpikingAttention::weights(const Tensor& q, const Tensor& k, const Tensor& key_mask) const {
  const torch::NoGradGuard guard;
  const Index T = q.size(0), H = place_.H;
  const Tensor qh = heads_of(q, H), kh = heads_of(k, H);
  if (!plan_.linear() && plan_.constraint == Constraint::shiftmax)
    return nn::shiftmax_weights(qh.flatten(0, 1), kh.flatten(0, 1), key_mask, H).unflatten(0, {-1, H});
  Tensor scores = torch::matmul(qh, kh.transpose(2, 3));
  const Tensor missing = key_mask.defined() ? for_steps(key_mask, T).logical_not().unsqueeze(1).unsqueeze(1) : Tensor();
  if (plan_.linear()) return missing.defined() ? (scores * plan_.scale).masked_fill(missing, 0) : scores * plan_.scale;
  if (missing.defined()) scores = scores.masked_fill(missing, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).nan_to_num(0);
}

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<SpikingAttention>(layer.part<Spiking>(), place);
}

}  // namespace saddle::mechanisms::spiking
