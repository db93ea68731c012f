#include "saddle/nn/models/vision_transformer.hpp"

#include <fmt/format.h>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "VisionTransformer";
constexpr double deviation = 0.02;

struct Size {
  const char* name;
  int64_t width, heads, depth;
};

constexpr Size sizes[] = {{"tiny", 192, 3, 12}, {"small", 384, 6, 12}, {"base", 768, 12, 12}, {"large", 1024, 16, 24}};

// Takes `word` off the front of `text`.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::optional<VisionTransformerOptions> VisionTransformerOptions::named(const std::string& name) {
  VisionTransformerOptions options;
  std::string_view rest = name;
  if (!take(rest, "deit_") && !take(rest, "vit_")) return std::nullopt;
  const auto* size =
      std::find_if(std::begin(sizes), std::end(sizes), [&](const Size& s) { return take(rest, s.name); });
  if (size == std::end(sizes)) return std::nullopt;
  options.width(size->width).heads(size->heads).depth(size->depth).distilled(take(rest, "_distilled"));
  if (!take(rest, "_patch")) return std::nullopt;
  int64_t patch = 0, image = 0;
  const auto cut = rest.find('_');
  if (cut == std::string_view::npos || !decode(rest.substr(0, cut), patch) || !decode(rest.substr(cut + 1), image) ||
      patch < 1 || image < 1)
    return std::nullopt;
  return options.patch(patch).image(image);
}

VisionTransformerImpl::VisionTransformerImpl(const VisionTransformerOptions& given)
    : Model("vision_transformer"), options(given) {
  require_positive(self_name, {{"classes", options.classes()}});
  require_word(self_name, "pooling", options.pooling(), {"token", "average"});
  const bool averages = options.pooling() == "average";
  if (!averages && !options.class_token())
    throw InvalidArgument("[VisionTransformer] there is no class token to pool",
                          "use pooling=average, or a class_token");
  if (averages && options.distilled())
    throw InvalidArgument("[VisionTransformer] a distillation token is read beside the class token, not an average",
                          "use pooling=token");
  EncoderOptions encoder = encoder_of(options, self_name);
  encoder.block().norm_eps(options.norm_eps()).qkv_bias(options.qkv_bias()).drop_path(options.drop_path());

  const int64_t X = options.width();
  const auto drawn = [&](const char* name, int64_t tokens) {
    return register_parameter(name, torch::empty({1, tokens, X}).normal_(0, deviation));
  };
  patch_embed = register_module("patch_embed",
                                PatchEmbed(PatchEmbedOptions(options.image(), options.patch(), options.channels(), X)));
  const primal::Grid grid{options.image().rows / options.patch().rows,
                          options.image().columns / options.patch().columns};
  encoder.block().tokens({.most = prefix() + patch_embed->options.tokens(), .grid = grid, .prefix = prefix()});
  if (options.class_token()) cls_token = drawn("cls_token", 1);
  if (options.distilled()) dist_token = drawn("dist_token", 1);
  pos_embed = drawn("pos_embed", prefix() + patch_embed->options.tokens());
  blocks = register_module("blocks", Encoder(encoder));
  const Norm last(NormOptions(X).eps(options.norm_eps()));
  if (averages && options.class_token()) {
    fc_norm = register_module("fc_norm", last);
  } else {
    norm = register_module("norm", last);
  }
  head = register_module("head", torch::nn::Linear(X, options.classes()));
  if (options.distilled()) head_dist = register_module("head_dist", torch::nn::Linear(X, options.classes()));
  initialise_linears(*this, deviation);
}

Tensor VisionTransformerImpl::encoded(const Tensor& images) {
  const Tensor patches = patch_embed(images);
  std::vector<Tensor> tokens;
  for (const Tensor& token : {cls_token, dist_token})
    if (token.defined()) tokens.push_back(token.expand({images.size(0), -1, -1}));
  tokens.push_back(patches);
  Tensor x = torch::cat(tokens, 1) + pos_embed;
  if (is_training()) x = nn::dropout(x, options.dropout());
  return blocks(x, Tensor());
}

Tensor VisionTransformerImpl::features(const Tensor& images) {
  const Tensor x = encoded(images);
  return norm.is_empty() ? x : norm(x, x.scalar_type());
}

std::pair<Tensor, Tensor> VisionTransformerImpl::both_heads(const Tensor& images) {
  const bool averages = options.pooling() == "average";
  Tensor x = encoded(images);
  if (averages) x = x.narrow(1, prefix(), x.size(1) - prefix());
  if (!averages) x = x.narrow(1, 0, prefix());  // no other token needs its norm
  if (!norm.is_empty()) x = norm(x, x.scalar_type());
  Tensor pooled = averages ? x.mean(1) : x.select(1, 0);
  if (!fc_norm.is_empty()) pooled = fc_norm(pooled, pooled.scalar_type());
  return {classify(pooled, head->weight, head->bias),
          options.distilled() ? classify(x.select(1, 1), head_dist->weight, head_dist->bias) : Tensor()};
}

Tensor VisionTransformerImpl::forward(const Tensor& images) {
  const auto [of_class, of_distillation] = both_heads(images);
  return of_distillation.defined() ? (of_class + of_distillation) / 2 : of_class;
}

Tensor VisionTransformerImpl::logits(const Batch& batch) {
  refuse_second(self_name, batch);
  if (batch.mask.defined())
    throw InvalidArgument("[VisionTransformer] a mask is given, but all patches of an image exist", "leave it out");
  return forward(batch.inputs);
}

std::vector<OptionValue> VisionTransformerImpl::option_values() const { return option_values_of(options); }

std::shared_ptr<Model> VisionTransformerImpl::fresh() const { return std::make_shared<VisionTransformerImpl>(options); }

}  // namespace saddle::nn
