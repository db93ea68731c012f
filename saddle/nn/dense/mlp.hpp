// Two linear layers with the exact gelu between them as one node of the graph: in its gradient the derivative of the
// gelu is applied to sums that have not left the cache.
#pragma once

#include "saddle/nn/dense/linear.hpp"

namespace saddle::nn {

struct MlpWeights {
  Tensor w1, b1;  // [F,I], [F] or undefined
  Tensor w2, b2;  // [O,F], [O] or undefined
};

// x [...,I] -> gelu(x w1^T + b1) w2^T + b2 [...,O]; `out` as in linear().
SADDLE_TORCH_API Tensor mlp(const Tensor& x, const MlpWeights& weights, const LinearOptions& out = {});

}  // namespace saddle::nn
