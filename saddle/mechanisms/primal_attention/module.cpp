// Primal-Attention as a torch module.
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include "saddle/mechanisms/primal_attention/primal_attention.hpp"
#include "saddle/mechanisms/primal_attention/products.hpp"
#include "saddle/nn/dense/linear.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/widened.hpp"

namespace saddle::mechanisms::primal_attention {

namespace {

// Lengths, running sums, scores and the objective are computed in float at least.
class PrimalAttentionModule : public nn::AttentionLayer {
 public:
  PrimalAttentionModule(const PrimalAttention& primal, const LayerPlace& place) : primal_(primal), heads_(place.H) {
    const auto linear = [&](const char* name, Index in, Index out, bool bias) {
      return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias)));
    };
    const Index X = place.X, H = place.H, D = X / H, s = primal.rank;
    q_ = linear("q", X, X, place.bias);
    k_ = linear("k", X, X, place.bias);
    const Index rows = primal.form == Form::dependent ? primal.samples(place) : D;
    we_ = register_parameter("we", torch::nn::init::orthogonal_(torch::empty({H, rows, s})));
    wr_ = register_parameter("wr", torch::nn::init::orthogonal_(torch::empty({H, rows, s})));
    lambda_ = register_parameter("lambda", torch::rand({H, s}));
    concat_ = linear("concat", 2 * s, D, true);
    out_ = linear("out", X, X, true);
  }

  Tensor forward(const Tensor& x, const Tensor& key_mask) override {
    const Index B = x.size(0), N = x.size(1), s = primal_.rank;
    const Tensor w = projections(x);
    const Tensor escore = scores(x, q_, w.narrow(3, 0, s)), rscore = scores(x, k_, w.narrow(3, s, s));
    leave_loss(escore, rscore, w);
    show(escore, rscore, w);
    const Tensor both = torch::cat({escore, rscore}, 3);
    Tensor heads = nn::linear(both, concat_->weight, concat_->bias);  // [B,N,H,D]
    if (key_mask.defined() && primal_.form == Form::dependent) heads = heads * key_mask.view({B, N, 1, 1});
    nn::tap(heads.transpose(1, 2), {}, key_mask);
    leave_parts(x, escore, rscore);
    return nn::linear(heads.flatten(2), out_->weight, out_->bias);
  }

 private:
  // We and Wr side by side, [1,H,D,2s], or made of the sampled tokens of x, [B,H,D,2s].
  Tensor projections(const Tensor& x) const {
    const Tensor w = torch::cat({we_, wr_}, 2);
    if (primal_.form == Form::causal) return w.unsqueeze(0);
    // [B,H,D,n] [1,H,n,2s], as a product of D rows.
    return head_product(sampled(x).permute({0, 3, 2, 1}), w.unsqueeze(0)).transpose(1, 2);
  }

  // The tokens of x that projections are made of, [B,n,H,D].
  Tensor sampled(const Tensor& x) const {
    const Tensor tokens = torch::tensor(sampled_tokens(x.size(1), we_.size(1)), torch::kInt64).to(x.device());
    return nn::widened(x.index_select(1, tokens)).unflatten(2, {heads_, -1});
  }

  // Queries or keys [B,N,H,D], and the length that they are divided by at least.
  struct Features {
    Tensor x, least;
  };
  Features features_of(const Tensor& x, const torch::nn::Linear& layer) const {
    Tensor features = nn::widened(nn::linear(x, layer->weight, layer->bias));
    Tensor least = torch::full({}, shortest, features.options());
    if (primal_.form == Form::causal) {
      // Means are sums divided by their count, which the length takes away again; the bound is that of the means.
      features = running_sum(features);
      least = least * torch::arange(1, x.size(1) + 1, features.options()).view({-1, 1, 1});
    }
    return {features.unflatten(2, {heads_, -1}), least};
  }

  // phi(x W') w, with phi of length 1: [B,N,H,s].
  Tensor scores(const Tensor& x, const torch::nn::Linear& layer, const Tensor& w) const {
    const Features features = features_of(x, layer);
    return unit_product(features.x, w, features.least);
  }

  // What spectra are made of (spectrum.hpp), named as in the reference; only while somebody looks.
  void leave_parts(const Tensor& x, const Tensor& escore, const Tensor& rscore) const {
    nn::Taps* const taps = nn::Taps::current();
    if (taps == nullptr || !taps->wants_parts()) return;
    const torch::NoGradGuard guard;
    auto& parts = taps->layers.back().parts;
    const auto leave = [&](const char* name, const Tensor& part) { parts[name] = part.detach().transpose(1, 2); };
    const auto leave_unit = [&](const char* name, const torch::nn::Linear& layer) {
      const Features features = features_of(x, layer);
      leave(name, features.x / length_of(features.x, features.least));
    };
    leave("escore", escore);
    leave("rscore", rscore);
    leave_unit("phi_q", q_);
    leave_unit("phi_k", k_);
    if (primal_.form == Form::dependent) leave("sample", sampled(x));
    parts["lambda"] = lambda_.detach().unsqueeze(0).unsqueeze(0);
  }

  // Both halves of the variance and the trace, and the objective that they make.
  struct Objective {
    Tensor var_e, var_r, trace, ksvd;
  };
  Objective objective(const Tensor& escore, const Tensor& rscore, const Tensor& w) const {
    const auto variance = [&](const Tensor& score) {
      const Tensor each = (score.square().mean(1) * lambda_.square()).sum(2).mean(1) * 0.5;  // [B]
      return primal_.reduction == Reduction::batch ? each.mean() : each;
    };
    const Index s = primal_.rank;
    Objective out{variance(escore), variance(rscore), {}, {}};
    out.trace = primal_.trace == Trace::no_x ? (we_ * wr_).sum() / heads_
                                             : (w.narrow(3, 0, s) * w.narrow(3, s, s)).sum({1, 2, 3}).mean() / heads_;
    out.ksvd = (out.var_e + out.var_r - out.trace).square();
    return out;
  }

  // Only while somebody collects losses.
  void leave_loss(const Tensor& escore, const Tensor& rscore, const Tensor& w) const {
    nn::ExtraLosses* const losses = nn::ExtraLosses::current();
    if (losses != nullptr && primal_.eta > 0) losses->add(primal_.eta * objective(escore, rscore, w).ksvd);
  }

  void show(const Tensor& escore, const Tensor& rscore, const Tensor& w) const {
    nn::Shown* const shown = nn::Shown::current();
    if (shown == nullptr) return;
    const Objective parts = objective(escore, rscore, w);
    const Tensor ksvd = primal_.reduction == Reduction::per_sample_mean ? parts.ksvd.mean() : parts.ksvd;
    shown->values = {{"escore", escore.transpose(1, 2)}, {"rscore", rscore.transpose(1, 2)},
                     {"var_e", parts.var_e.view({-1})},  {"var_r", parts.var_r.view({-1})},
                     {"trace", parts.trace.view({-1})},  {"ksvd", ksvd.view({-1})}};
  }

  PrimalAttention primal_;
  Index heads_;
  torch::nn::Linear q_{nullptr}, k_{nullptr}, concat_{nullptr}, out_{nullptr};
  Tensor we_, wr_, lambda_;
};

}  // namespace

nn::AttentionLayerPtr make_module(const Layer& layer, const LayerPlace& place) {
  return std::make_shared<PrimalAttentionModule>(layer.part<PrimalAttention>(), place);
}

}  // namespace saddle::mechanisms::primal_attention
