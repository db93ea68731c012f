// Every declared attention out of plain torch operations: any device, any number of derivatives, N x M memory. The
// check of the kernels that shares no code with them.
#pragma once

#include "saddle/nn/attention.hpp"

namespace saddle::nn {

// As attention(); weights, lse and column sums carry gradients here.
SADDLE_TORCH_API AttentionOutputs composed_attention(const primal::Attention& value, const AttentionInputs& inputs,
                                                     const Wanted& wanted = {});

}  // namespace saddle::nn
