// What a forward pass of a model costs.
#pragma once

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// Multiply-adds of one sample: linear layers, attention as primal::layer_cost counts it, embeddings by products. N is
// the length of token sequences; other models know theirs.
SADDLE_TORCH_API double multiply_adds(const Model& model, int64_t N = 0);

}  // namespace saddle::nn
