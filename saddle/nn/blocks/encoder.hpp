// Blocks one behind the other, each with an attention of its own.
#pragma once

#include <vector>

#include "saddle/nn/blocks/encoder_block.hpp"

namespace saddle::nn {

// One written form per layer. `given` holds one for each, or fewer that are repeated as often as they fit in; `last`,
// if not empty, replaces that of the last layer.
SADDLE_TORCH_API std::vector<std::string> attention_of_layers(const std::vector<std::string>& given,
                                                              const std::string& last, int64_t depth);

struct SADDLE_TORCH_API EncoderOptions {
  EncoderOptions(EncoderBlockOptions block, int64_t depth) : block_(std::move(block)), depth_(depth) {}

  TORCH_ARG(EncoderBlockOptions, block);  // drop_path: of the last layer, growing evenly from 0 at the first
  TORCH_ARG(int64_t, depth);
  TORCH_ARG(std::vector<std::string>, attention) = {};  // of each layer; empty: that of block
  TORCH_ARG(std::vector<int64_t>, heads) = {};          // of each layer, as wide as those of block; empty: all of them
};

// Children are named by their place: 0, 1, ..
class SADDLE_TORCH_API EncoderImpl : public torch::nn::Cloneable<EncoderImpl> {
 public:
  explicit EncoderImpl(const EncoderOptions& options);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  // x [B,N,X] -> [B,N,X]; key_mask [B,N] true where a token exists.
  Tensor forward(Tensor x, const Tensor& key_mask = {});

  std::size_t size() const { return blocks_.size(); }
  EncoderBlock& operator[](std::size_t layer) { return blocks_[layer]; }

  EncoderOptions options;

 private:
  std::vector<EncoderBlock> blocks_;
};

TORCH_MODULE(Encoder);

}  // namespace saddle::nn
