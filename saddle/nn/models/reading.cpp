#include "saddle/nn/models/reading.hpp"

#include "saddle/nn/models/event_model.hpp"
#include "saddle/nn/models/time_series.hpp"
#include "saddle/nn/models/vision_language.hpp"
#include "saddle/nn/models/vision_transformer.hpp"

namespace saddle::nn {

bool reads_first_token(const Model& model) {
  if (const auto* vision = dynamic_cast<const VisionTransformerImpl*>(&model))
    return vision->options.pooling() == "token";
  return dynamic_cast<const VisionLanguageImpl*>(&model) != nullptr;
}

bool reads_last_token(const Model& model) { return dynamic_cast<const EventModelImpl*>(&model) != nullptr; }

Tensor attended_lengths(const Model& model, const Batch& batch, int64_t N) {
  const auto* series = dynamic_cast<const TimeSeriesTransformerImpl*>(&model);
  const bool hidden = series == nullptr || series->options.mask_keys();
  if (!hidden || !batch.mask.defined() || batch.mask.size(1) != N)
    return torch::full({batch.inputs.size(0)}, N, torch::kInt64);
  return batch.mask.sum(1).clamp_min(1);
}

}  // namespace saddle::nn
