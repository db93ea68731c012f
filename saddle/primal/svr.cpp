#include "saddle/primal/svr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/primal/svr/active_set.hpp"
#include "saddle/primal/svr/ascent.hpp"
#include "saddle/primal/svr/interior.hpp"

namespace saddle::primal {
namespace {

using Eigen::VectorXd;

bool all_finite(MatrixView m) {
  for (Index i = 0; i < m.shape[0]; ++i) {
    for (Index j = 0; j < m.shape[1]; ++j) {
      if (!std::isfinite(m(i, j))) return false;
    }
  }
  return true;
}

template <class... Arguments>
void require(bool good, fmt::format_string<Arguments...> message, Arguments&&... arguments) {
  if (!good) throw InvalidArgument("[svr] " + fmt::format(message, std::forward<Arguments>(arguments)...));
}

void check(MatrixView gram, MatrixView targets, const SvrOptions& options) {
  const auto [rows, columns] = gram.shape;
  require(rows == columns && rows > 0, "gram has shape ({},{}): it must be square with at least one key", rows,
          columns);
  require(targets.shape[0] == rows, "targets have shape ({},{}) but gram ({},{}): the first dimensions must match",
          targets.shape[0], targets.shape[1], rows, columns);
  require(options.C > 0 && std::isfinite(options.C), "C is {}: it must be positive and finite", options.C);
  require(options.epsilon >= 0 && std::isfinite(options.epsilon),
          "epsilon is {}: it must be zero or positive, and finite", options.epsilon);
  require(options.gap_tolerance > 0 && options.kkt_tolerance > 0,
          "gap_tolerance is {} and kkt_tolerance {}: both must be positive", options.gap_tolerance,
          options.kkt_tolerance);
  require(options.max_iterations > 0, "max_iterations is {}: it must be positive", options.max_iterations);
}

struct Outcome {
  svr::Candidate best;
  int iterations = 0;
};

// Active set rounds finish every solve; ascent and interior point method are there to find a set to start them from.
Outcome solve_channel(const svr::Problem& problem) {
  const SvrOptions& options = problem.options;
  const auto& G = problem.gram.G;
  const VectorXd zero = VectorXd::Zero(problem.size());
  Outcome out;
  out.best = svr::certify(problem, zero, options.bias ? svr::midpoint_bias(problem, zero, zero) : 0.0, zero);
  if (out.best.merit <= svr::beyond_doubt) return out;
  // With a low rank the interior point method is cheaper than the ascent.
  if (!problem.gram.low_rank) {
    const svr::Guess guess = svr::ascend(problem);
    if (guess.good && svr::refine_active_set(problem, guess.states, guess.beta, guess.b, out.iterations, out.best)) {
      return out;
    }
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
    moving = moving && out.best.merit > svr::beyond_doubt && gap > 1e-14 && gap < (gap < 1e-8 ? 1 : 100) * smallest_gap;
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
  info.message = outcome.iterations >= options.max_iterations
                     ? fmt::format("not converged after max_iterations = {}: allow more", options.max_iterations)
                     : fmt::format(
                           "rounding stopped progress after {} iterations, gap {:.1e}, KKT residual {:.1e}: a "
                           "smaller C or a better conditioned Gram matrix would help",
                           outcome.iterations, std::abs(best.primal - best.dual), best.kkt);
}

}  // namespace

const char* to_string(SvrStatus status) {
  switch (status) {
    case SvrStatus::converged: return "converged";
    case SvrStatus::iteration_limit: return "iteration limit";
    case SvrStatus::not_positive_semidefinite: return "not positive semidefinite";
    case SvrStatus::not_finite: return "not finite";
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
