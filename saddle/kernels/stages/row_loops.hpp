// Loops over the columns of rows. The pragmas let sums run in several lanes, in an order that depends on n alone.
#pragma once

#include "saddle/base/view.hpp"

namespace saddle::kernels::stages {

// y += a x
template <class T>
void add_scaled(T* __restrict y, T a, const T* __restrict x, Index n) {
#pragma omp simd
  for (Index d = 0; d < n; ++d) y[d] += a * x[d];
}

// <x,y>
template <class T>
T dot(const T* x, const T* y, Index n) {
  T sum{};
#pragma omp simd reduction(+ : sum)
  for (Index d = 0; d < n; ++d) sum += x[d] * y[d];
  return sum;
}

// <x - shift,y>
template <class T>
T shifted_dot(const T* x, const T* shift, const T* y, Index n) {
  T sum{};
#pragma omp simd reduction(+ : sum)
  for (Index d = 0; d < n; ++d) sum += (x[d] - shift[d]) * y[d];
  return sum;
}

// |x|^2 in double
template <class T>
double squared_norm(const T* x, Index n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index d = 0; d < n; ++d) sum += static_cast<double>(x[d]) * static_cast<double>(x[d]);
  return sum;
}

}  // namespace saddle::kernels::stages
