// The shape of a model, read from files that describe models.
#pragma once

#include <string>

#include "saddle/base/export.hpp"
#include "saddle/base/view.hpp"

namespace saddle::analysis::depth_width {

// What a description of a model says about its shape; 0 where it says nothing.
struct ModelShape {
  std::string model;
  std::string part;  // of the file that this is, where others stand beside it: "text_config of llava"
  Index depth = 0, width = 0, heads = 0;
  Index hidden = 0;           // width inside the feed-forward networks, 0: 4 width
  Index key_value_heads = 0;  // 0: as many as heads
  Index head_width = 0;       // 0: width / heads
  bool gated = false;         // three matrices in a feed-forward network instead of two
  Index vocabulary = 0, positions = 0;
  bool decoder_only = true;

  // A mixture of experts: in all but dense_layers a token passes through experts_used of so many feed-forward networks
  // of width expert_hidden, and through one of width shared_hidden. 0 experts: there is no such mixture.
  Index experts = 0, experts_used = 0, expert_hidden = 0, shared_hidden = 0, dense_layers = 0;
  // Of an encoder with a decoder; then depth is that of the encoder.
  Index decoder_depth = 0, decoder_hidden = 0;
  Index distinct_layers = 0;     // that have weights of their own, others share them; 0: all
  double attention_weights = 0;  // of a layer; 0: as heads and width tell
  std::string other_stack;       // what makes it neither a decoder nor an encoder alone; empty: nothing
  std::string uncounted;         // why the weights of its layers cannot be counted; empty: they can

  // Weight matrices of all layers as they are: attention, feed-forward and the choice of experts, without biases. NaN
  // where the file does not tell.
  SADDLE_API double layer_params() const;
  // Those that take part in what happens to one token.
  SADDLE_API double active_params() const;
};

// From a saddle file (settings in TOML; settings, results or a model's
// description in JSON) or a Hugging Face config.json. `file` names it in
// errors: DataError where it is no such file or does not tell depth and width, NotSupported for models whose layers
// differ in width.
SADDLE_API ModelShape parse_model_shape(const std::string& text, const std::string& file);

}  // namespace saddle::analysis::depth_width
