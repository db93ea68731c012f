// The bridge between attention and regression, both ways.
#pragma once

#include <string>
#include <vector>

#include "saddle/base/export.hpp"
#include "saddle/primal/fit.hpp"

namespace saddle::primal {

// From a layer to its regression: beta_j = h_j v_j are the net multipliers of the regression with targets
// y = G beta + eps sign(beta); the layer is its optimum. From targets to a layer: the regression is solved and
// v_j = beta_j/h_j put back into the attention.
//
// The regression of (G, beta, C, eps) is that of (G/g, beta g/s, C g/s, eps/s) with all values divided by s, so numbers
// are judged for a Gram matrix and a fit of size one; C, epsilon and the objectives are in the units of the data.
struct Certificate {
  TrainingSet set;
  double C = 0, epsilon = 0;
  // layer -> regression
  double primal = 0, dual = 0, gap = 0;  // objectives summed over channels, |P - D|/(1 + |P|) worst over channels
  double kkt = 0;                        // worst residual over channels / (1 + C)
  double resolved = 0;                   // |f - f*|/(1 + |f|) at the keys after solving that regression from scratch
  // regression -> layer
  double fit = 0;  // |attention with v = beta*/h - (f* - b)| at the keys, for seeded targets, / (1 + |f*|)
  double solve_gap = 0, solve_kkt = 0;
  Index support_vectors = 0, multipliers = 0;
  bool converged = false;  // both solves
  // primal form against dual form at the query
  Index features = 0;      // F, or the number of Taylor features used
  int taylor_order = -1;   // >= 0 when Phi is infinite and was truncated there
  double truncation = 0;   // largest relative error of the truncated kernel on the data; NaN when it overflows there
  double primal_dual = 0;  // |W Phi(q)/h(q) - y| / (1 + |y|) with y = sum_j A_j v_j
  std::vector<std::string> notes;

  // A truncated Taylor map that is too coarse says nothing about the forms.
  SADDLE_API bool compares_forms() const;
  // Both solves converged, gap and residuals are within 1e-8, fits within 1e-6, forms within 1e-8 plus the truncation
  // error. A NaN among them fails.
  SADDLE_API bool holds() const;
};
// Throws InvalidArgument when no query has a regression: it sees no key, h is unusable, or its Gram matrix is zero.
SADDLE_API Certificate certify(const Call& call, std::uint64_t seed = 0);

}  // namespace saddle::primal
