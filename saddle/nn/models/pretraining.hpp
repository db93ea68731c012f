// What models of images with text are pre-trained by: words that are masked, texts that belong to other images, and
// visual features that are masked in groups.
#pragma once

#include <torch/types.h>

#include "saddle/nn/export.hpp"

namespace saddle::nn {

using torch::Tensor;

// All draws come from torch's generator.

struct MaskedWords {
  Tensor tokens;  // [B,T], as the model sees them
  Tensor chosen;  // [B,T], true where the word is to be told
};
// Of the words of tokens [B,T] that exist [B,T] (undefined: all), a share is chosen, each by itself: of these 80 %
// become mask_token, 10 % any word from 1 to words - 1, 10 % stay.
SADDLE_TORCH_API MaskedWords mask_words(const Tensor& tokens, const Tensor& exist, double share, int64_t words,
                                        int64_t mask_token);
// Cross entropy of logits [B,T,words] with tokens [B,T], averaged over the chosen [B,T]; 0 if there are none.
SADDLE_TORCH_API Tensor masked_word_loss(const Tensor& logits, const Tensor& tokens, const Tensor& chosen);

struct Matches {
  Tensor texts;  // [B], which sample's text each image gets
  Tensor match;  // [B], true where it is its own
};
// With probability 1/2 an image gets the text of another one of the batch; a single image keeps its own.
SADDLE_TORCH_API Matches draw_matches(int64_t B);

// Where masks of features begin, [B,V]: at one token of each sample for V up to 16, else at tokens so many that about
// 15 % are masked when each takes `top` others with it.
SADDLE_TORCH_API Tensor pick_features(int64_t B, int64_t V, int64_t top);
// weights [B,H,V,V], picked [B,V] -> [B,V]: the picked tokens, and of each the `top` others that it attends to most in
// the mean over the heads, the first of equals.
SADDLE_TORCH_API Tensor feature_mask(const Tensor& weights, const Tensor& picked, int64_t top);
// Mean over masked tokens [B,V] of the mean squared difference between prediction and feature [B,V,X], which gets no
// gradient; 0 without any.
SADDLE_TORCH_API Tensor masked_feature_loss(const Tensor& prediction, const Tensor& feature, const Tensor& mask);

}  // namespace saddle::nn
