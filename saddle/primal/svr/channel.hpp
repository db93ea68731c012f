// One output channel of the SVR dual: the problem, a candidate solution, and the certificate that judges it.
#pragma once

#include <Eigen/Core>

#include "saddle/primal/svr.hpp"
#include "saddle/primal/svr/gram.hpp"

namespace saddle::primal::svr {

struct Problem {
  const Gram& gram;
  const Eigen::VectorXd& y;  // [M]
  const SvrOptions& options;

  Eigen::Index size() const { return y.size(); }
};

// Where beta_j lies in [-C, C]. With epsilon = 0 the dual has no kink at zero: positive then means strictly inside.
enum class State : signed char { at_lower = -2, negative = -1, zero = 0, positive = 1, at_upper = 2 };

struct Candidate {
  Eigen::VectorXd beta;  // [M]
  double b = 0;
  Eigen::VectorXd f;  // [M] G beta + b
  double primal = 0, dual = 0, kkt = 0;
  double merit = 0;  // worst ratio of gap and KKT residual to their tolerances: at most 1 is converged
};

// The objective can be accurate to its tolerance while f is only accurate to the root of it; below this merit f is too.
constexpr double beyond_doubt = 1e-4;

// Judges beta [M] and b by the definitions of P, D and the KKT residual alone; g_beta [M] is G beta.
Candidate certify(const Problem& problem, const Eigen::VectorXd& beta, double b, const Eigen::VectorXd& g_beta);

// Midpoint of the values of b that beta [M] allows when no entry is free; g_beta [M] is G beta.
double midpoint_bias(const Problem& problem, const Eigen::VectorXd& beta, const Eigen::VectorXd& g_beta);

struct Slacks {
  double xi, xi_t;
};
inline Slacks slacks(double y, double f, double epsilon) {
  return {std::max(0.0, y - f - epsilon), std::max(0.0, f - y - epsilon)};
}

}  // namespace saddle::primal::svr
