#include "saddle/primal/svr/channel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace saddle::primal::svr {

constexpr double unbounded = std::numeric_limits<double>::infinity();

Candidate certify(const Problem& problem, const Eigen::VectorXd& beta, double b, const Eigen::VectorXd& g_beta) {
  const SvrOptions& options = problem.options;
  const double C = options.C, epsilon = options.epsilon;
  Candidate c;
  c.beta = beta;
  c.b = b;
  c.f = g_beta.array() + b;
  c.kkt = options.bias ? std::abs(beta.sum()) : 0.0;
  double slack = 0;
  for (Eigen::Index j = 0; j < problem.size(); ++j) {
    const double y = problem.y[j], f = c.f[j];
    const double a = std::max(beta[j], 0.0), a_t = std::max(-beta[j], 0.0);
    const auto [xi, xi_t] = slacks(y, f, epsilon);
    // The other terms of the residual vanish by the choice of a, a~, xi and xi~.
    c.kkt = std::max({c.kkt, a - C, a_t - C, std::abs(a * (epsilon + xi - y + f)),
                      std::abs(a_t * (epsilon + xi_t + y - f)), std::abs((C - a) * xi), std::abs((C - a_t) * xi_t)});
    slack += xi + xi_t;
  }
  const double quadratic = 0.5 * beta.dot(g_beta);
  c.primal = quadratic + C * slack;
  c.dual = problem.y.dot(beta) - quadratic - epsilon * beta.lpNorm<1>();
  const double gap = std::abs(c.primal - c.dual) / (options.gap_tolerance * (1 + std::abs(c.primal)));
  c.merit = std::max(gap, c.kkt / (options.kkt_tolerance * (1 + C)));
  if (!std::isfinite(gap) || !std::isfinite(c.kkt)) c.merit = unbounded;
  return c;
}

double midpoint_bias(const Problem& problem, const Eigen::VectorXd& beta, const Eigen::VectorXd& g_beta) {
  const double epsilon = problem.options.epsilon;
  double low = -unbounded, high = unbounded;
  for (Eigen::Index j = 0; j < problem.size(); ++j) {
    const double offset = problem.y[j] - g_beta[j];
    if (beta[j] <= 0) low = std::max(low, beta[j] < 0 ? offset + epsilon : offset - epsilon);
    if (beta[j] >= 0) high = std::min(high, beta[j] > 0 ? offset - epsilon : offset + epsilon);
  }
  if (std::isinf(low)) return high;
  if (std::isinf(high)) return low;
  return 0.5 * (low + high);
}

}  // namespace saddle::primal::svr
