// Observations in strata, one level per conditioned variable, so that sets with a common beginning share the work.
#pragma once

#include "saddle/analysis/causal_discovery/independence.hpp"

namespace saddle::analysis::causal_discovery {

// Tests x against y given sets of up to `size` variables out of `pool`; i is a position in the pool.
class Strata {
 public:
  Strata(const ChiSquare& test, Index x, Index y, Nodes pool, Index size);

  // Member `depth` of the set is pool[i], after those of lower depth.
  void condition(Index depth, Index i);
  double p_value();                      // given nothing
  double p_value(Index depth, Index i);  // given the members below `depth` and pool[i]

 private:
  struct Level {
    std::vector<std::int32_t> codes;  // of each observation: the configuration it is in
    std::int64_t count = 0;           // of configurations
  };
  void refine(const Level& level, Index variable, Level& into);
  double tail(std::int64_t strata);

  const ChiSquare& test_;
  Nodes pool_;
  std::int32_t rows_, columns_;      // categories of x and y
  std::vector<std::int32_t> cells_;  // of each observation: its place in the table of x and y
  std::vector<Level> levels_;
  Level last_;
  std::vector<std::int32_t> numbers_, counts_, row_sums_, column_sums_;
};

}  // namespace saddle::analysis::causal_discovery
