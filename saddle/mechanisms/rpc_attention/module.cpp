// RPC-Attention as a torch module: every pass is one fused attention, with a clip and a few sums around it.
//
// With c = clip(K - L + Y/mu, -t, t) the sparse part is S = K - L + Y/mu - c. Put into the other steps, the dual
// variable leaves Y/mu = c + L_before - L, and the keys of the next pass are 3 L - 2 L_before - 2 c_before + c. So mu
// is needed for the threshold alone.
#include <torch/nn/modules/linear.h>

#include "saddle/mechanisms/rpc_attention/rpc_attention.hpp"
#include "saddle/nn/attention.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/widened.hpp"
#include "saddle/nn/written.hpp"

namespace saddle::mechanisms::rpc_attention {

namespace {

using torch::Tensor;

// Clips, sums and mu run in float at least: several passes amplify rounding.
class RpcAttentionModule : public nn::AttentionLayer {
 public:
  RpcAttentionModule(const RpcAttention& rpc, const LayerPlace& place)
      : rpc_(rpc), place_(place), softmax_(nn::parsed(rpc.is_causal ? "softmax+causal" : "softmax")) {
    const Index parts = rpc.scaled() ? 3 : 2;
    qkv_ =
        register_module("qkv", torch::nn::Linear(torch::nn::LinearOptions(place.X, parts * place.X).bias(place.bias)));
    proj_ = register_module("proj", torch::nn::Linear(place.X, place.X));
    if (rpc.variant == Variant::scaled_s) s_ = register_parameter("s", torch::zeros({place.H, place.N, place.N}));
    if (rpc.variant == Variant::scaled_alpha) s_ = register_parameter("s", torch::zeros({1}));
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    const Tensor qkv = nn::linear(x, qkv_->weight, qkv_->bias);
    const auto part = [&](Index number) {
      return qkv.narrow(2, number * place_.X, place_.X).unflatten(2, {place_.H, -1}).transpose(1, 2);
    };
    const Tensor L = rpc_.scaled() ? last(part(0), part(1), scaled_values(part(1), part(2), key_mask), key_mask)
                     : rpc_.robust(place_.index) ? pursued(part(0), part(1), key_mask)
                                                 : last(part(0), part(0), part(1), key_mask);
    const Tensor tokens = L.transpose(1, 2).flatten(2), y = nn::linear(tokens, proj_->weight, proj_->bias);
    if (auto* const shown = nn::Shown::current())
      shown->values["core"] = key_mask.defined() ? tokens * key_mask.unsqueeze(2) : tokens;
    return key_mask.defined() ? y * key_mask.unsqueeze(2) : y;
  }

 private:
  static nn::AttentionInputs inputs_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask) {
    nn::AttentionInputs inputs;
    inputs.q = q;
    inputs.k = k;
    inputs.v = v;
    inputs.key_mask = key_mask;
    return inputs;
  }

  // Symmetric attention [B,H,N,D] on the way to the result: no dropout.
  Tensor symmetric(const Tensor& k, const Tensor& v, const Tensor& key_mask) const {
    return nn::attention(softmax_, inputs_of(k, k, v, key_mask)).y;
  }

  // The attention whose result leaves the layer: with dropout, and seen by taps.
  Tensor last(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& key_mask) const {
    nn::AttentionInputs inputs = inputs_of(q, k, v, key_mask);
    if (is_training() && place_.dropout > 0) inputs.dropout = {place_.dropout, nn::next_seed(), 0};
    nn::Wanted wanted;
    auto* const shown = nn::Shown::current();
    wanted.weights = shown != nullptr || nn::tap_wants_weights();
    const nn::AttentionOutputs out = nn::attention(softmax_, inputs, wanted);
    nn::tap(out.y, out.weights, key_mask);
    if (shown != nullptr)
      shown->values["attn"] = key_mask.defined() ? out.weights * key_mask.view({-1, 1, q.size(2), 1}) : out.weights;
    return out.y;
  }

  // keys [B,H,N,D] -> the threshold [B,H,1,1], or [B,H,N,1] where mu runs along the tokens.
  Tensor threshold(const Tensor& keys, const Tensor& key_mask) const {
    const Index N = keys.size(2);
    Tensor norms = keys.abs().sum(3, true), count = torch::ones({1, 1, N, 1}, norms.options());
    if (key_mask.defined()) {
      count = key_mask.to(norms.scalar_type()).view({-1, 1, N, 1});
      norms = norms * count;
    }
    const bool running = rpc_.is_causal && rpc_.mu_over == MuOver::visible;
    const auto total = [&](const Tensor& numbers) { return running ? numbers.cumsum(2) : numbers.sum(2, true); };
    const double width = static_cast<double>(rpc_.mu_dim == MuDim::model ? place_.X : place_.X / place_.H);
    const Tensor mu = total(count).clamp_min(1) * (width / 4) / total(norms).clamp_min(least_norm);
    if (auto* const shown = nn::Shown::current()) shown->values["mu"] = mu;
    return rpc_.threshold == Threshold::lambda_times_mu ? rpc_.lambda * mu : rpc_.lambda / mu;
  }

  // keys, values [B,H,N,D] -> the heads after num_iter passes.
  Tensor pursued(const Tensor& keys, const Tensor& values, const Tensor& key_mask) const {
    const Tensor K = nn::widened(keys), t = threshold(K, key_mask), below = -t;
    Tensor c = K.clamp(below, t), K2 = c, before;
    for (Index i = 1; i < rpc_.num_iter; ++i) {
      const Tensor L = nn::widened(symmetric(K2.to(values.scalar_type()), values, key_mask));
      Tensor s = (K + c).sub(L, 2);
      K2 = (3 * L).sub(c, 2);
      if (before.defined()) {
        s = s + before;
        K2 = K2.sub(before, 2);
      }
      c = s.clamp(below, t);
      K2 = K2 + c;
      before = L;
    }
    const Tensor k = K2.to(values.scalar_type());
    return last(k, k, values, key_mask);
  }

  // (I - S) v or (I - alpha A) v, A the symmetric attention of the keys
  Tensor scaled_values(const Tensor& k, const Tensor& v, const Tensor& key_mask) const {
    if (rpc_.variant == Variant::scaled_alpha) return (v - s_ * symmetric(k, v, key_mask)).to(v.scalar_type());
    const Index N = v.size(2);
    if (N > place_.N)
      throw InvalidArgument("[rpc_attention] " + std::to_string(N) + " tokens are given, s has rows for " +
                            std::to_string(place_.N));
    Tensor S = s_.narrow(1, 0, N).narrow(2, 0, N);
    if (rpc_.is_causal) S = S.tril();
    const Tensor rows = key_mask.defined() ? v * key_mask.view({-1, 1, N, 1}) : v;
    // S of a head is a linear layer along the tokens.
    std::vector<Tensor> products;
    for (Index h = 0; h < place_.H; ++h)
      products.push_back(nn::linear(rows.select(1, h).transpose(1, 2), S.select(0, h)).transpose(1, 2));
    return v - torch::stack(products, 1);
  }

  RpcAttention rpc_;
  LayerPlace place_;
  primal::Attention softmax_;
  torch::nn::Linear qkv_{nullptr}, proj_{nullptr};
  Tensor s_;
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<RpcAttentionModule>(layer.part<RpcAttention>(), place);
}

}  // namespace saddle::mechanisms::rpc_attention
