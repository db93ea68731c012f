#include "saddle/primal/svr.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/primal/svr_active_set.hpp"
#include "saddle/primal/svr_interior.hpp"

namespace saddle::primal {
namespace {

using Eigen::VectorXd;

std::string shape_text(MatrixView m) {
  return "(" + std::to_string(m.shape[0]) + "," + std::to_string(m.shape[1]) + ")";
}

bool all_finite(MatrixView m) {
  for (Index i = 0; i < m.shape[0]; ++i) {
    for (Index j = 0; j < m.shape[1]; ++j) {
      if (!std::isfinite(m(i, j))) return false;
    }
  }
  return true;
}

void check(MatrixView gram, MatrixView targets, const SvrOptions& options) {
  const auto fail = [](const std::string& message) { throw InvalidArgument("[svr] " + message); };
  if (gram.shape[0] != gram.shape[1] || gram.shape[0] < 1) {
    fail("gram has shape " + shape_text(gram) + ": it must be square with at least one key");
  }
  if (targets.shape[0] != gram.shape[0]) {
    fail("targets have shape " + shape_text(targets) + " but gram " + shape_text(gram) +
         ": the first dimensions must match");
  }
  if (!(options.C > 0) || !std::isfinite(options.C)) {
    fail("C is " + std::to_string(options.C) + ": it must be positive and finite");
  }
  if (!(options.epsilon >= 0) || !std::isfinite(options.epsilon)) {
    fail("epsilon is " + std::to_string(options.epsilon) + ": it must be zero or positive, and finite");
  }
}

// The keys outside the tube around the constant function b, all of them free.
std::vector<svr::State> outside_tube(const svr::Problem& problem, double b) {
  std::vector<svr::State> states;
  for (const double y : problem.y) {
    if (problem.options.epsilon == 0 || y - b > problem.options.epsilon) {
      states.push_back(svr::State::positive);
    } else {
      states.push_back(b - y > problem.options.epsilon ? svr::State::negative : svr::State::zero);
    }
  }
  return states;
}

struct Outcome {
  svr::Candidate best;
  int iterations = 0;
};

// Active set rounds finish the solve; the interior point method is there to find a set to start them from.
Outcome solve_channel(const svr::Problem& problem) {
  const SvrOptions& options = problem.options;
  const auto& G = problem.gram.G;
  const VectorXd zero = VectorXd::Zero(problem.size());
  Outcome out;
  out.best = svr::certify(problem, zero, options.bias ? svr::midpoint_bias(problem, zero, zero) : 0.0, zero);
  if (out.best.merit <= 1) return out;
  // With a well conditioned G the first guess is often good enough.
  const double b = options.bias ? problem.y.mean() : 0.0;
  if (!problem.gram.low_rank &&
      svr::refine_active_set(problem, outside_tube(problem, b), zero, b, out.iterations, out.best)) {
    return out;
  }
  svr::InteriorPoint interior(problem);
  double next_try = 2e-2, smallest_gap = 1;
  for (bool moving = true; moving && out.iterations < options.max_iterations;) {
    moving = interior.step();
    ++out.iterations;
    const VectorXd beta = interior.beta();
    svr::Candidate candidate = svr::certify(problem, beta, interior.b(), G * beta);
    if (candidate.merit < out.best.merit) out.best = std::move(candidate);
    const double gap = interior.gap();
    // Without rounding the gap would only shrink.
    moving = moving && out.best.merit > svr::kBeyondDoubt && gap > 1e-14 && gap < (gap < 1e-8 ? 1 : 100) * smallest_gap;
    smallest_gap = std::min(smallest_gap, gap);
    if (moving && gap > next_try) continue;
    next_try = 0.1 * gap;
    if (svr::refine_active_set(problem, interior.guess(), beta, interior.b(), out.iterations, out.best)) break;
  }
  return out;
}

// Column `channel` of the solution, and what is known about it.
void store(const svr::Problem& problem, const Outcome& outcome, Index channel, SvrSolution& solution) {
  const SvrOptions& options = problem.options;
  const svr::Candidate& best = outcome.best;
  SvrChannel& info = solution.channels[static_cast<std::size_t>(channel)];
  info.iterations = outcome.iterations;
  info.primal = best.primal;
  info.dual = best.dual;
  info.kkt = best.kkt;
  for (Index j = 0; j < problem.size(); ++j) {
    const double beta = best.beta[j], f = best.f[j];
    const auto [xi, xi_t] = svr::slacks(problem.y[j], f, options.epsilon);
    solution.beta(j, channel) = beta;
    solution.alpha(j, channel) = std::max(beta, 0.0);
    solution.alpha_t(j, channel) = std::max(-beta, 0.0);
    solution.xi(j, channel) = xi;
    solution.xi_t(j, channel) = xi_t;
    solution.f(j, channel) = f;
    info.support_vectors += beta != 0;
  }
  solution.b(channel) = best.b;
  if (best.merit <= 1) return;
  info.status = SvrStatus::iteration_limit;
  const std::string limit = std::to_string(options.max_iterations);
  info.message = outcome.iterations >= options.max_iterations
                     ? "not converged after max_iterations = " + limit + ": allow more iterations"
                     : "rounding stopped progress after " + std::to_string(outcome.iterations) +
                           " iterations: a smaller C or a better conditioned Gram matrix would help";
}

}  // namespace

const char* to_string(SvrStatus status) {
  switch (status) {
    case SvrStatus::converged:
      return "converged";
    case SvrStatus::iteration_limit:
      return "iteration limit";
    case SvrStatus::not_positive_semidefinite:
      return "not positive semidefinite";
    case SvrStatus::not_finite:
      return "not finite";
  }
  return "unknown";
}

bool SvrSolution::converged() const {
  return std::all_of(channels.begin(), channels.end(),
                     [](const SvrChannel& c) { return c.status == SvrStatus::converged; });
}

SvrSolution solve_svr(MatrixView gram, MatrixView targets, const SvrOptions& options) {
  check(gram, targets, options);
  const Index M = gram.shape[0], E = targets.shape[1];
  // What is not solved stays NaN, so that it cannot be taken for a solution.
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  SvrSolution solution;
  for (Matrix* m : {&solution.beta, &solution.alpha, &solution.alpha_t, &solution.xi, &solution.xi_t, &solution.f}) {
    *m = Matrix({M, E}, unknown);
  }
  solution.b = Vector({E}, unknown);
  solution.channels.resize(static_cast<std::size_t>(E));

  const auto refuse = [&](SvrChannel& channel, SvrStatus status, const std::string& message) {
    channel.status = status;
    channel.message = message;
    channel.primal = channel.dual = channel.kkt = unknown;
  };
  if (!all_finite(gram)) {
    for (auto& c : solution.channels) refuse(c, SvrStatus::not_finite, "the Gram matrix has NaN or infinite entries");
    return solution;
  }
  const svr::Gram shared(gram);
  if (!shared.defect.empty()) {
    for (auto& c : solution.channels) refuse(c, SvrStatus::not_positive_semidefinite, shared.defect);
    return solution;
  }
  const auto solve = [&](Index channel) {
    VectorXd y(M);
    for (Index j = 0; j < M; ++j) y[j] = targets(j, channel);
    if (!y.allFinite()) {
      refuse(solution.channels[static_cast<std::size_t>(channel)], SvrStatus::not_finite,
             "the targets have NaN or infinite entries");
      return;
    }
    const svr::Problem problem{shared, y, options};
    store(problem, solve_channel(problem), channel, solution);
  };
  parallel_for(E, 1, solve, {Schedule::dynamic, options.threads});
  return solution;
}

}  // namespace saddle::primal
