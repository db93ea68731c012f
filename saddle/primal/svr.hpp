// Multi-output epsilon support vector regression on a given Gram matrix: the regression that attention solves.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::primal {

struct SvrOptions {
  double C = 1.0;
  double epsilon = 0.1;
  bool bias = false;
  double gap_tolerance = 1e-8;  // |P - D| <= gap_tolerance (1 + |P|)
  double kkt_tolerance = 1e-8;  // residual <= kkt_tolerance (1 + C)
  int max_iterations = 200;     // linear systems solved per channel
  int threads = 0;              // 0: all cores
};

enum class SvrStatus {
  converged,
  iteration_limit,            // the best point found is returned, gap and residual tell how good it is
  not_positive_semidefinite,  // the Gram matrix has a negative eigenvalue: no feature map exists, the dual is not
                              // convex
  not_finite                  // NaN or infinity in the Gram matrix or the targets
};
SADDLE_API const char* to_string(SvrStatus status);

// What is known about one output channel d after solving it.
struct SvrChannel {
  SvrStatus status = SvrStatus::converged;
  std::string message;  // one sentence when not converged
  int iterations = 0;
  int support_vectors = 0;  // keys with a non-zero multiplier
  double primal = 0;        // P
  double dual = 0;          // D
  double kkt = 0;           // largest KKT residual
};

struct SvrSolution {
  Matrix beta;            // [M,E] net multipliers a - a~
  Matrix alpha, alpha_t;  // [M,E] a = max(beta,0), a~ = max(-beta,0)
  Matrix xi, xi_t;        // [M,E] slacks
  Matrix f;               // [M,E] fitted values G beta + b at the keys
  Vector b;               // [E]
  std::vector<SvrChannel> channels;

  SADDLE_API bool converged() const;  // all channels
};

// gram [M,M] is G, targets [M,E] is y. Channels are independent and share all work on G.
SADDLE_API SvrSolution solve_svr(MatrixView gram, MatrixView targets, const SvrOptions& options);

}  // namespace saddle::primal
