// Weights that are float for the optimiser and bfloat16 for products: rounded and packed once, until they change.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "saddle/kernels/dense/product.hpp"
#include "saddle/nn/export.hpp"

namespace saddle::nn {

struct PackedWeightCounts {
  std::int64_t hits = 0, packs = 0;     // since the process started
  std::int64_t entries = 0, bytes = 0;  // held now
};
SADDLE_TORCH_API PackedWeightCounts packed_weight_counts();

// Forgets all. A weight that has changed, counted by torch or not, is packed again by itself.
SADDLE_TORCH_API void forget_packed_weights();

// weight [O,I], float32 with unit column stride. At most 1 GiB is held, and nothing of weights that no longer exist.
std::shared_ptr<const kernels::dense::PackedWeight<BFloat16>> packed_weight(const torch::Tensor& weight,
                                                                            kernels::dense::Side side);

}  // namespace saddle::nn
