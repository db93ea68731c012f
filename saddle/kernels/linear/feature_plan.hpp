// A finite feature map Phi: R^D -> R^F prepared for vectors of features, in the type the kernel computes in.
#pragma once

#include <vector>

#include "saddle/kernels/linear/buffer.hpp"
#include "saddle/primal/kernel.hpp"

namespace saddle::kernels::linear_kernel {

template <class T>
struct FeaturePlan {
  enum class Kind { identity, elu1, relu, monomial, random };

  // For a kernel with finite Phi.
  FeaturePlan(const primal::Kernel& kernel, Index D);

  Kind kind = Kind::identity;
  Index D = 0, F = 0;
  T input_scale = 1;  // monomial, random: applied to x first

  // monomial: the plain monomials r, degree by degree: 1, the x_d, and then runs. Those of degree t that start with
  // variable d are x_d times the last ones of degree t-1, from the first that starts with d on, in the same order:
  // r[to + i] = x[variable] r[from + i]. Phi_f = weight_f r[first + f].
  struct Run {
    Index to, from, count, variable;
  };
  std::vector<Run> runs;
  std::size_t top_runs = 0;  // the runs from here on are of the highest degree
  Index monomials = 0;       // all of them
  Index lower = 0;           // before the first of top_runs
  Index first = 0;
  Buffer<T> weights;  // [line + padded(F) + line], 0 outside F: vectors may reach over both ends
  const T* weight() const { return weights.data() + padded<T>(1); }

  // random: Phi_r = exp(<w_r, s x> - |s x|^2/2 + offset), s = input_scale
  Buffer<T> columns;  // s w_r as columns [D, padded(F)]
  Buffer<T> rows;     // s w_r as rows [F, padded(D)]
  T offset = 0;       // -log(F)/2
};

extern template struct FeaturePlan<float>;
extern template struct FeaturePlan<double>;

// Bytes of a plan at most.
double plan_memory(const primal::Kernel& kernel, Index D, std::size_t element);

}  // namespace saddle::kernels::linear_kernel
