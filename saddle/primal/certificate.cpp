#include "saddle/primal/certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"
#include "saddle/primal/head.hpp"
#include "saddle/primal/primal_form.hpp"
#include "saddle/primal/reference.hpp"
#include "saddle/primal/svr/channel.hpp"
#include "saddle/primal/weights.hpp"
#include "saddle/primal/written.hpp"

namespace saddle::primal {

namespace {

using Row = std::span<const double>;

double largest(const auto& values) {
  double top = 0;
  for (double value : values) top = std::max(top, std::fabs(value));
  return top;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double top = 0;
  for (Index i = 0; i < a.size(); ++i) top = std::max(top, std::fabs(a.data()[i] - b.data()[i]));
  return top;
}

std::vector<std::uint8_t> all_visible(const TrainingSet& set) {
  return std::vector<std::uint8_t>(set.keys.shape()[0], 1);
}

WeightRule rule_for(const Attention& attention, const TrainingSet& set) {
  return {attention, set.keys.shape()[1], set.N, set.K};
}

// h at the keys and G = kappa/(h h'). h must be usable everywhere, or there is no regression.
void fill_gram(const Attention& attention, TrainingSet& set) {
  const Index m = set.keys.shape()[0];
  const WeightRule rule = rule_for(attention, set);
  const auto visible = all_visible(set);
  set.h = Vector({m});
  set.gram = Matrix({m, m});
  for (Index j = 0; j < m; ++j) {
    set.h(j) = rule.normaliser(row(set.keys, j), set.keys, visible);
    if (set.h(j) == 0 || !std::isfinite(set.h(j)))
      throw InvalidArgument(
          fmt::format("[{}] the normaliser h is {} at key {}: it must be finite and non-zero at every key",
                      to_text(attention), set.h(j), set.indices[j]),
          "scale the keys, or use another normaliser");
  }
  for (Index j = 0; j < m; ++j)
    for (Index l = 0; l <= j; ++l)
      set.gram(j, l) = set.gram(l, j) = rule.kappa(row(set.keys, j), row(set.keys, l)) / (set.h(j) * set.h(l));
}

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

// Regression with targets y = G beta + eps sign(beta), of which beta = h v is the optimum by construction.
void certify_layer(const TrainingSet& set, Certificate& certificate) {
  const auto [m, E] = set.values.shape();
  Matrix beta({m, E});
  for (Index j = 0; j < m; ++j)
    for (Index e = 0; e < E; ++e) beta(j, e) = set.h(j) * set.values(j, e);
  const double top = largest(beta);
  certificate.C = top > 0 ? 2 * top : 1;
  const Matrix f = product(set.gram, beta);
  certificate.epsilon = 0.1 * std::max(largest(f), 1e-3);
  Matrix targets = f;
  for (Index j = 0; j < m; ++j)
    for (Index e = 0; e < E; ++e)
      targets(j, e) += certificate.epsilon * static_cast<double>((beta(j, e) > 0) - (beta(j, e) < 0));

  const SvrOptions options{certificate.C, certificate.epsilon};
  const svr::Gram gram(set.gram);
  for (Index e = 0; e < E; ++e) {
    const Eigen::VectorXd y = column(targets, e);
    const svr::Candidate point = svr::certify({gram, y, options}, column(beta, e), 0, column(f, e));
    certificate.primal += point.primal;
    certificate.dual += point.dual;
    certificate.gap = std::max(certificate.gap, std::fabs(point.primal - point.dual) / (1 + std::fabs(point.primal)));
    certificate.kkt = std::max(certificate.kkt, point.kkt / (1 + options.C));
  }
  const SvrSolution solved = solve_svr(set.gram, targets, options);
  certificate.resolved = largest_difference(solved.f, f) / (1 + largest(f));
  if (!solved.converged()) certificate.notes.emplace_back("the solver did not converge on the layer's own regression");
}

// Seeded targets, solved; v = beta/h put back into the attention must give f - b at the keys.
void certify_fit(const Attention& attention, const TrainingSet& set, std::uint64_t seed, Certificate& certificate) {
  const auto [m, E] = set.values.shape();
  Stream stream(seed, "targets");
  Matrix targets({m, E});
  for (double& y : targets) y = stream.normal();
  double diagonal = 0;
  for (Index j = 0; j < m; ++j) diagonal += set.gram(j, j) / static_cast<double>(m);
  SvrOptions options{10 / std::max(diagonal, 1e-300), 0.1};
  options.bias = attention.bias.has_value();
  const SvrSolution solution = solve_svr(set.gram, targets, options);
  for (const SvrChannel& channel : solution.channels) {
    certificate.solve_gap =
        std::max(certificate.solve_gap, std::fabs(channel.primal - channel.dual) / (1 + std::fabs(channel.primal)));
    certificate.solve_kkt = std::max(certificate.solve_kkt, channel.kkt / (1 + options.C));
    certificate.support_vectors += channel.support_vectors;
    if (channel.status != SvrStatus::converged) certificate.notes.push_back("seeded targets: " + channel.message);
  }
  certificate.multipliers = m * E;
  Matrix v({m, E}), f = solution.f;
  for (Index j = 0; j < m; ++j)
    for (Index e = 0; e < E; ++e) {
      v(j, e) = solution.beta(j, e) / set.h(j);
      f(j, e) -= solution.b(e);
    }
  certificate.fit =
      largest_difference(product(expansion_row(attention, set, set.keys), v), f) / (1 + largest(solution.f));
}

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

// Largest relative error of the map's kernel between the query and the keys.
double kernel_error(const ExplicitMap& map, const WeightRule& rule, const TrainingSet& set) {
  const Row q(set.query_tokens.begin(), set.query_tokens.end());
  const auto phi_q = map(q);
  double error = 0;
  for (Index j = 0; j < set.keys.shape()[0]; ++j) {
    const double exact = rule.kappa(q, row(set.keys, j));
    error = std::max(error, std::fabs(dot(phi_q, map(row(set.keys, j))) - exact) / std::fabs(exact));
  }
  return error;
}

constexpr Index most_taylor_features = 20000;

ExplicitMap explicit_map(const Attention& attention, const TrainingSet& set, Certificate& certificate) {
  const Index D = set.keys.shape()[1];
  if (feature_count(attention.kernel, D)) return {FeatureMap(attention.kernel, D)};
  const WeightRule rule = rule_for(attention, set);
  for (int order = 1;; ++order) {
    ExplicitMap map = taylor_map(attention.kernel, D, order);
    certificate.taylor_order = order;
    certificate.truncation = kernel_error(map, rule, set);
    if (certificate.truncation < 1e-13 || order == 60 || monomial_count(D, order + 1) > most_taylor_features)
      return map;
  }
}

// W Phi(q)/h(q) with W = sum_j v_j Phi(k_j)^T, against the attention itself.
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
  for (Index e = 0; e < E; ++e)
    certificate.primal_dual = std::max(certificate.primal_dual, std::fabs(dot(row(w, e), phi) / h - y.at(at + e)));
}

// A query whose regression exists (it sees keys, and h is finite there), starting from a seeded one; one that sees
// several keys if there is any.
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

TrainingSet training_set(const Call& call, Index sample, Index head, Index query) {
  const Head data = prepare_head(call, sample, head);
  const Tokens tokens =
      data.per_query < call.attention.transforms.size() ? per_query_tokens(call, data, query).tokens : data.tokens;
  const Index own = tokens.q.shape()[0] == 1 ? 0 : query;
  const Index D = tokens.k.shape()[1], E = data.v.shape()[1];
  TrainingSet set;
  set.sample = sample;
  set.head = head;
  set.query = query;
  set.N = data.visible.shape()[0];
  set.K = data.visible.shape()[1];
  for (Index j = 0; j < set.K; ++j)
    if (data.visible(query, j)) set.indices.push_back(j);
  for (Index i = 0; i < set.N; ++i)
    for (Index j = 0; j < set.K; ++j) set.shared &= data.visible(i, j) == data.visible(query, j);
  const auto m = static_cast<Index>(set.indices.size());
  set.keys = Matrix({m, D});
  set.values = Matrix({m, E});
  for (Index j = 0; j < m; ++j) {
    const Index from = set.indices[j];
    std::copy_n(tokens.k.data() + from * D, D, set.keys.data() + j * D);
    std::copy_n(data.v.data() + from * E, E, set.values.data() + j * E);
  }
  set.query_tokens = Vector({D});
  std::copy_n(tokens.q.data() + own * D, D, set.query_tokens.data());
  fill_gram(call.attention, set);
  return set;
}

Matrix expansion_row(const Attention& attention, const TrainingSet& set, const Matrix& x) {
  const WeightRule rule = rule_for(attention, set);
  const auto visible = all_visible(set);
  Matrix weights({x.shape()[0], set.keys.shape()[0]});
  for (Index i = 0; i < x.shape()[0]; ++i) rule.row(row(x, i), set.keys, visible, row(weights, i));
  return weights;
}

bool Certificate::compares_forms() const { return truncation <= 1e-6; }

bool Certificate::holds() const {
  const double forms = (1e-8 + 10 * truncation) * (1 + largest(set.values));
  return gap <= 1e-8 && kkt <= 1e-8 && solve_gap <= 1e-8 && solve_kkt <= 1e-8 && resolved <= 1e-6 && fit <= 1e-6 &&
         (!compares_forms() || primal_dual <= forms);
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
  if (certificate.taylor_order >= 0)
    certificate.notes.push_back(
        fmt::format("infinite features: W was built from the {} Taylor features up to degree {}, kernel error {:.1e}",
                    certificate.features, certificate.taylor_order, certificate.truncation));
  if (!certificate.compares_forms())
    certificate.notes.emplace_back(
        "that is too coarse to compare primal and dual form, so the verdict leaves them out: use a smaller width");
  return certificate;
}

namespace {

// A call with queries x, keys k and values v of one head. The tensors must outlive it.
struct OneHead {
  Tensor q, k, v;
  Call call;

