// Sums and lengths that bfloat16 is too coarse for.
#pragma once

#include <torch/types.h>

namespace saddle::nn {

// bfloat16 as float; everything else as it is.
inline torch::Tensor widened(const torch::Tensor& x) {
  return x.scalar_type() == torch::kBFloat16 ? x.to(torch::kFloat32) : x;
}

}  // namespace saddle::nn
