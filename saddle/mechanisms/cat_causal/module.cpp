// Causal CAT as a torch module.
#include <torch/nn/modules/linear.h>

#include "saddle/mechanisms/cat_causal/cat_causal.hpp"
#include "saddle/nn/circular.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/widened.hpp"

namespace saddle::mechanisms::cat_causal {

namespace {

using torch::Tensor;

class CatCausalModule : public nn::AttentionLayer {
 public:
  explicit CatCausalModule(const LayerPlace& place) : heads_(place.H), dropout_(place.dropout) {
    const auto linear = [&](const char* name, Index out, bool bias) {
      return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(place.X, out).bias(bias)));
    };
    a_ = linear("a", place.H, place.bias);
    v_ = linear("v", place.X, place.bias);
    out_ = linear("out", place.X, true);
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    const auto apply = [&](torch::nn::Linear& layer) { return nn::widened(nn::linear(x, layer->weight, layer->bias)); };
    const Tensor z = apply(a_).transpose(1, 2), v = apply(v_).unflatten(2, {heads_, -1}).transpose(1, 2);
    const Tensor lengths = nn::prefix_lengths(key_mask, x.size(0), x.size(1));
    const Tensor core = product(z, v, lengths);
    nn::tap(core, nn::tap_wants_weights() ? nn::causal_weights(z, lengths) : Tensor(), key_mask);
    const Tensor tokens = core.transpose(1, 2).flatten(2);
    if (auto* const shown = nn::Shown::current()) shown->values = {{"core", tokens}};
    const Tensor y = nn::linear(tokens, out_->weight, out_->bias);
    return key_mask.defined() ? y * key_mask.unsqueeze(2) : y;
  }

 private:
  // Dropout takes a distance out of the weights of all queries, as that of cat does. The product of what is left
  // divides by the sum of what is left: each row gets its share of the sum of all back.
  Tensor product(const Tensor& z, const Tensor& v, const Tensor& lengths) const {
    if (!is_training() || dropout_ == 0) return nn::causal_product(z, v, lengths);
    // Finite where it is dropped, for the gradients of rows with nothing left.
    const Tensor left = z + nn::dropout(torch::ones(z.sizes(), z.options()), dropout_).log().clamp_min(-1e30);
    const Tensor share = (left.logcumsumexp(2) - z.logcumsumexp(2)).exp();
    return nn::causal_product(left, v, lengths) * share.unsqueeze(3);
  }

  Index heads_;
  double dropout_;
  torch::nn::Linear a_{nullptr}, v_{nullptr}, out_{nullptr};
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer&, const LayerPlace& place) {
  return std::make_shared<CatCausalModule>(place);
}

}  // namespace saddle::mechanisms::cat_causal
