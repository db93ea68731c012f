// Dropout of elements on CPUs, with gradients, from a counter-based stream: nothing is kept but a seed, and the bits
// do not depend on the number of threads.
#pragma once

#include <torch/types.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

// residual + dropout(x), the residual may be undefined; the seed comes from torch's default generator. The scale is
// exactly one over the share kept: p counts in steps of 1/65536. p = 0 costs nothing.
SADDLE_TORCH_API torch::Tensor dropout(const torch::Tensor& x, double p, const torch::Tensor& residual = {});

// A seed for a counter-based stream out of torch's default generator.
SADDLE_TORCH_API std::uint64_t next_seed();

}  // namespace saddle::nn
