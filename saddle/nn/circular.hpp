// Products with circulant and causal Toeplitz matrices as functions of torch, with their gradients.
#pragma once

#include <torch/types.h>

#include "saddle/kernels/circular/circular.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

using torch::Tensor;

// w [B,H,N] or, one kernel per channel, [B,H,N,D]; v [B,H,N,D]; lengths [B] of int64, on the CPU -> [B,H,N,D], laid out
// as [B,N,H,D]. float or double. As plain operations, the circulant matrices are written out.
Tensor circular_product(const Tensor& w, const Tensor& v, const Tensor& lengths,
                        kernels::circular::Direction direction);

// scores z [B,H,N], v [B,H,N,D] -> [B,H,N,D]: row i weighs v_{i-d} by the softmax of z_0 .. z_i.
Tensor causal_product(const Tensor& z, const Tensor& v, const Tensor& lengths);

// What these products multiply v by, [B,H,N,N], 0 where one of two tokens does not exist. Of one kernel per channel it
// is the mean over the channels of a head.
Tensor circular_weights(const Tensor& w, const Tensor& lengths, kernels::circular::Direction direction);
Tensor causal_weights(const Tensor& z, const Tensor& lengths);

// Lengths [B] of int64 from a mask [B,N] whose sequences are padded at the end; undefined: N each. Throws
// InvalidArgument for any other mask. As plain operations, which do not look at numbers, any mask is taken for such a
// one, and without a mask the lengths are undefined.
Tensor prefix_lengths(const Tensor& key_mask, int64_t B, int64_t N);

}  // namespace saddle::nn
