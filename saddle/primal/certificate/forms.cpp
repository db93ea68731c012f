#include "saddle/primal/certificate/forms.hpp"

#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"
#include "saddle/primal/weights.hpp"

namespace saddle::primal {

namespace {

using Row = std::span<const double>;

// An explicit feature map: the kernel's own, or the Taylor map of an infinite one, x -> prefactor(x) Phi_T(stretch x).
struct ExplicitMap {
  FeatureMap map;
  double stretch = 1, gamma = 0;

  std::vector<double> operator()(Row x) const {
    std::vector<double> scaled(x.begin(), x.end()), phi(map.size());
    double square = 0;
    for (double& value : scaled) {
      square += value * value;
      value *= stretch;
    }
    map.map(scaled.data(), phi.data());
    if (gamma > 0)
      for (double& value : phi) value *= std::exp(-gamma * square);
    return phi;
  }
};

// The Taylor map reproduces exp(<x,x'>/sqrt(D)); exp(a <x,x'>) needs inputs stretched by sqrt(a sqrt(D)).
ExplicitMap taylor_map(const Kernel& kernel, Index D, int order) {
  const ScoreForm form = *score_form(kernel, D);
  Linear taylor;
  taylor.map = FeatureMapKind::taylor;
  taylor.order = order;
  return {FeatureMap(taylor, D), std::sqrt(form.a * std::sqrt(static_cast<double>(D))), -form.c};
}

double dot(Row x, Row y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Largest relative error of the map's kernel between the query and the keys. Entries far below the largest count
// relative to that, since they do not show in a row. NaN when kappa is zero at all keys, or the map overflows.
double kernel_error(const ExplicitMap& map, const WeightRule& rule, const TrainingSet& set) {
  const Row q(set.query_tokens.begin(), set.query_tokens.end());
  const auto phi_q = map(q);
  std::vector<double> exact;
  for (Index j = 0; j < set.keys.shape()[0]; ++j) exact.push_back(rule.kappa(q, row(set.keys, j)));
  const double least = 1e-8 * largest(exact);
  double error = 0;
  for (Index j = 0; j < set.keys.shape()[0]; ++j)
    error = worse(error, std::fabs(dot(phi_q, map(row(set.keys, j))) - exact[j]) / worse(std::fabs(exact[j]), least));
  return error;
}

constexpr Index most_taylor_features = 20000;

ExplicitMap explicit_map(const Attention& attention, const TrainingSet& set, Certificate& certificate) {
  const Index D = set.keys.shape()[1];
  if (feature_count(attention.kernel, D)) return {FeatureMap(attention.kernel, D)};
  const WeightRule rule(attention, D, set.N, set.K);
  for (int order = 1;; ++order) {
    ExplicitMap map = taylor_map(attention.kernel, D, order);
    certificate.taylor_order = order;
    certificate.truncation = kernel_error(map, rule, set);
    if (certificate.truncation < 1e-13 || std::isnan(certificate.truncation) || order == 60 ||
        monomial_count(D, order + 1) > most_taylor_features)
      return map;
  }
}

}  // namespace

void compare_forms(const Call& call, const TrainingSet& set, Certificate& certificate) {
  const Attention& attention = call.attention;
  const ExplicitMap map = explicit_map(attention, set, certificate);
  const auto [m, E] = set.values.shape();
  const Index F = certificate.features = map.map.size();
  std::vector<double> z(F, 0.0);
  Matrix w({E, F});
  for (Index j = 0; j < m; ++j) {
    const auto phi = map(row(set.keys, j));
    for (Index f = 0; f < F; ++f) {
      z[f] += phi[f];
      for (Index e = 0; e < E; ++e) w(e, f) += set.values(j, e) * phi[f];
    }
  }
  const auto phi = map(Row(set.query_tokens.begin(), set.query_tokens.end()));
  const NormaliserRule rule = normaliser_rule(attention.normaliser, attention.kernel, set.N, set.K);
  const double h = rule.row_sum ? dot(phi, z) + rule.den_eps : rule.fixed;

  Call plain = call;  // the expansion alone
  plain.attention.bias.reset();
  plain.attention.residual.reset();
  plain.skip = {};
  plain.parameters.erase("bias");
  const Dims dims = call.dims();
  Tensor y(DType::f64, {dims.B, dims.H, dims.N, dims.E});
  reference_forward(plain, {y.view(), {}, {}, {}});
  const Index at = ((set.sample * dims.H + set.head) * dims.N + set.query) * dims.E;
  double difference = 0, top = 0;
  for (Index e = 0; e < E; ++e) {
    difference = worse(difference, std::fabs(dot(row(w, e), phi) / h - y.at(at + e)));
    top = worse(top, std::fabs(y.at(at + e)));
  }
  certificate.primal_dual = difference / (1 + top);
}

}  // namespace saddle::primal
