// Mixed attention as a torch module. The maps of a window have a fixed size: everything grows with the image alone.
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/mixed_attention/mixed_attention.hpp"
#include "saddle/nn/dense/batched_product.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/widened.hpp"

namespace saddle::mechanisms::mixed_attention {

namespace {

using nn::batched_product;
using torch::Tensor;
using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::Conv3d, torch::nn::Conv3dOptions;

// x / max(|x|, 1e-12) along an axis; torch's normalize is slow along all axes but the last.
Tensor unit(const Tensor& x, int64_t axis) { return x / x.square().sum({axis}, true).clamp_min(1e-24).sqrt(); }

// Up to so many windows a convolution over their grid is faster as a product with its whole matrix.
constexpr Index few_windows = 32;

Tensor offsets(Index R, Index C) {
  std::vector<int64_t> list;
  for (Index i = 0; i < R * C; ++i)
    for (Index j = 0; j < R * C; ++j) {
      const Index down = j / C - i / C + 1, right = j % C - i % C + 1;
      list.push_back(down < 0 || down > 2 || right < 0 || right > 2 ? 9 : 3 * down + right);
    }
  return torch::tensor(list);
}

class MixedAttentionModule : public nn::AttentionLayer {
 public:
  MixedAttentionModule(const MixedAttention& mixed, const LayerPlace& place)
      : H_(place.H), k_(mixed.window), shifted_(place.index % 2 == 1), grid_(place.grid) {
    const Index hd = mixed.expansion * place.X, c4 = hd / (4 * H_), p = k_ * k_;
    const auto conv = [&](const char* name, Index in, Index out) {
      return register_module(name, Conv2d(Conv2dOptions(in, out, 1).bias(mixed.bias)));
    };
    const auto talking = [&](const char* name) {
      return register_module(name, Conv3d(Conv3dOptions(H_, H_, {3, 3, 1}).padding({1, 1, 0}).bias(mixed.bias)));
    };
    const auto shared = [&](const char* name, Index s) {
      Tensor mixing = torch::empty({H_, s, s, H_});
      torch::nn::init::kaiming_normal_(mixing, std::sqrt(5.0));
      return register_parameter(name, mixing);
    };
    temperature_ = register_parameter("temperature", torch::ones({4, H_, 1, 1, 1}));
    r_talking_ = shared("r_talking", c4);
    g_talking_ = shared("g_talking", p);
    b_talking_ = talking("b_talking");
    l_talking_ = talking("l_talking");
    to_quz_ = conv("to_quz", place.X, 3 * hd);
    to_kv_ = conv("to_kv", place.X, 2 * hd);
    dw_u_ = register_module("dw_u", Conv2d(Conv2dOptions(hd, hd, 3).padding(1).groups(hd).bias(mixed.bias)));
    project_ = conv("project", hd, hd);
    project_out_ = conv("project_out", hd, place.X);
    sca_ = register_module("sca",
                           torch::nn::Sequential(torch::nn::AdaptiveAvgPool2d(1), Conv2d(Conv2dOptions(hd, hd, 1))));
    if (shifted_) regions_ = torch::tensor(regions(grid_, k_)).view({-1, p});
    if (grid_.size() <= few_windows * p) offsets_ = offsets(grid_.rows / k_, grid_.columns / k_);
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    if (key_mask.defined())
      throw InvalidArgument("[mixed_attention] all tokens of an image exist", "leave the mask out");
    return across(x, x);
  }

