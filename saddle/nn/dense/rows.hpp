// Tensors as rows for the dense kernels.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include "saddle/base/dtype.hpp"
#include "saddle/kernels/stages/score_problem.hpp"

namespace saddle::nn {

// The same elements as [M,columns] with unit column stride; a copy only if the strides do not allow a view.
inline torch::Tensor as_rows(const torch::Tensor& x) {
  const torch::Tensor rows = x.reshape({-1, x.size(-1)});
  return rows.stride(1) == 1 || rows.size(1) <= 1 ? rows : rows.contiguous();
}

template <class T>
kernels::Rows<T> rows_of(const torch::Tensor& x) {
  return x.defined() ? kernels::Rows<T>{static_cast<T*>(x.data_ptr()), x.stride(0)} : kernels::Rows<T>{};
}

// Functions of autograd take no undefined tensors.
inline c10::optional<torch::Tensor> present(const torch::Tensor& x) {
  return x.defined() ? c10::optional<torch::Tensor>(x) : c10::nullopt;
}

// Null if undefined.
inline float* floats_of(const torch::Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; }

inline bool autocast_to_bf16() {
  return at::autocast::is_cpu_enabled() && at::autocast::get_autocast_cpu_dtype() == torch::kBFloat16;
}

}  // namespace saddle::nn
