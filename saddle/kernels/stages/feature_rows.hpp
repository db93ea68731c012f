// Feature maps phi without a score form (elu1, relu, random) on rows of T, and their gradients.
#pragma once

#include <optional>

#include "saddle/kernels/stages/rows.hpp"
#include "saddle/primal/features.hpp"

namespace saddle::kernels::stages {

template <class T>
class FeatureRows {
 public:
  FeatureRows(const primal::Linear& kernel, Index D);

  Index F() const { return F_; }
  // elu1 and relu act on single numbers: phi may take the place of x, and the gradient needs phi alone.
  bool elementwise() const { return !map_; }

  // x [n,D] -> phi [n,F]; rows that do not exist become zero.
  void map(Rows<const T> x, Rows<T> phi, Index n, Kept keep) const;
  // dphi [n,F] -> dx [n,D], which may be the same memory if elementwise; then x is not read.
  void pullback(Rows<const T> x, Rows<const T> phi, Rows<const T> dphi, Rows<T> dx, Index n, Kept keep) const;

 private:
  primal::FeatureMapKind kind_;
  Index D_, F_;
  std::optional<primal::FeatureMap> map_;  // random
};

}  // namespace saddle::kernels::stages
