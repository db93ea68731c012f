// Vision transformers: ViT and DeiT, with the names of weights that timm gives them.
#pragma once

#include <optional>
#include <utility>

#include "saddle/nn/models/model.hpp"
#include "saddle/nn/models/patch_embed.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API VisionTransformerOptions {
  // DeiT-tiny for `classes` classes.
  explicit VisionTransformerOptions(int64_t classes = 1000) : classes_(classes) {}

  // "deit_tiny_patch16_224", "vit_base_patch32_384", "deit_small_distilled_patch16_224": tiny, small, base or large,
  // any patch and image; nothing if the name is of another form.
  static std::optional<VisionTransformerOptions> named(const std::string& name);

  TORCH_ARG(int64_t, classes);
  TORCH_ARG(PixelSize, image) = 224;
  TORCH_ARG(PixelSize, patch) = 16;
  TORCH_ARG(int64_t, channels) = 3;
  TORCH_ARG(int64_t, width) = 192;
  TORCH_ARG(int64_t, hidden) = 0;
  TORCH_ARG(int64_t, heads) = 3;
  TORCH_ARG(int64_t, depth) = 12;
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(double, attention_dropout) = 0;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(LayerHeads, layer_heads) = {};
  TORCH_ARG(double, drop_path) = 0;
  TORCH_ARG(bool, qkv_bias) = true;
  TORCH_ARG(double, norm_eps) = 1e-6;
  TORCH_ARG(bool, class_token) = true;
  TORCH_ARG(std::string, pooling) = "token";
  TORCH_ARG(bool, distilled) = false;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"classes", "number of classes"}, self.classes());
    visit({"image", "size of the images"}, self.image());
    visit({"patch", "size of a patch"}, self.patch());
    visit({"channels", "of the images"}, self.channels());
    visit_encoder_options(self, visit);
    visit({"drop_path", "share of sequences that skip the last layer's branches, growing from 0 at the first"},
          self.drop_path());
    visit({"qkv_bias", "biases of the projections to queries, keys and values"}, self.qkv_bias());
    visit({"norm_eps", "added to variances"}, self.norm_eps());
    visit({"class_token", "a token before those of the patches"}, self.class_token());
    visit({"pooling", "token: the class token goes to the head; average: the mean of the patches"}, self.pooling());
    visit({"distilled", "a second token with a head of its own"}, self.distilled());
  }
};

// patch_embed behind cls_token and dist_token, + pos_embed, dropout, pre-norm blocks, then as timm:
//   token                          norm, the class token to head; distilled: and the second token to head_dist
//   average with a class token     the mean of the patches, fc_norm, head; there is no norm
//   average without a class token  norm, the mean, head
// Linear layers, tokens and positions start as N(0, 0.02) (timm cuts that at 100 deviations), biases at 0.
class SADDLE_TORCH_API VisionTransformerImpl : public Model {
 public:
  explicit VisionTransformerImpl(const VisionTransformerOptions& options = VisionTransformerOptions());

  // images [B,C,rows,columns] -> [B,classes]; distilled: the mean of both heads.
  Tensor forward(const Tensor& images);
  // What the heads say: of the class token and of the distillation token, the latter undefined without one.
  std::pair<Tensor, Tensor> both_heads(const Tensor& images);
  // All tokens behind the last block and norm: [B,prefix + patches,X].
  Tensor features(const Tensor& images);
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;

  int64_t prefix() const { return (options.class_token() ? 1 : 0) + (options.distilled() ? 1 : 0); }

  VisionTransformerOptions options;
  PatchEmbed patch_embed{nullptr};
  Tensor cls_token, dist_token;  // [1,1,X]
  Tensor pos_embed;              // [1,prefix + patches,X]
  Norm norm{nullptr}, fc_norm{nullptr};
  torch::nn::Linear head_dist{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  Tensor encoded(const Tensor& images);
};

TORCH_MODULE(VisionTransformer);

}  // namespace saddle::nn
