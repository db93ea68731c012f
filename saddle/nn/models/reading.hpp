// Which tokens of a model count, for whoever looks at what it does.
#pragma once

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// The model answers from its first token, not from the average of all.
SADDLE_TORCH_API bool reads_first_token(const Model& model);
// Or from the last one that exists.
SADDLE_TORCH_API bool reads_last_token(const Model& model);

// How many of N tokens its blocks attend to in each sample, [B] of int64: all where no mask reaches the blocks.
SADDLE_TORCH_API Tensor attended_lengths(const Model& model, const Batch& batch, int64_t N);

}  // namespace saddle::nn
