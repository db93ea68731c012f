#include "saddle/nn/blocks/encoder.hpp"

#include <fmt/format.h>

#include "saddle/mechanisms/rpc_attention/rpc_attention.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {

std::vector<std::string> attention_of_layers(const std::vector<std::string>& given, const std::string& last,
                                             int64_t depth) {
  const auto count = static_cast<int64_t>(given.size());
  if (count < 1 || depth % count != 0)
    throw InvalidArgument(fmt::format("{} attentions are given for {} layers", count, depth),
                          "give one for all layers, one for each, or some that repeat evenly, such as 2 for 4");
  std::vector<std::string> all;
  for (int64_t layer = 0; layer < depth; ++layer) all.push_back(given[static_cast<std::size_t>(layer % count)]);
  if (!last.empty() && depth > 0) all.back() = last;
  // Every model asks here for its layers, and a layer alone does not know the others.
  mechanisms::rpc_attention::require_pursuit(all);
  return all;
}

EncoderImpl::EncoderImpl(const EncoderOptions& given) : options(given) { reset(); }

void EncoderImpl::reset() {
  const int64_t depth = options.depth();
  if (depth < 1) throw InvalidArgument(fmt::format("[Encoder] depth is {}, at least 1 is needed", depth));
  const auto attention = options.attention().empty() ? std::vector{options.block().attention()} : options.attention();
  const auto each = attention_of_layers(attention, "", depth);
  const std::vector<int64_t>& heads = options.heads();
  const int64_t width = options.block().width(), whole = options.block().heads();
  if (!heads.empty()) {
    if (static_cast<int64_t>(heads.size()) != depth)
      throw InvalidArgument(fmt::format("[Encoder] heads of {} layers are given for {} layers", heads.size(), depth));
    if (whole < 1 || width % whole != 0)
      throw InvalidArgument(fmt::format("[Encoder] width {} cannot be cut into {} heads", width, whole),
                            "the width must be a multiple of the number of heads, also where layers have fewer");
  }
  blocks_.clear();
  for (int64_t layer = 0; layer < depth; ++layer) {
    EncoderBlockOptions block = options.block();
    block.attention(each[static_cast<std::size_t>(layer)]);
    block.tokens().layer = layer;
    if (!heads.empty()) block.heads(heads[static_cast<std::size_t>(layer)]).head_width(width / whole);
    if (depth > 1)
      block.drop_path(options.block().drop_path() * static_cast<double>(layer) / static_cast<double>(depth - 1));
    blocks_.push_back(register_module(std::to_string(layer), EncoderBlock(block)));
  }
}

void EncoderImpl::pretty_print(std::ostream& stream) const { stream << "saddle::nn::Encoder"; }

Tensor EncoderImpl::forward(Tensor x, const Tensor& key_mask) {
  tap_tokens(x);
  for (EncoderBlock& block : blocks_) {
    x = block(x, key_mask);
    tap_tokens(x);
  }
  return x;
}

}  // namespace saddle::nn
