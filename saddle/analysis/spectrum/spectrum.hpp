// How much of an attention matrix a few directions hold: singular values of attention weights, or of the kernel of
// Primal-Attention, per layer.
#pragma once

#include "saddle/analysis/registry.hpp"

namespace saddle::analysis::spectrum {

// Of one matrix [n,m].
struct Measures {
  std::vector<double> values;  // singular values, falling
  double explained_90 = 0;     // how many of them hold 90 % of the sum of squares
  double effective_rank = 0;   // exp of the entropy of their shares
};
SADDLE_API Measures measure(const Array<double, 2>& matrix);
// Of singular values, the largest first.
SADDLE_API Measures measure(std::vector<double> values);

SADDLE_API const Analysis& analysis();

}  // namespace saddle::analysis::spectrum
