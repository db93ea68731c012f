// Batches of a loader as tensors, and what is done to them before a model sees them.
#pragma once

#include "saddle/base/random.hpp"
#include "saddle/data/loader.hpp"
#include "saddle/nn/models/model.hpp"

namespace saddle::train {

using torch::Tensor;

struct LabelledBatch {
  nn::Batch inputs;
  Tensor labels;     // [B]
  Tensor partners;   // [B], labels of the samples mixed in; undefined: none
  double share = 1;  // of the samples themselves in a mixture
  Index size() const { return labels.size(0); }
};

// Shares memory with `batch` where it can. Token sequences are padded to `positions`, if that is longer.
LabelledBatch to_tensors(data::Batch& batch, const data::Description& data, Index positions);

// Samples first .. first + size.
LabelledBatch slice(const LabelledBatch& batch, Index first, Index size);

// Every sample becomes share x + (1 - share) x', x' another one of the batch, share ~ Beta(alpha, alpha). Series and
// images.
void mix(LabelledBatch& batch, double alpha, Stream stream);

// Sum over the samples of the cross entropy with smoothed labels.
Tensor loss_sum(const Tensor& logits, const LabelledBatch& batch, double label_smoothing);

}  // namespace saddle::train
