// Finite feature maps Phi: R^D -> R^F, prepared for one width D.
#pragma once

#include <memory>

#include "saddle/base/export.hpp"
#include "saddle/primal/kernel.hpp"

namespace saddle::primal {

// More than this many features cannot sensibly be written down.
inline constexpr Index most_features = Index{1} << 24;

class SADDLE_API FeatureMap {
 public:
  // Throws NotSupported when the kernel has infinitely many features, or more than most_features.
  FeatureMap(const Kernel& kernel, Index D);
  ~FeatureMap();
  FeatureMap(FeatureMap&&) noexcept;
  FeatureMap& operator=(FeatureMap&&) noexcept;

  Index width() const;  // D
  Index size() const;   // F

  // x [D] -> phi [F]
  void map(const double* x, double* phi) const;
  // dphi [F] -> dx [D] += J(x)^T dphi
  void pullback(const double* x, const double* dphi, double* dx) const;

  struct Table;

 private:
  std::unique_ptr<const Table> table_;
};

// w_r [count,D] of linear(random).
SADDLE_API Matrix random_directions(const Linear& kernel, Index D);

// Number of monomials of D variables up to the given degree, C(D+degree, degree), or the largest Index if that is more.
SADDLE_API Index monomial_count(Index D, Index degree);

// Exponent vectors of all monomials up to the given degree: degree ascending, within a degree in descending
// lexicographic order (D = 3, degree 2: 200, 110, 101, 020, 011, 002).
SADDLE_API std::vector<std::vector<int>> monomials(Index D, Index degree);

}  // namespace saddle::primal
