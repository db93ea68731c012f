// Is the row computed correctly? Compared with the double reference before anything is timed.
#pragma once

#include <string>

#include "problem.hpp"

namespace saddle::bench {

struct Check {
  bool passed = true;
  double error = 0;  // largest difference relative to the largest value, over all tensors that were compared
  double tolerance = 0;
  std::string what;  // what was compared, in words
};

// Runs the problem once. Small shapes are compared whole. For large ones, a shape cut down to a few hundred tokens is
// compared whole, with the same implementations, and single rows of y and dq at the full size.
Check check(const Problem& problem);

// What is accepted: rounding of the element type, with room for sums in another order.
double tolerance(DType dtype);

// Values that a peer computed for y, dense [B,H,N,E], against the outputs of the problem: the error as above.
double output_error(const Problem& problem, const float* values);

}  // namespace saddle::bench