  OneHead(const Attention& attention, const Matrix& x, const Matrix& keys, const Matrix& values)
      : q(lift(x)), k(lift(keys)), v(lift(values)) {
    call.attention = attention;
    call.attention.bias.reset();
    call.attention.residual.reset();
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
  }
  OneHead(const OneHead&) = delete;
  OneHead& operator=(const OneHead&) = delete;

  static Tensor lift(const Matrix& x) {
    Tensor tensor(DType::f64, {1, 1, x.shape()[0], x.shape()[1]});
    saddle::detail::copy_from_double(x.data(), tensor.view());
    return tensor;
  }
};

// x [P,D] through the transforms. Without key sets every query sees all keys, so per-query statistics are common too.
Matrix transformed_queries(const Call& call) {
  const Head head = prepare_head(call, 0, 0);
  Matrix x = head.tokens.q;
  if (head.per_query < call.attention.transforms.size())
    for (Index i = 0; i < x.shape()[0]; ++i) {
      const Matrix own = per_query_tokens(call, head, i).tokens.q;
      std::copy(own.begin(), own.end(), x.data() + i * x.shape()[1]);
    }
  return x;
}

}  // namespace

Fit fit_attention(const Attention& attention, const Matrix& k, const Matrix& y, const SvrOptions& options) {
  if (k.shape()[0] == 0 || k.shape()[1] == 0 || k.shape()[0] != y.shape()[0])
    throw InvalidArgument(
        fmt::format("the regression has inputs of shape ({},{}) and targets of shape ({},{}): it needs "
                    "one target row per input and at least one input",
                    k.shape()[0], k.shape()[1], y.shape()[0], y.shape()[1]));
  if (attention.pooling || !attention.keys.empty())
    throw NotSupported(fmt::format("[{}] a fit uses every row of its data as a key", to_text(attention)),
                       {"pooling and key sets describe sequences, not a table of rows"}, "leave sh and key sets out");
  Fit fit;
  fit.attention = attention;
  if (options.bias) fit.attention.bias = Bias{};
  fit.k = k;
  fit.v = Matrix(y.shape());
  const OneHead head(attention, k, k, fit.v);
  fit.set = training_set(head.call, 0, 0, 0);
  SvrOptions with_bias = options;
  with_bias.bias = fit.attention.bias.has_value();
  fit.solution = solve_svr(fit.set.gram, y, with_bias);
  for (Index j = 0; j < k.shape()[0]; ++j)
    for (Index e = 0; e < y.shape()[1]; ++e) fit.v(j, e) = fit.solution.beta(j, e) / fit.set.h(j);
  fit.set.values = fit.v;
  return fit;
}

Matrix Fit::predict(const Matrix& x) const {
  if (x.shape()[1] != k.shape()[1])
    throw InvalidArgument(
        fmt::format("cannot predict from {} columns: the fit has {} inputs", x.shape()[1], k.shape()[1]));
  const OneHead head(attention, x, k, v);
  const Matrix transformed = transformed_queries(head.call);
  Matrix f = product(expansion_row(attention, set, transformed), v);
  for (Index i = 0; i < f.shape()[0]; ++i)
    for (Index e = 0; e < f.shape()[1]; ++e) f(i, e) += solution.b(e);
  return f;
}

Vector Fit::normaliser(const Matrix& x) const {
  const OneHead head(attention, x, k, v);
  const Matrix transformed = transformed_queries(head.call);
  const WeightRule rule = rule_for(attention, set);
  Vector h({x.shape()[0]});
  for (Index i = 0; i < h.size(); ++i) h(i) = rule.normaliser(row(transformed, i), set.keys, all_visible(set));
  return h;
}

}  // namespace saddle::primal
