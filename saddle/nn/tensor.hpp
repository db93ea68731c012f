// Torch tensors as views of this library, and one number of threads for both.
#pragma once

#include <torch/types.h>

#include "saddle/base/tensor.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

// The same memory; an undefined tensor gives an empty view. Throws InvalidArgument for dtypes that saddle does not
// know.
SADDLE_TORCH_API TensorView view_of(const torch::Tensor& tensor);
// The dtype of saddle for a dtype of torch, and back.
SADDLE_TORCH_API DType dtype_of(torch::ScalarType type);
SADDLE_TORCH_API torch::ScalarType scalar_type(DType dtype);

// Loops of this library use as many threads as ATen does from now on.
SADDLE_TORCH_API void follow_torch_threads();

}  // namespace saddle::nn
