// The shape of a model, read from files that describe models.
#pragma once

#include <string>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::depth_width {

// What a description of a model says about its shape; 0 where it says nothing.
struct ModelShape {
  std::string model;
  Index depth = 0, width = 0, heads = 0;
  Index hidden = 0;           // width inside the feed-forward networks, 0: 4 width
  Index key_value_heads = 0;  // 0: as many as heads
  bool gated = false;         // three matrices in a feed-forward network instead of two
  Index vocabulary = 0, positions = 0;
  bool decoder_only = true;

  // Weight matrices of all layers as they are: attention and feed-forward,
  // without biases.
  SADDLE_API double layer_params() const;
};

// From a saddle file (settings in TOML; settings, results or a model's
// description in JSON) or a Hugging Face config.json. `file` names it in
// errors: DataError where it is no such file or does not tell depth and width.
SADDLE_API ModelShape parse_model_shape(const std::string& text, const std::string& file);

}  // namespace saddle::analysis::depth_width
