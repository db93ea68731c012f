// Linear layers y = x W^T + b on CPUs, with gradients. In float32, or in bfloat16 with float32 sums, weights and
// weight gradients: when autocast to bfloat16 is on, or when x is bfloat16. Other types and devices go to torch.
#pragma once

#include <torch/types.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

using torch::Tensor;

struct LinearOptions {
  Tensor residual;                         // [...,O], added to the result
  c10::optional<torch::ScalarType> dtype;  // of the result; by default bfloat16 or float32 as the product
};

// x [...,I], weight [O,I], bias [O] or undefined -> [...,O]
SADDLE_TORCH_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const LinearOptions& options = {});

// gelu(linear(x)) with the exact gelu, x Phi(x). What the gelu saw is kept for the gradient, if there is to be one.
SADDLE_TORCH_API Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace saddle::nn
