// The part of the certificate that compares primal and dual form.
#pragma once

#include <cmath>

#include "saddle/primal/certificate.hpp"

namespace saddle::primal {

// std::max, except that a NaN stays.
inline double worse(double x, double y) { return std::isnan(x) || x > y ? x : y; }

double largest(const auto& values) {
  double top = 0;
  for (double value : values) top = worse(top, std::fabs(value));
  return top;
}

// W Phi(q)/h(q) with W = sum_j v_j Phi(k_j)^T, against the attention itself: fills features, taylor_order, truncation
// and primal_dual.
void compare_forms(const Call& call, const TrainingSet& set, Certificate& certificate);

}  // namespace saddle::primal
