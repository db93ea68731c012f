#include "saddle/primal/svr/interior.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::primal::svr {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::VectorXd;

InteriorPoint::InteriorPoint(const Problem& problem)
    : problem_(problem),
      system_(problem.gram.G, problem.options.bias, problem.gram.low_rank ? &problem.gram.factor : nullptr) {
  const Index M = problem.size();
  const double C = problem.options.C, epsilon = problem.options.epsilon;
  if (problem.options.bias) b_ = problem.y.mean();
  double deviation = 0;
  for (const double y : problem.y) deviation += std::abs(y - b_);
  size_ = std::max(deviation / static_cast<double>(M), epsilon);
  const ArrayXd r = problem.y.array() - b_;
  // The middle of the box has beta = 0; with multipliers that differ by the residual it is feasible.
  u_ = ArrayXd::Constant(2 * M, C / 2);
  z_.resize(2 * M);
  z_ << epsilon - r, epsilon + r;
  s_ = (-z_).cwiseMax(0) + size_;
  z_ = z_.cwiseMax(0) + size_;
}

VectorXd InteriorPoint::beta() const { return (u_.head(problem_.size()) - u_.tail(problem_.size())).matrix(); }

double InteriorPoint::complementarity() const { return (u_ * z_).sum() + ((problem_.options.C - u_) * s_).sum(); }

double InteriorPoint::complementarity(const Direction& d, double length) const {
  const Array u = u_ + length * d.u;
  return (u * (z_ + length * d.z)).sum() + ((problem_.options.C - u) * (s_ + length * d.s)).sum();
}

double InteriorPoint::gap() const {
  const VectorXd net = beta();
  const double objective = std::abs(problem_.y.dot(net) - problem_.options.epsilon * net.lpNorm<1>());
  const double total = complementarity();
  return total / (total + objective);
}

bool InteriorPoint::step() {
  const Index M = problem_.size();
  const double C = problem_.options.C, epsilon = problem_.options.epsilon;
  const ArrayXd error = (problem_.gram.G * beta() - problem_.y).array() + b_;
  dual_residual_.resize(2 * M);
  dual_residual_ << error, -error;
  dual_residual_ += epsilon - z_ + s_;
  theta_ = z_ / u_ + s_ / (C - u_);
  shift_ = (theta_.head(M).inverse() + theta_.tail(M).inverse()).inverse();
  system_.factor(shift_.matrix());

  const ArrayXd none = ArrayXd::Zero(2 * M);
  Direction d = newton(none, none);
  const double now = complementarity();
  const double centring = std::pow(complementarity(d, longest_step(d)) / now, 3);
  const double mu = centring * now / static_cast<double>(4 * M);
  d = newton(mu - d.u * d.z, mu + d.u * d.s);
  const double length = 0.995 * longest_step(d);
  if (!(length > 1e-8) || !std::isfinite(d.b + d.u.sum() + d.z.sum() + d.s.sum())) return false;
  u_ += length * d.u;
  z_ += length * d.z;
  s_ += length * d.s;
  b_ += length * d.b;
  return u_.minCoeff() > 0 && u_.maxCoeff() < C && z_.minCoeff() > 0 && s_.minCoeff() > 0;
}

// Eliminating z, s and then u leaves (G + diag(shift)) d_beta + d_b = rhs.
InteriorPoint::Direction InteriorPoint::newton(const Array& target_z, const Array& target_s) {
  const Index M = problem_.size();
  const Array room = problem_.options.C - u_;
  const Array rho = target_z / u_ - z_ - target_s / room + s_ - dual_residual_;
  const Array free_step = rho / theta_;
  const VectorXd rhs = (shift_ * (free_step.head(M) - free_step.tail(M))).matrix();
  Direction d;
  VectorXd d_beta;
  system_.solve(rhs, -beta().sum(), 1e-8, d_beta, d.b);
  const Array d_f = rhs.array() - shift_ * d_beta.array();
  d.u.resize(2 * M);
  d.u << rho.head(M) - d_f, rho.tail(M) + d_f;
  d.u /= theta_;
  d.z = (target_z - z_ * d.u) / u_ - z_;
  d.s = (target_s + s_ * d.u) / room - s_;
  return d;
}

double InteriorPoint::longest_step(const Direction& d) const {
  const Array room = problem_.options.C - u_;
  const double fastest =
      std::max({1.0, (-d.u / u_).maxCoeff(), (d.u / room).maxCoeff(), (-d.z / z_).maxCoeff(), (-d.s / s_).maxCoeff()});
  return 1 / fastest;
}

// Of two numbers whose product goes to zero, the one that is smaller in its own unit goes there.
std::vector<State> InteriorPoint::guess() const {
  const Index M = problem_.size();
  const double C = problem_.options.C;
  const double unit = u_.mean() / (z_.mean() + s_.mean());
  std::vector<State> states(static_cast<std::size_t>(M), State::zero);
  for (Index j = 0; j < M; ++j) {
    State& state = states[static_cast<std::size_t>(j)];
    const bool up = u_[j] > u_[j + M];
    const Index i = up ? j : j + M;
    if (problem_.options.epsilon == 0) {
      // a and a~ may grow together; only their difference says how far beta is from its bound.
      const double room = C - std::abs(u_[j] - u_[j + M]);
      state = room * size_ > C * s_[i] ? State::positive : up ? State::at_upper : State::at_lower;
    } else if (C - u_[i] < unit * s_[i]) {
      state = up ? State::at_upper : State::at_lower;
    } else if (u_[i] > unit * z_[i]) {
      state = up ? State::positive : State::negative;
    }
  }
  return states;
}

}  // namespace saddle::primal::svr