  Tensor across(const Tensor& x, const Tensor& context) override {
    const Index N = x.size(1);
    if (context.sizes() != x.sizes())
      throw InvalidArgument("[mixed_attention] keys and values come from an image of another size");
    if (N != grid_.size())
      throw InvalidArgument("[mixed_attention] " + std::to_string(N) + " tokens are given for an image of " +
                            std::to_string(grid_.rows) + " x " + std::to_string(grid_.columns));
    const auto quz = apply(x, to_quz_).chunk(3, 2), kv = apply(context, to_kv_).chunk(2, 2);
    Tensor weights;
    const Tensor mixed = attended(cut(quz[0]), cut(kv[0]), cut(kv[1]), weights);  // [B,N,hd]
    if (nn::Taps::current() != nullptr)
      nn::tap(mixed.unflatten(2, {4, H_, -1}).permute({0, 3, 1, 2, 4}).flatten(3), weights);
    const auto gate = std::dynamic_pointer_cast<torch::nn::Conv2dImpl>(sca_->ptr(1));
    const Tensor scale = nn::linear(mixed.mean(1, true), gate->weight.flatten(1), gate->bias), gated = mixed * scale;
    if (auto* const shown = nn::Shown::current())
      shown->values = {{"mixed", mixed.transpose(1, 2).unflatten(2, {grid_.rows, grid_.columns})},
                       {"sca", scale.transpose(1, 2).unsqueeze(3)}};
    return nn::linear((apply(gated, project_) + depthwise(quz[1])) * quz[2], project_out_->weight.flatten(1),
                      project_out_->bias);
  }

 private:
  // A convolution of size 1x1 on tokens, in float at least.
  static Tensor apply(const Tensor& x, Conv2d& conv) {
    return nn::widened(nn::linear(x, conv->weight.flatten(1), conv->bias));
  }

  // [B,N,hd] -> the quarters [B,H,n,p,c4] of all windows
  std::vector<Tensor> cut(const Tensor& tokens) const {
    const Index B = tokens.size(0), k = k_;
    Tensor image = tokens.reshape({B, grid_.rows, grid_.columns, -1});
    if (shifted_) image = image.roll({-(k / 2), -(k / 2)}, {1, 2});
    return image.view({B, grid_.rows / k, k, grid_.columns / k, k, H_, -1})
        .permute({0, 5, 1, 3, 2, 4, 6})
        .reshape({B, H_, grid_.size() / (k * k), k * k, -1})
        .chunk(4, 4);
  }

  // Quarters of the outputs [B,H,n,p,c4] -> [B,N,hd]
  Tensor put_back(const std::vector<Tensor>& quarters) const {
    const Index B = quarters[0].size(0), k = k_, hd = 4 * H_ * quarters[0].size(4);
    Tensor image = torch::stack(quarters, 1)  // [B,4,H,n,p,c4]
                       .view({B, 4, H_, grid_.rows / k, grid_.columns / k, k, k, -1})
                       .permute({0, 3, 5, 4, 6, 1, 2, 7})
                       .reshape({B, grid_.rows, grid_.columns, hd});
    if (shifted_) image = image.roll({k / 2, k / 2}, {1, 2});
    return image.reshape({B, grid_.size(), hd});
  }

  // Maps [B,H,n,a,b] convolved over the grid of windows, each entry for itself.
  Tensor over_windows(const Tensor& maps, const Conv3d& talking) const {
    const Index B = maps.size(0), n = maps.size(2), a = maps.size(3), b = maps.size(4);
    if (offsets_.defined()) {
      const Tensor taps = torch::cat({talking->weight.flatten(2), torch::zeros({H_, H_, 1}, maps.options())}, 2);
      const Tensor matrix = taps.index_select(2, offsets_).view({H_, H_, n, n}).transpose(1, 2);  // [H',n',H,n]
      const Tensor mixed = over_rows(maps, matrix.reshape({H_ * n, H_ * n}));
      return talking->bias.defined() ? mixed + talking->bias.view({H_, 1, 1, 1}) : mixed;
    }
    // As a batch of small images this runs several times faster than the convolution in three dimensions that the
    // weights are named for.
    const Tensor images = maps.permute({0, 3, 4, 1, 2}).reshape({B * a * b, H_, grid_.rows / k_, grid_.columns / k_});
    return torch::conv2d(images, talking->weight.squeeze(4), talking->bias, 1, 1)
        .reshape({B, a, b, H_, -1})
        .permute({0, 3, 4, 1, 2});
  }

  // Maps [B,H,s,a,b] mixed over heads and s by [H,s,s',H'].
  static Tensor over_shared(const Tensor& maps, const Tensor& mixing) {
    const Index rows = maps.size(1) * maps.size(2);
    return over_rows(maps, mixing.permute({3, 2, 0, 1}).reshape({rows, rows}));
  }

