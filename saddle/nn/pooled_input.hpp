// Tokens averaged over the windows of Attention-SH before they are projected.
#pragma once

#include <torch/types.h>

#include <vector>

#include "saddle/primal/pooling.hpp"

namespace saddle::nn {

// Heads that share a pooling factor.
struct HeadGroup {
  Index factor = 1;
  std::vector<int64_t> heads;
};
std::vector<HeadGroup> head_groups(const primal::Pooling& pooling, Index H);

struct PooledInput {
  torch::Tensor tokens;    // [B,K,X]
  torch::Tensor key_mask;  // [B,K], undefined without one coming in
};
// x [B,M,X], key_mask [B,M] or undefined: means over the tokens of each window that exist, 0 for a window without any.
PooledInput pool_input(const primal::Pooling& pooling, Index factor, const torch::Tensor& x,
                       const torch::Tensor& key_mask);

}  // namespace saddle::nn
