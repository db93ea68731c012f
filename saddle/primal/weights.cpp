#include "saddle/primal/weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saddle::primal {

namespace {

using Row = std::span<const double>;

double dot(Row x, Row y) {
  double sum = 0;
  for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d];
  return sum;
}

// a <x,y> + c (|x|^2 + |y|^2) = (a + 2c) <x,y> + c |x-y|^2; the right side does not cancel for far-off data.
double score(const ScoreForm& form, Row x, Row y) {
  double sum = form.a + 2 * form.c == 0 ? 0 : (form.a + 2 * form.c) * dot(x, y);
  if (form.c != 0)
    for (std::size_t d = 0; d < x.size(); ++d) sum += form.c * (x[d] - y[d]) * (x[d] - y[d]);
  return sum;
}

// The largest visible score, or -inf.
double largest(std::span<const double> s, std::span<const std::uint8_t> visible) {
  double top = -std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < s.size(); ++j)
    if (visible[j]) top = std::max(top, s[j]);
  return top;
}

}  // namespace

WeightRule::WeightRule(const Attention& attention, Index D, Index N, Index K)
    : form_(score_form(attention.kernel, D)), h_(normaliser_rule(attention.normaliser, attention.kernel, N, K)) {
  if (!form_) features_.emplace(attention.kernel, D);
}

double WeightRule::kappa(Row x, Row y) const {
  if (form_) return form_->g(score(*form_, x, y));
  std::vector<double> phi_x(features_->size()), phi_y(phi_x.size());
  features_->map(x.data(), phi_x.data());
  features_->map(y.data(), phi_y.data());
  return dot(phi_x, phi_y);
}

double WeightRule::normaliser(Row x, const Matrix& k, std::span<const std::uint8_t> visible) const {
  if (!h_.row_sum) return h_.fixed;
  double h = h_.den_eps;
  for (Index j = 0; j < k.shape()[0]; ++j)
    if (visible[j]) h += kappa(x, saddle::row(k, j));
  return h;
}

void WeightRule::scores(Row q, const Matrix& k, std::span<const std::uint8_t> visible, std::span<double> s) const {
  std::vector<double> phi_q, phi_k;
  if (!form_) {
    phi_q.resize(features_->size());
    phi_k.resize(phi_q.size());
    features_->map(q.data(), phi_q.data());
  }
  for (Index j = 0; j < k.shape()[0]; ++j) {
    if (!visible[j]) continue;
    if (form_) {
      s[j] = score(*form_, q, saddle::row(k, j));
    } else {
      features_->map(saddle::row(k, j).data(), phi_k.data());
      s[j] = dot(phi_q, phi_k);
    }
  }
}

double WeightRule::row(Row q, const Matrix& k, std::span<const std::uint8_t> visible, std::span<double> weights) const {
  std::vector<double> s(weights.size());
  scores(q, k, visible, s);
  // exp is taken relative to the largest score, so h comes out as exp(shift) times what is summed here.
  const bool exponential = form_ && form_->exponential;
  double shift = exponential && h_.row_sum ? largest(s, visible) : 0;
  if (exponential && h_.den_eps > 0) shift = std::max(shift, std::log(h_.den_eps));  // or exp(-shift) might overflow
  bool any = false;
  double h = h_.row_sum ? (h_.den_eps > 0 ? h_.den_eps * std::exp(-shift) : 0) : h_.fixed;
  for (std::size_t j = 0; j < s.size(); ++j) {
    weights[j] = 0;
    if (!visible[j]) continue;
    any = true;
    weights[j] = exponential ? std::exp(s[j] - shift) : form_ ? form_->g(s[j]) : s[j];
    if (h_.row_sum) h += weights[j];
  }
  if (!any || h == 0) {  // nothing visible, or nothing that weighs: features can underflow to zero
    std::fill(weights.begin(), weights.end(), 0.0);
    return -std::numeric_limits<double>::infinity();
  }
  for (double& w : weights) w /= h;
  return h > 0 ? shift + std::log(h) : std::numeric_limits<double>::quiet_NaN();
}

// A = kappa/h: dkappa_j = (dA_j - [row sum] sum_l dA_l A_l)/h. For exp, dkappa_j kappa_j = A_j (dA_j - ..), free of h.
void WeightRule::row_pullback(Row q, const Matrix& k, std::span<const std::uint8_t> visible, Row dweights,
                              std::span<double> dq, Matrix& dk) const {
  std::vector<double> s(dweights.size()), weights(dweights.size());
  const double log_h = row(q, k, visible, weights);
  if (std::isinf(log_h) && log_h < 0) return;
  scores(q, k, visible, s);
  const double centre = h_.row_sum ? dot(weights, dweights) : 0;
  const bool exponential = form_ && form_->exponential;
  const double h = exponential ? 1 : normaliser(q, k, visible);
  const double mixed = form_ ? form_->a + 2 * form_->c : 0;
  std::vector<double> phi_q, phi_k, dphi_q, dphi_k;
  if (!form_) {
    phi_q.resize(features_->size());
    phi_k = dphi_q = dphi_k = phi_q;
    features_->map(q.data(), phi_q.data());
  }
  const auto D = q.size();
  for (Index j = 0; j < k.shape()[0]; ++j) {
    if (!visible[j]) continue;
    const double dkappa = dweights[j] - centre;
    double* dk_row = dk.data() + j * k.shape()[1];
    const Row key = saddle::row(k, j);
    if (form_) {
      const double ds = exponential ? weights[j] * dkappa : dkappa / h * form_->derivative(s[j]);
      for (std::size_t d = 0; d < D; ++d) {
        dq[d] += ds * (mixed * key[d] + 2 * form_->c * (q[d] - key[d]));
        dk_row[d] += ds * (mixed * q[d] + 2 * form_->c * (key[d] - q[d]));
      }
      continue;
    }
    features_->map(key.data(), phi_k.data());
    for (std::size_t f = 0; f < phi_q.size(); ++f) {
      dphi_q[f] += dkappa / h * phi_k[f];
      dphi_k[f] = dkappa / h * phi_q[f];
    }
    features_->pullback(key.data(), dphi_k.data(), dk_row);
  }
  if (!form_) features_->pullback(q.data(), dphi_q.data(), dq.data());
}

}  // namespace saddle::primal
