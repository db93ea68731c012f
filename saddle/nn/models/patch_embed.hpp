// Images cut into patches, and each patch projected to a token: a convolution whose stride is its size.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include "saddle/nn/export.hpp"
#include "saddle/nn/models/options.hpp"

namespace saddle::nn {

using torch::Tensor;

struct SADDLE_TORCH_API PatchEmbedOptions {
  PatchEmbedOptions(PixelSize image, PixelSize patch, int64_t channels, int64_t width)
      : image_(image), patch_(patch), channels_(channels), width_(width) {}

  TORCH_ARG(PixelSize, image);
  TORCH_ARG(PixelSize, patch);
  TORCH_ARG(int64_t, channels);
  TORCH_ARG(int64_t, width);

 public:
  int64_t tokens() const { return image_.rows / patch_.rows * (image_.columns / patch_.columns); }
};

class SADDLE_TORCH_API PatchEmbedImpl : public torch::nn::Cloneable<PatchEmbedImpl> {
 public:
  explicit PatchEmbedImpl(const PatchEmbedOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // images [B,C,rows,columns] -> [B,tokens,X], patches row by row, in the type of the weights.
  Tensor forward(const Tensor& images);

  PatchEmbedOptions options;
  torch::nn::Conv2d proj{nullptr};
};

TORCH_MODULE(PatchEmbed);

}  // namespace saddle::nn
