// Partial correlations given many sets: covariances left over after conditioning, one level per conditioned variable.
#pragma once

#include "saddle/analysis/causal_discovery/independence.hpp"

namespace saddle::analysis::causal_discovery {

// Tests x against y given sets of exactly `size` variables out of `pool`; i is a position in the pool. A level is the
// Schur complement of the Cholesky factorisation of the variables conditioned so far, kept for all sets that begin with
// them; the last member then costs a few operations.
class SADDLE_API Residuals {
 public:
  Residuals(const FisherZ& test, Index x, Index y, Nodes pool, Index size);

  // Member `depth` of the set is pool[i], after those of lower depth; members further on lie behind it in the pool.
  void condition(Index depth, Index i);
  double p_value() { return test_.p_value(x_, y_, {}); }  // given nothing
  double p_value(Index depth, Index i);                   // given the members below `depth` and pool[i]

 private:
  struct Level {
    double xx = 1, yy = 1, xy = 0;
    Nodes set;                      // positions in the pool
    std::vector<double> x, y, own;  // covariances of the pool with x, y and itself
    Matrix pool;                    // among the pool, where a further level needs them
    bool degenerate = false;        // a variance is nearly used up: the inverse decides
  };

  const FisherZ& test_;
  Index x_, y_;
  Nodes pool_, given_;
  Index size_;
  std::vector<Level> levels_;
};

}  // namespace saddle::analysis::causal_discovery
