// What goes over rows or parameters once: the pullback of gelu, layer normalisation, dropout, steps of Adam. Sums
// over rows are taken in an order that depends on the shape alone.
#pragma once

#include <span>

#include "saddle/base/export.hpp"
#include "saddle/kernels/dense/core.hpp"

namespace saddle::kernels::dense {

// dpre [M,columns] = dy slope, what a gelu kept, and sums [columns] (or null) = its columns. T is float or BFloat16.
template <class T>
SADDLE_API void gelu_backward(Rows<const T> dy, Rows<const T> slope, Rows<T> dpre, Index M, Index columns, float* sums);

// M rows; X and Y are float or BFloat16.
template <class X, class Y>
SADDLE_API void layer_norm(const LayerNorm<X, Y>& norm, Index M);
// dgamma, dbeta [C]
template <class X, class Y>
SADDLE_API void layer_norm_backward(const LayerNormBackward<X, Y>& norm, Index M, float* dgamma, float* dbeta);

// `count` elements; T is float or BFloat16.
template <class T>
SADDLE_API void dropout(const Dropout<T>& drop, Index count);

// The parameters of one tensor with their gradients and moments; T is float or double.
template <class T>
struct AdamSlice {
  AdamRule rule;
  T* p = nullptr;
  const T* g = nullptr;
  T *m = nullptr, *v = nullptr;
  Index count = 0;
};
// One loop over all tensors.
template <class T>
SADDLE_API void adam_step(std::span<const AdamSlice<T>> slices);

}  // namespace saddle::kernels::dense
