#include "saddle/primal/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/primal/certificate/forms.hpp"
#include "saddle/primal/svr/channel.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

constexpr double fit_tolerance = 1e-6;

double largest_difference(const Matrix& a, const Matrix& b) {
  double top = 0;
  for (Index i = 0; i < a.size(); ++i) top = worse(top, std::fabs(a.data()[i] - b.data()[i]));
  return top;
}

Matrix mapped(Matrix x, auto&& change) {
  for (double& value : x) value = change(value);
  return x;
}

// Size of the Gram matrix: the mean of its diagonal, which only a zero matrix has at 0.
double size_of_gram(const Matrix& gram) {
  double mean = 0;
  for (Index j = 0; j < gram.shape()[0]; ++j) mean += gram(j, j) / static_cast<double>(gram.shape()[0]);
  return mean;
}

Matrix unit_gram(const Matrix& gram) {
  return mapped(gram, [size = size_of_gram(gram)](double entry) { return entry / size; });
}

double relative_gap(double primal, double dual) { return std::fabs(primal - dual) / (1 + std::fabs(primal)); }

// a [n,m] b [m,E]
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c({a.shape()[0], b.shape()[1]});
  for (Index i = 0; i < c.shape()[0]; ++i)
    for (Index j = 0; j < b.shape()[0]; ++j)
      for (Index e = 0; e < c.shape()[1]; ++e) c(i, e) += a(i, j) * b(j, e);
  return c;
}

Eigen::VectorXd column(const Matrix& x, Index e) {
  Eigen::VectorXd values(x.shape()[0]);
  for (Index i = 0; i < x.shape()[0]; ++i) values(i) = x(i, e);
  return values;
}

// The multipliers beta = h v at which G has size one and the largest |f| is one; `unit` is what f was divided by. Where
// the sum that gives f cancels down to its rounding error, f stays that small.
struct UnitLayer {
  Matrix gram, beta, f;  // [m,m], [m,E], [m,E] G beta
  double unit = 1;

  explicit UnitLayer(const TrainingSet& set) : gram(unit_gram(set.gram)), beta(set.values) {
    const double size = size_of_gram(set.gram);
    for (Index j = 0; j < beta.shape()[0]; ++j)
      for (Index e = 0; e < beta.shape()[1]; ++e) beta(j, e) *= set.h(j) * size;
    const auto magnitude = [](double x) { return std::fabs(x); };
    const double terms = largest(product(mapped(gram, magnitude), mapped(beta, magnitude)));
    unit = worse(largest(product(gram, beta)), 1e-6 * terms);
    if (unit == 0) unit = 1;  // all values are zero
    for (double& value : beta) value /= unit;
    f = product(gram, beta);
  }
};

// Why the solver did not reproduce the layer.
std::string why_unresolved(const UnitLayer& layer, const SvrSolution& solved) {
  const double most = largest(layer.beta);
  double least = most;
  for (double beta : layer.beta)
    if (beta != 0) least = std::min(least, std::fabs(beta));
  if (least < 1e-8 * most)
    return fmt::format(
        "the layer's own regression is beyond double precision: its smallest multiplier h v is {:.0e} of the largest; "
        "use keys of smaller norm or a smaller scale",
        least / most);
  for (const SvrChannel& channel : solved.channels)
    if (channel.status != SvrStatus::converged) return "the layer's own regression: " + channel.message;
  return "the layer's own regression: the solver converged to another fit";
}

// Regression with targets y = G beta + eps sign(beta), of which beta = h v is the optimum by construction.
void certify_layer(const TrainingSet& set, Certificate& certificate) {
  const UnitLayer layer(set);
  const double top = largest(layer.beta), size = size_of_gram(set.gram);
  const SvrOptions options{top > 0 ? 2 * top : 1, 0.1 * worse(largest(layer.f), 1e-3)};
  certificate.C = options.C * layer.unit / size;
  certificate.epsilon = options.epsilon * layer.unit;
  if (!std::isfinite(options.C) || !std::isfinite(options.epsilon) || !std::isfinite(largest(layer.gram))) {
    certificate.gap = certificate.kkt = certificate.resolved = std::numeric_limits<double>::quiet_NaN();
    certificate.notes.emplace_back("the layer's own regression has numbers that are not finite");
    return;
  }
  Matrix targets = layer.f;
  for (Index i = 0; i < targets.size(); ++i) {
    const double beta = layer.beta.data()[i];
    targets.data()[i] += options.epsilon * static_cast<double>((beta > 0) - (beta < 0));
  }
  const svr::Gram gram(layer.gram);
  for (Index e = 0; e < targets.shape()[1]; ++e) {
    const Eigen::VectorXd y = column(targets, e);
    const svr::Candidate point = svr::certify({gram, y, options}, column(layer.beta, e), 0, column(layer.f, e));
    certificate.primal += point.primal * layer.unit * layer.unit / size;
    certificate.dual += point.dual * layer.unit * layer.unit / size;
    certificate.gap = worse(certificate.gap, relative_gap(point.primal, point.dual));
    certificate.kkt = worse(certificate.kkt, point.kkt / (1 + options.C));
  }
  const SvrSolution solved = solve_svr(layer.gram, targets, options);
  certificate.converged = solved.converged();
  certificate.resolved = largest_difference(solved.f, layer.f) / (1 + largest(layer.f));
  if (!certificate.converged || !(certificate.resolved <= fit_tolerance))
    certificate.notes.push_back(why_unresolved(layer, solved));
}

