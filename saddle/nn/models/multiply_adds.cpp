#include "saddle/nn/models/multiply_adds.hpp"

#include "saddle/nn/models/event_model.hpp"
#include "saddle/nn/models/language_model.hpp"
#include "saddle/nn/models/npt.hpp"
#include "saddle/nn/models/sequence_classifier.hpp"
#include "saddle/nn/models/spiking_vit.hpp"
#include "saddle/nn/models/time_series.hpp"
#include "saddle/nn/models/vision_language.hpp"
#include "saddle/nn/models/vision_transformer.hpp"

namespace saddle::nn {

namespace {

double linear_cost(const torch::nn::Linear& layer, int64_t rows) {
  return layer.is_empty() ? 0.0 : static_cast<double>(rows) * static_cast<double>(layer->weight.numel());
}

// N tokens through all blocks.
double blocks_cost(const Model& model, int64_t N) {
  double sum = 0;
  Encoder blocks = model.blocks;
  for (std::size_t layer = 0; layer < blocks->size(); ++layer) {
    EncoderBlock& block = (*blocks)[layer];
    sum += block->attn->multiply_adds(N) + linear_cost(block->mlp->fc1, N) + linear_cost(block->mlp->fc2, N);
  }
  return sum;
}

}  // namespace

double multiply_adds(const Model& model, int64_t N) {
  if (const auto* series = dynamic_cast<const TimeSeriesTransformerImpl*>(&model)) {
    N = series->options.max_len();
    return linear_cost(series->project_inp, N) + blocks_cost(model, N) + linear_cost(model.head, 1);
  }
  if (const auto* vision = dynamic_cast<const VisionTransformerImpl*>(&model)) {
    const auto& options = vision->options;
    const int64_t patches =
        (options.image().rows / options.patch().rows) * (options.image().columns / options.patch().columns);
    const double pixels = static_cast<double>(options.image().rows * options.image().columns * options.channels());
    return pixels * static_cast<double>(options.width()) + blocks_cost(model, patches + vision->prefix()) +
           linear_cost(model.head, 1) + linear_cost(vision->head_dist, 1);
  }
  if (const auto* both = dynamic_cast<const VisionLanguageImpl*>(&model)) return both->multiply_adds();
  if (const auto* spiking = dynamic_cast<const SpikingVitImpl*>(&model)) return spiking->multiply_adds();
  if (const auto* sequence = dynamic_cast<const SequenceClassifierImpl*>(&model)) {
    if (N == 0) N = sequence->options.max_len();
    return (sequence->options.pairs() ? 2 : 1) * blocks_cost(model, N) + linear_cost(sequence->head_hidden, 1) +
           linear_cost(model.head, 1);
  }
  if (const auto* events = dynamic_cast<const EventModelImpl*>(&model)) {
    if (N == 0) N = events->options.max_len();
    double sum = events->time->multiply_adds(N) + linear_cost(model.head, 1);
    for (const EventBlock& block : events->event_blocks) sum += block->multiply_adds(N);
    return sum;
  }
  if (const auto* npt = dynamic_cast<const NptImpl*>(&model)) return npt->multiply_adds(N);
  const auto& language = dynamic_cast<const LanguageModelImpl&>(model);
  if (N == 0) N = language.options.max_len();
  return blocks_cost(model, N) +
         static_cast<double>(N) * static_cast<double>(language.options.vocab() * language.options.width());
}

}  // namespace saddle::nn
