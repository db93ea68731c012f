#include "saddle/primal/svr/active_set.hpp"

#include <algorithm>
#include <cmath>

namespace saddle::primal::svr {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

bool is_free(State s) { return s == State::negative || s == State::positive; }

double sign(State s) { return s < State::zero ? -1.0 : s > State::zero ? 1.0 : 0.0; }

class ActiveSet {
 public:
  ActiveSet(const Problem& problem, std::vector<State> states, VectorXd beta, double b)
      : problem_(problem), states_(std::move(states)), beta_(std::move(beta)), b_(b) {}

  void solve();
  Candidate certified() const;
  Index update_states();  // returns how many changed

 private:
  State& state(Index j) { return states_[static_cast<std::size_t>(j)]; }
  State state(Index j) const { return states_[static_cast<std::size_t>(j)]; }
  // The fitted value that a free key must have.
  double edge(Index j) const { return problem_.y[j] - problem_.options.epsilon * sign(state(j)); }
  VectorXd projected() const;

  const Problem& problem_;
  std::vector<State> states_;  // [M]
  VectorXd beta_;              // [M]
  double b_;
};

// beta [M] moved to the values that its states allow. What differs from 0 or C by rounding only is not free.
VectorXd ActiveSet::projected() const {
  const double C = problem_.options.C;
  const double across = problem_.options.epsilon > 0 ? 0.0 : C;
  VectorXd beta = beta_;
  for (Index j = 0; j < beta.size(); ++j) {
    switch (state(j)) {
      case State::at_lower: beta[j] = -C; break;
      case State::negative: beta[j] = std::clamp(beta[j], -C, across); break;
      case State::zero: beta[j] = 0; break;
      case State::positive: beta[j] = std::clamp(beta[j], -across, C); break;
      case State::at_upper: beta[j] = C; break;
    }
  }
  const double rounding = 1e-13 * beta.lpNorm<Eigen::Infinity>();
  for (double& x : beta) {
    if (std::abs(x) <= rounding) x = 0;
    if (std::abs(x) >= C - rounding) x = std::copysign(C, x);
  }
  return beta;
}

// Puts f on the edge of the tube at the free keys F: G_FF step_F + step_b = edge - f, sum(beta) = 0 with bias. A step
// from the current beta, not a fresh solution, so that a singular G_FF leaves beta where it was.
void ActiveSet::solve() {
  const auto& G = problem_.gram.G;
  const bool bias = problem_.options.bias;
  beta_ = projected();
  std::vector<Index> free;
  for (Index j = 0; j < problem_.size(); ++j) {
    if (is_free(state(j))) free.push_back(j);
  }
  if (free.empty()) {
    if (bias) b_ = midpoint_bias(problem_, beta_, G * beta_);
    return;
  }
  const Eigen::MatrixXd free_gram = G(free, free);
  System system(free_gram, bias);
  system.factor(VectorXd::Zero(free_gram.rows()));
  // The second step corrects the rounding of the first, which may have been long.
  for (int pass = 0; pass < 2; ++pass) {
    const VectorXd g_beta = G * beta_;
    VectorXd rhs(free_gram.rows()), step;
    for (Index i = 0; i < rhs.size(); ++i) {
      const Index j = free[static_cast<std::size_t>(i)];
      rhs[i] = edge(j) - g_beta[j] - b_;
    }
    double step_b = 0;
    system.solve(rhs, -beta_.sum(), 1e-13, step, step_b);
    beta_(free) += step;
    b_ += step_b;
  }
}

// b is the mean of what the free keys ask for.
Candidate ActiveSet::certified() const {
  const SvrOptions& options = problem_.options;
  const VectorXd beta = projected();
  const VectorXd g_beta = problem_.gram.G * beta;
  if (!options.bias) return certify(problem_, beta, 0, g_beta);
  double total = 0;
  Index count = 0;
  for (Index j = 0; j < problem_.size(); ++j) {
    if (!is_free(state(j)) || beta[j] == 0 || std::abs(beta[j]) == options.C) continue;
    total += edge(j) - g_beta[j];
    ++count;
  }
  const double b = count > 0 ? total / static_cast<double>(count) : midpoint_bias(problem_, beta, g_beta);
  return certify(problem_, beta, b, g_beta);
}

Index ActiveSet::update_states() {
  const double C = problem_.options.C, epsilon = problem_.options.epsilon;
  const VectorXd r = problem_.y.array() - (problem_.gram.G * beta_).array() - b_;
  Index changes = 0;
  for (Index j = 0; j < problem_.size(); ++j) {
    const State now = state(j);
    State next = now;
    switch (now) {
      case State::at_lower:
        if (r[j] > -epsilon) next = State::negative;
        break;
      case State::at_upper:
        if (r[j] < epsilon) next = State::positive;
        break;
      case State::zero:
        if (std::abs(r[j]) > epsilon) next = r[j] > 0 ? State::positive : State::negative;
        break;
      case State::negative:
      case State::positive:
        if (std::abs(beta_[j]) >= C) next = beta_[j] > 0 ? State::at_upper : State::at_lower;
        if (epsilon > 0 && beta_[j] * sign(now) <= 0) next = State::zero;
        break;
    }
    changes += next != now;
    state(j) = next;
  }
  return changes;
}

}  // namespace

bool refine_active_set(const Problem& problem, std::vector<State> states, VectorXd beta, double b, int& iterations,
                       Candidate& best) {
  ActiveSet set(problem, std::move(states), std::move(beta), b);
  Index fewest = std::max<Index>(8, problem.size() / 4);
  int stalled = 0;
  while (iterations < problem.options.max_iterations) {
    set.solve();
    ++iterations;
    Candidate candidate = set.certified();
    const double merit = candidate.merit;
    if (merit < best.merit) best = std::move(candidate);
    if (merit <= beyond_doubt) return true;
    const Index changes = set.update_states();
    if (changes == 0) return merit <= 1;
    stalled = changes < fewest ? 0 : stalled + 1;
    if (stalled == 2 || changes > std::max<Index>(8, problem.size() / 4)) return false;
    fewest = std::min(fewest, changes);
  }
  return false;
}

}  // namespace saddle::primal::svr