// Seeded targets, solved; v = beta/h put back into the attention must give f - b at the keys.
void certify_fit(const Attention& attention, const TrainingSet& set, std::uint64_t seed, Certificate& certificate) {
  const auto [m, E] = set.values.shape();
  Stream stream(seed, "targets");
  Matrix targets({m, E});
  for (double& y : targets) y = stream.normal();
  SvrOptions options{10, 0.1};
  options.bias = attention.bias.has_value();
  const SvrSolution solution = solve_svr(unit_gram(set.gram), targets, options);
  certificate.converged = certificate.converged && solution.converged();
  for (const SvrChannel& channel : solution.channels) {
    certificate.solve_gap = worse(certificate.solve_gap, relative_gap(channel.primal, channel.dual));
    certificate.solve_kkt = worse(certificate.solve_kkt, channel.kkt / (1 + options.C));
    certificate.support_vectors += channel.support_vectors;
    if (channel.status != SvrStatus::converged) certificate.notes.push_back("seeded targets: " + channel.message);
  }
  certificate.multipliers = m * E;
  Matrix v({m, E}), f = solution.f;
  for (Index j = 0; j < m; ++j)
    for (Index e = 0; e < E; ++e) {
      v(j, e) = solution.beta(j, e) / size_of_gram(set.gram) / set.h(j);
      f(j, e) -= solution.b(e);
    }
  certificate.fit =
      largest_difference(product(expansion_row(attention, set, set.keys), v), f) / (1 + largest(solution.f));
}

// A query whose regression exists (it sees keys, h is finite there, G is not zero), starting from a seeded one; one
// that sees several keys if there is any.
TrainingSet seeded_set(const Call& call, std::uint64_t seed) {
  const Dims dims = call.dims();
  const Index count = dims.B * dims.H * dims.N;
  const auto start =
      count == 0 ? 0 : static_cast<Index>(Stream(seed, "certificate").below(static_cast<std::uint64_t>(count)));
  std::string problem = "no query sees any key";
  std::optional<TrainingSet> lonely;
  for (Index step = 0; step < count; ++step) {
    const Index at = (start + step) % count;
    try {
      TrainingSet set = training_set(call, at / (dims.H * dims.N), at / dims.N % dims.H, at % dims.N);
      if (!set.indices.empty() && size_of_gram(set.gram) == 0) {
        problem = "the Gram matrix is zero";
        continue;
      }
      if (set.indices.size() > 1) return set;
      if (!lonely && !set.indices.empty()) lonely = std::move(set);
    } catch (const InvalidArgument& error) {
      problem = error.what();
    }
  }
  if (lonely) return *std::move(lonely);
  throw InvalidArgument(fmt::format("[{}] there is no regression to certify: {}", to_text(call.attention), problem));
}

}  // namespace

bool Certificate::compares_forms() const { return truncation <= 1e-6; }

bool Certificate::holds() const {
  return converged && gap <= 1e-8 && kkt <= 1e-8 && solve_gap <= 1e-8 && solve_kkt <= 1e-8 &&
         resolved <= fit_tolerance && fit <= fit_tolerance &&
         (!compares_forms() || primal_dual <= 1e-8 + 10 * truncation);
}

Certificate certify(const Call& call, std::uint64_t seed) {
  validate(call);
  Certificate certificate;
  certificate.set = seeded_set(call, seed);
  if (!certificate.set.shared)
    certificate.notes.push_back(
        fmt::format("key sets differ between queries: this is the regression of query {}; v is "
                    "shared by all queries, a modelling step",
                    certificate.set.query));
  if (call.attention.bias)
    certificate.notes.emplace_back(
        "layer to regression: b is held fixed; seeded targets: b is fitted, sum of beta is 0");
  if (call.attention.residual) certificate.notes.emplace_back("residual: the targets are y - r(x)");
  certify_layer(certificate.set, certificate);
  certify_fit(call.attention, certificate.set, seed, certificate);
  compare_forms(call, certificate.set, certificate);
  if (!std::isfinite(certificate.truncation))
    certificate.notes.emplace_back(
        "infinite features: kappa or its Taylor features leave the range of double precision at the query, so the "
        "verdict leaves primal and dual form out");
  else if (certificate.taylor_order >= 0)
    certificate.notes.push_back(
        fmt::format("infinite features: W was built from the {} Taylor features up to degree {}, kernel error {:.1e}",
                    certificate.features, certificate.taylor_order, certificate.truncation));
  if (std::isfinite(certificate.truncation) && !certificate.compares_forms())
    certificate.notes.emplace_back(
        "that is too coarse to compare primal and dual form, so the verdict leaves them out: use a smaller width");
  return certificate;
}

}  // namespace saddle::primal
