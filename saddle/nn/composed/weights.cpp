#include <cmath>
#include <limits>

#include "saddle/nn/composed/heads.hpp"
#include "saddle/primal/features.hpp"

namespace saddle::nn::composed {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// <x_i,y_j>: x [B,G,N,F], y [B,G,R,K,F] -> [B,G,N,K]
Tensor dots(const Tensor& x, const Tensor& y) {
  if (y.size(2) == 1) return x.matmul(y.squeeze(2).transpose(-1, -2));
  return y.matmul(x.unsqueeze(-1)).squeeze(-1);
}

// a <q,k> + c (|q|^2 + |k|^2). With c the score depends on q - k only: taken about the mean key, far-off data does not
// cancel.
Tensor scores(double a, double c, const Heads& heads) {
  if (c == 0) return a * dots(heads.q, heads.k);
  const Tensor centre = mean_over(heads.k, heads.keep.unsqueeze(2)).detach();  // [B,G,R,D]
  const Tensor q = heads.q - centre, k = heads.k - centre.unsqueeze(-2);
  return a * dots(q, k) + c * (q.square().sum(-1, true) + k.square().sum(-1));
}

// exp(<w_r,x> - |x|^2/2)/sqrt(F) with x divided by D^(1/4): x [..,D] -> [..,F]
Tensor random_features(const primal::Linear& kernel, const Tensor& x) {
  const Index D = x.size(-1);
  const auto untraced_directions = [&] {
    const Untraced constant;
    Matrix directions = primal::random_directions(kernel, D);
    return torch::from_blob(directions.data(), {kernel.count, D}, torch::kFloat64)
        .to(x.options().requires_grad(false), false, true);
  };
  const Tensor w = untraced_directions();
  const Tensor scaled = x * std::pow(static_cast<double>(D), -0.25);
  const Tensor exponent = scaled.matmul(w.t()) - scaled.square().sum(-1, true) / 2;
  return exponent.exp() / std::sqrt(static_cast<double>(kernel.count));
}

Tensor features(const primal::Linear& kernel, const Tensor& x) {
  switch (kernel.map) {
    case primal::FeatureMapKind::elu1: return x.relu() + x.clamp_max(0).exp();
    case primal::FeatureMapKind::relu: return x.relu();
    default: return random_features(kernel, x);
  }
}

// <q_i,k_j>, 0 where hidden: what overflows there must not reach a gradient.
Tensor visible_dots(const Heads& heads) { return dots(heads.q, heads.k).masked_fill(~heads.visible, 0); }

// kappa of the kernels that are no exponential, [B,G,N,K], anything where hidden.
Tensor kappa(const primal::Dot&, const Heads& heads) { return visible_dots(heads); }

Tensor kappa(const primal::Polynomial& kernel, const Heads& heads) {
  return (visible_dots(heads) + kernel.coef0).pow(kernel.degree);
}

Tensor kappa(const primal::Linear& kernel, const Heads& heads) {
  if (kernel.map != primal::FeatureMapKind::taylor) return dots(features(kernel, heads.q), features(kernel, heads.k));
  const Tensor s = visible_dots(heads) / std::sqrt(static_cast<double>(heads.q.size(-1)));
  Tensor sum = torch::ones_like(s);  // 1 + s (1 + s/2 (1 + s/3 (..)))
  for (Index t = kernel.order; t > 0; --t) sum = 1 + s / t * sum;
  return sum;
}

// The largest visible score of each row [B,G,N,1], as a constant; at least log den_eps, or exp(-shift) might overflow.
Tensor row_shift(const Tensor& s, const Tensor& hidden, double den_eps) {
  if (s.size(-1) == 0) return torch::zeros({}, s.options().requires_grad(false));
  Tensor top = s.detach().masked_fill(hidden, -infinity).amax(-1, true);
  top = top.masked_fill(top == -infinity, 0);
  return den_eps > 0 ? top.clamp_min(std::log(den_eps)) : top;
}

}  // namespace

Weights weigh(const primal::Attention& value, const Heads& heads, const Tensor& score_bias) {
  const Index D = heads.q.size(-1);
  const auto rule = primal::normaliser_rule(value.normaliser, value.kernel, heads.q.size(2), heads.v.size(2));
  const Tensor hidden = ~heads.visible;
  Tensor shift = torch::zeros({}, heads.q.options().requires_grad(false));
  // Hidden entries are masked before exp as well as after it, so that none of them can reach a gradient.
  const auto exponential = [&](const auto& kernel) {
    const primal::ScoreForm form = kernel.score(D);
    Tensor s = scores(form.a, form.c, heads);
    if (score_bias.defined()) s = s + score_bias;
    if (rule.row_sum) shift = row_shift(s, hidden, rule.den_eps);
    return (s - shift).masked_fill(hidden, 0).exp();
  };
  const auto evaluate = [&]<class K>(const K& kernel) {
    if constexpr (std::is_same_v<K, primal::ExpDot> || std::is_same_v<K, primal::Rbf>)
      return exponential(kernel);
    else
      return kappa(kernel, heads);
  };
  const Tensor unnormalised = std::visit(evaluate, value.kernel).masked_fill(hidden, 0);
  if (!rule.row_sum) return {unnormalised / rule.fixed, {}};
  Tensor h = unnormalised.sum(-1, true);
  if (rule.den_eps > 0) h = h + rule.den_eps * (-shift).exp();
  const Tensor nothing = ~heads.visible.any(-1, true) | (h == 0);  // nothing visible, or nothing that weighs
  const Tensor safe = h.masked_fill(nothing, 1);
  return {(unnormalised / safe).masked_fill(nothing, 0),
          (shift + safe.log()).masked_fill(nothing, -infinity).squeeze(-1)};
}

}  // namespace saddle::nn::composed
