// CAT as a torch module.
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <limits>

#include "saddle/mechanisms/cat/cat.hpp"
#include "saddle/nn/circular.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/widened.hpp"

namespace saddle::mechanisms::cat {

namespace {

using torch::Tensor;

class CatModule : public nn::AttentionLayer {
 public:
  CatModule(const Cat& cat, const LayerPlace& place) : cat_(cat), place_(place) {
    const auto linear = [&](const char* name, Index out, bool bias) {
      return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(place.X, out).bias(bias)));
    };
    if (cat.variant == Variant::qv || cat.variant == Variant::q) a_ = linear("a", place.H, place.bias);
    if (cat.variant == Variant::qkv) {
      q_ = linear("q", place.X, place.bias);
      k_ = linear("k", place.X, place.bias);
    }
    if (cat.variant == Variant::q)
      table_ = register_parameter("v_static", torch::empty({place.N, place.X}).normal_(0, 0.02));
    else
      v_ = linear("v", place.X, place.bias);
    if (cat.variant == Variant::v) table_ = register_parameter("z_static", torch::zeros({place.N, place.X}));
    out_ = linear("out", place.X, true);
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    const Index B = x.size(0), N = x.size(1), H = place_.H;
    if (table_.defined() && N > place_.N)
      throw InvalidArgument("[cat] " + std::to_string(N) + " tokens are given, the layer has rows for " +
                            std::to_string(place_.N));
    // Products of circulant matrices run in float at least.
    const auto apply = [&](torch::nn::Linear& layer) { return nn::widened(nn::linear(x, layer->weight, layer->bias)); };
    const auto heads = [&](const Tensor& tokens) { return tokens.unflatten(2, {H, -1}).transpose(1, 2); };

    Tensor z;  // [B,H,N]; for variant v [1,H,N,D]
    if (cat_.variant == Variant::v) {
      z = heads(table_.narrow(0, 0, N).unsqueeze(0));
    } else if (cat_.variant == Variant::qkv) {
      Tensor k = apply(k_);
      const Tensor mean =
          key_mask.defined() ? (k * key_mask.unsqueeze(2)).sum(1) / key_mask.sum(1, true).clamp_min(1) : k.mean(1);
      z = torch::matmul(heads(apply(q_)), mean.view({B, H, -1, 1})).squeeze(3) /
          std::sqrt(static_cast<double>(place_.X / H));
    } else {
      z = apply(a_).transpose(1, 2);
    }
    if (key_mask.defined()) {
      const Tensor missing = key_mask.logical_not().view({B, 1, N});
      z = z.masked_fill(z.dim() == 4 ? missing.unsqueeze(3) : missing, -std::numeric_limits<double>::infinity());
    }
    Tensor w = z.softmax(2);
    // A sequence without tokens has no weights.
    if (key_mask.defined()) w = torch::where(w.isnan(), torch::zeros({}, w.options()), w);
    if (w.dim() == 4) w = w.expand({B, H, N, -1}).contiguous();
    if (is_training() && place_.dropout > 0) w = nn::dropout(w, place_.dropout);

    const Tensor v =
        heads(cat_.variant == Variant::q ? table_.narrow(0, 0, N).unsqueeze(0).expand({B, N, -1}) : apply(v_));
    const auto direction = cat_.direction == Direction::convolution ? kernels::circular::Direction::convolution
                                                                    : kernels::circular::Direction::correlation;
    const Tensor lengths = nn::prefix_lengths(key_mask, B, N);
    const Tensor core = nn::circular_product(w.contiguous(), v, lengths, direction);
    nn::tap(core, nn::tap_wants_weights() ? nn::circular_weights(w, lengths, direction) : Tensor(), key_mask);
    const Tensor tokens = core.transpose(1, 2).flatten(2);
    if (auto* const shown = nn::Shown::current())
      shown->values = {{"core", tokens}, {"kernel", w.dim() == 4 ? w.transpose(2, 3).flatten(1, 2) : w}};
    const Tensor y = nn::linear(tokens, out_->weight, out_->bias);
    return key_mask.defined() ? y * key_mask.unsqueeze(2) : y;
  }

 private:
  Cat cat_;
  LayerPlace place_;
  torch::nn::Linear a_{nullptr}, q_{nullptr}, k_{nullptr}, v_{nullptr}, out_{nullptr};
  Tensor table_;
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<CatModule>(layer.part<Cat>(), place);
}

}  // namespace saddle::mechanisms::cat
