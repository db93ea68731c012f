// Conditional-independence tests over variables 0..n-1: partial correlation with Fisher's z, chi-square, d-separation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "saddle/analysis/causal_discovery/graph.hpp"

namespace saddle::analysis::causal_discovery {

// With fewer samples the deviation of Fisher's z, 1 / sqrt(n - k - 3) given k variables, has no value even for k = 0.
inline constexpr Index fewest_samples = 4;

// What becomes of tests given n - 3 variables or more, for which that deviation has no value: they are left out, or as
// in the authors' code, where given n - 3 everything is independent and given more nothing is.
enum class LargeSets { left_out, published };

// Partial correlations of a correlation matrix [n,n], as if estimated from `samples` observations.
class SADDLE_API FisherZ {
 public:
  // Throws InvalidArgument for a matrix that is not square, not symmetric, has values that are not finite, or a
  // diagonal other than 1, and for fewer than 4 samples, or than 1 where large sets are as published.
  FisherZ(Matrix correlation, double samples, LargeSets large = LargeSets::left_out);

  Index size() const { return correlation_.shape()[0]; }
  const Matrix& correlation() const { return correlation_; }
  double samples() const { return samples_; }
  LargeSets large_sets() const { return large_; }
  // 0 where the partial correlation reaches 1, NaN where samples - |z| - 3 is negative.
  double p_value(Index x, Index y, std::span<const Index> z) const;
  // The same from a partial correlation given `conditions` variables.
  double p_value(double partial, Index conditions) const;

 private:
  Matrix correlation_;
  double samples_;
  LargeSets large_;
};

// Pearson's chi-square of x against y, summed over the configurations of z that occur. Rows and columns of a table
// without observations take no degree of freedom; without any degree of freedom the p-value is 1.
class SADDLE_API ChiSquare {
 public:
  // columns: the categories of each variable, numbered from 0, fewer than 4096, all of one length. Throws
  // InvalidArgument.
  explicit ChiSquare(std::vector<std::vector<std::int32_t>> columns);

  Index size() const { return static_cast<Index>(columns_.size()); }
  Index samples() const { return static_cast<Index>(columns_[0].size()); }
  const std::vector<std::int32_t>& column(Index variable) const { return columns_[static_cast<std::size_t>(variable)]; }
  std::int32_t categories(Index variable) const { return categories_[static_cast<std::size_t>(variable)]; }
  double p_value(Index x, Index y, std::span<const Index> z) const;

 private:
  std::vector<std::vector<std::int32_t>> columns_;
  std::vector<std::int32_t> categories_;
};

// Probability that a chi-square variable with `freedom` degrees of freedom exceeds `statistic`.
SADDLE_API double chi_square_tail(double statistic, double freedom);

// The oracle: p-value 1 if z and the selection nodes d-separate x and y in a directed acyclic graph, else 0.
class SADDLE_API DSeparation {
 public:
  // dag [m,m]: not 0 at (i,j) for i -> j. Variable v of the test is node observed[v]. Nodes that are neither observed
  // nor selection are hidden. Throws InvalidArgument, also if the graph has a cycle.
  DSeparation(const Array<std::uint8_t, 2>& dag, Nodes observed, Nodes selection = {});

  Index size() const { return static_cast<Index>(observed_.size()); }
  double p_value(Index x, Index y, std::span<const Index> z) const;

 private:
  std::vector<Nodes> parents_, children_;
  Nodes observed_, selection_;
};

using IndependenceTest = std::variant<FisherZ, ChiSquare, DSeparation>;

SADDLE_API Index size(const IndependenceTest& test);
// Throws InvalidArgument for variables that do not exist or appear twice.
SADDLE_API double p_value(const IndependenceTest& test, Index x, Index y, std::span<const Index> z);

}  // namespace saddle::analysis::causal_discovery