  // Maps [B,H,s,a,b] mixed over heads and s by a matrix [H' s',H s], as one product for all samples.
  static Tensor over_rows(const Tensor& maps, const Tensor& matrix) {
    const Tensor rows = maps.flatten(1, 2).transpose(0, 1);  // [H s,B,a,b]
    const Tensor mixed = batched_product(matrix, rows.reshape({rows.size(0), -1}));
    return mixed.view(rows.sizes()).transpose(0, 1).unflatten(1, {maps.size(1), -1});
  }

  // [B,N,hd] -> [B,N,hd]
  Tensor depthwise(const Tensor& u) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const Tensor image = u.transpose(1, 2).reshape({u.size(0), -1, grid_.rows, grid_.columns});
    return dw_u_(image).flatten(2).transpose(1, 2);
  }

  // How much each token takes of each, on average over the channels of a head: [B,H,N,N]. b [B,H,n,p,p] has a quarter
  // of them; r [B,H,c4,p,p], the same in all windows, another; in the other half, l and g, a token takes of itself
  // alone.
  Tensor between_tokens(const Tensor& b, const Tensor& r) const {
    const torch::NoGradGuard guard;
    const Index B = b.size(0), N = grid_.size(), k = k_;
    Tensor places = torch::arange(N).view({grid_.rows, grid_.columns});
    if (shifted_) places = places.roll({-(k / 2), -(k / 2)}, {0, 1});
    places = places.view({grid_.rows / k, k, grid_.columns / k, k}).permute({0, 2, 1, 3}).reshape({-1, k * k});
    const Tensor pairs = (places.unsqueeze(2) * N + places.unsqueeze(1)).flatten();
    const Tensor all = torch::eye(N, b.options()).div(2).flatten().repeat({B, H_, 1});
    return all.index_add(2, pairs, (b + r.mean(2, true)).div(4).flatten(2)).unflatten(2, {N, N});
  }

  // Small maps of unit vectors: projections take the time, and these stay in float. `weights` are left if a tap wants
  // them.
  Tensor attended(const std::vector<Tensor>& q, const std::vector<Tensor>& k, const std::vector<Tensor>& v,
                  Tensor& weights) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto score = [&](Index i, const Tensor& a, const Tensor& b) {
      return batched_product(a * temperature_[i], b);
    };
    Tensor b = over_windows(score(0, unit(q[0], 4), unit(k[0], 4).transpose(3, 4)), b_talking_);
    if (shifted_) b = b - 100.0 * regions_.unsqueeze(2).ne(regions_.unsqueeze(1));
    const Tensor l = over_windows(score(1, unit(q[1], 3).transpose(3, 4), unit(k[1], 3)), l_talking_);
    const Tensor g = over_shared(
        score(2, unit(q[2], 2).permute({0, 1, 3, 4, 2}), unit(k[2], 2).permute({0, 1, 3, 2, 4})), g_talking_);
    const Tensor r = over_shared(
        score(3, unit(q[3], 2).permute({0, 1, 4, 3, 2}), unit(k[3], 2).permute({0, 1, 4, 2, 3})), r_talking_);
    if (nn::tap_wants_weights()) weights = between_tokens(b.softmax(-1), r.softmax(-1));
    return put_back(
        {batched_product(b.softmax(-1), v[0]), batched_product(v[1], l.softmax(-1).transpose(3, 4)),
         batched_product(v[2].permute({0, 1, 3, 2, 4}), g.softmax(-1).transpose(3, 4)).permute({0, 1, 3, 2, 4}),
         batched_product(r.softmax(-1), v[3].permute({0, 1, 4, 3, 2})).permute({0, 1, 4, 3, 2})});
  }

  Index H_, k_;
  bool shifted_;
  primal::Grid grid_;
  Tensor temperature_, r_talking_, g_talking_;
  Tensor regions_;  // [n,p], of shifted images
  Tensor offsets_;  // [n n], of few windows: which of the nine weights takes window j into window i, 9 for none
  Conv3d b_talking_{nullptr}, l_talking_{nullptr};
  Conv2d to_quz_{nullptr}, to_kv_{nullptr}, dw_u_{nullptr}, project_{nullptr}, project_out_{nullptr};
  torch::nn::Sequential sca_{nullptr};
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<MixedAttentionModule>(layer.part<MixedAttention>(), place);
}

}  // namespace saddle::mechanisms::mixed_attention
