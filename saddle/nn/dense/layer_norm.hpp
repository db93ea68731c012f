// Layer normalisation over the last dimension on CPUs, with gradients. Statistics are float32; the result may be
// bfloat16 while the residual stream that it is taken of stays float32.
#pragma once

#include <torch/types.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  c10::optional<torch::ScalarType> dtype;  // of the result; by default bfloat16 under autocast to it, else as x
};

// x [...,C], gamma and beta [C] or undefined -> [...,C]. float64 and other devices go to torch.
SADDLE_TORCH_API torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& gamma, const torch::Tensor& beta,
                                          const LayerNormOptions& options = {});

// The norm of x and x itself, for those who go on with both: their two gradients are summed on the way.
struct NormedStream {
  torch::Tensor normed, stream;
};
SADDLE_TORCH_API NormedStream layer_norm_beside(const torch::Tensor& x, const torch::Tensor& gamma,
                                                const torch::Tensor& beta, const LayerNormOptions& options = {});

}  // namespace saddle::nn
