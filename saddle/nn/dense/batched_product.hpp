// Many small matrix products at once, with gradients: in float on CPUs by the kernels of linear layers, else by torch.
#pragma once

#include <torch/types.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

// a [..,M,K], b [..,K,N], leading sizes alike (or as torch::matmul takes them, in torch) -> [..,M,N]. Never in bfloat16
// by autocast. Transposed and permuted views are read as they lie, if rows or columns of their matrices do.
SADDLE_TORCH_API torch::Tensor batched_product(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace saddle::nn
