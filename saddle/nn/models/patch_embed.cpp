#include "saddle/nn/models/patch_embed.hpp"

#include <fmt/format.h>

#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

PatchEmbedImpl::PatchEmbedImpl(const PatchEmbedOptions& given) : options(given) { reset(); }

void PatchEmbedImpl::reset() {
  const PixelSize image = options.image(), patch = options.patch();
  require_positive("PatchEmbed", {{"channels", options.channels()},
                                  {"rows of a patch", patch.rows},
                                  {"columns of a patch", patch.columns},
                                  {"rows of the image", image.rows},
                                  {"columns of the image", image.columns}});
  if (image.rows % patch.rows != 0 || image.columns % patch.columns != 0)
    throw InvalidArgument(fmt::format("[PatchEmbed] an image of {}x{} cannot be cut into patches of {}x{}", image.rows,
                                      image.columns, patch.rows, patch.columns));
  const auto convolution = torch::nn::Conv2dOptions(options.channels(), options.width(), {patch.rows, patch.columns})
                               .stride({patch.rows, patch.columns});
  proj = register_module("proj", torch::nn::Conv2d(convolution));
}

void PatchEmbedImpl::pretty_print(std::ostream& stream) const {
  stream << "saddle::nn::PatchEmbed(" << options.image().rows << "x" << options.image().columns << ", "
         << options.patch().rows << "x" << options.patch().columns << ")";
}

Tensor PatchEmbedImpl::forward(const Tensor& images) {
  const PixelSize image = options.image(), patch = options.patch();
  if (!images.defined() || images.dim() != 4 || images.size(1) != options.channels() || images.size(2) != image.rows ||
      images.size(3) != image.columns)
    throw InvalidArgument(fmt::format("[PatchEmbed] images have shape {}: (B,{},{},{}) is expected", shape_text(images),
                                      options.channels(), image.rows, image.columns));
  const Tensor patches = images.unflatten(3, {-1, patch.columns})
                             .unflatten(2, {-1, patch.rows})
                             .permute({0, 2, 4, 1, 3, 5})
                             .flatten(3)
                             .flatten(1, 2);  // [B,tokens,C patch]
  LinearOptions out;
  out.dtype = proj->weight.scalar_type();
  return nn::linear(patches, proj->weight.flatten(1), proj->bias, out);
}

}  // namespace saddle::nn
