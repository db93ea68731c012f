// Images with text: a vision transformer parses the image, and a second transformer reads its tokens beside the words.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"
#include "saddle/nn/models/patch_embed.hpp"
#include "saddle/nn/models/pretraining.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API VisionLanguageOptions {
  // vocab different tokens, 0 among them, which is padding; texts of max_len tokens at most.
  VisionLanguageOptions(int64_t vocab, int64_t max_len, int64_t classes)
      : vocab_(vocab), max_len_(max_len), classes_(classes) {}

  TORCH_ARG(int64_t, vocab);
  TORCH_ARG(int64_t, max_len);
  TORCH_ARG(int64_t, classes);
  TORCH_ARG(PixelSize, image) = 16;
  TORCH_ARG(PixelSize, patch) = 4;
  TORCH_ARG(int64_t, channels) = 3;
  TORCH_ARG(int64_t, width) = 64;
  TORCH_ARG(int64_t, hidden) = 0;
  TORCH_ARG(int64_t, heads) = 4;
  TORCH_ARG(int64_t, depth) = 2;
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(double, attention_dropout) = 0;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(LayerHeads, layer_heads) = {};
  TORCH_ARG(int64_t, parser_depth) = 2;
  TORCH_ARG(Attentions, parser_attention) = "softmax";
  TORCH_ARG(double, mlm) = 0;
  TORCH_ARG(double, itm) = 0;
  TORCH_ARG(double, mfr) = 0;
  TORCH_ARG(double, mlm_share) = 0.15;
  TORCH_ARG(int64_t, mfr_top) = 2;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"vocab", "number of different tokens, 0 among them, which is padding"}, self.vocab());
    visit({"max_len", "tokens of a text at most"}, self.max_len());
    visit({"classes", "number of classes"}, self.classes());
    visit({"image", "size of the images"}, self.image());
    visit({"patch", "size of a patch"}, self.patch());
    visit({"channels", "of the images"}, self.channels());
    visit_encoder_options(self, visit);
    visit({"parser_depth", "layers that see the image alone, 0: none"}, self.parser_depth());
    visit({"parser_attention", "of these layers: one written form for all, or one for each"}, self.parser_attention());
    visit({"mlm", "weight of masked language modelling in the loss, 0: off"}, self.mlm());
    visit({"itm", "weight of image-text matching in the loss, 0: off"}, self.itm());
    visit({"mfr", "weight of masked feature regression in the loss, 0: off"}, self.mfr());
    visit({"mlm_share", "of the words that are masked"}, self.mlm_share());
    visit({"mfr_top", "features that are masked with a picked one: those it attends to most"}, self.mfr_top());
  }
};

// After Xue et al. (2021), the parts that were not to be had reconstructed (docs/vision_language.md). Parser:
// patch_embed + pos_embed, post-norm blocks `parser`, visual_norm(visual_proj). Text: word_embed + text_pos and the
// first row of type_embed, text_norm. [CLS] text [SEP] visual tokens, these + visual_pos and the second row of
// type_embed, go through post-norm `blocks`; head of [CLS]. The words behind `vocab` are [CLS], [SEP] and [MASK].
//
// While training with weights above 0, masked language modelling, image-text matching and masked feature regression
// leave their terms with ExtraLosses: a second pass through `blocks` sees masked words and masked visual tokens, and
// half of the images with the text of another one.
class SADDLE_TORCH_API VisionLanguageImpl : public Model {
 public:
  explicit VisionLanguageImpl(const VisionLanguageOptions& options);

  struct Parsed {
    Tensor tokens;   // [B,V,X]
    Tensor weights;  // [B,H,V,V] of the parser's last layer, if wanted
  };
  // images [B,C,rows,columns]. Taps see nothing of the parser.
  Parsed parse(const Tensor& images, bool with_weights = false);

  // tokens [B,T], T at most max_len, exist [B,T] true where there is a word (undefined: where it is not 0), visual
  // [B,V,X], hidden [B,V] true where a visual token is masked -> [B,1 + max_len + 1 + V,X].
  Tensor fuse(const Tensor& tokens, const Tensor& exist, const Tensor& visual, const Tensor& hidden = {});

  // What the heads make of fused tokens: [B,max_len,vocab + 3], [B,2] (the second: it matches), [B,V,X]. Each exists
  // if its weight is above 0.
  Tensor word_logits(const Tensor& fused);
  Tensor match_logits(const Tensor& fused);
  Tensor feature_predictions(const Tensor& fused);

  // A pass with masked words, masked visual tokens and texts of other images, as far as their weights are above 0.
  struct Pretraining {
    Matches matches;
    Tensor tokens;      // [B,max_len], the text beside each image, unmasked
    MaskedWords words;  // nothing is chosen where no words are masked
    Tensor hidden;      // [B,V], visual tokens that are masked; undefined: none
    Tensor fused;
  };
  // `parsed` with weights if features are to be masked. Draws from torch's generator.
  Pretraining pretrain(const Tensor& tokens, const Tensor& exist, const Parsed& parsed);
  // The weighted sum of the three losses, those of words and features over pairs that match.
  Tensor pretraining_loss(const Pretraining& pass, const Parsed& parsed);
  bool pretrains() const { return options.mlm() > 0 || options.itm() > 0 || options.mfr() > 0; }

  // -> [B,classes]
  Tensor forward(const Tensor& images, const Tensor& tokens, const Tensor& exist = {});
  // Inputs are the tokens of the text; images must be there.
  Tensor logits(const Batch& batch) override;
  Tensor modalities(const Batch& batch) const override;
  std::vector<OptionValue> option_values() const override;

  // Of the visual tokens and of all.
  int64_t visual_tokens() const { return patch_embed->options.tokens(); }
  int64_t tokens() const { return options.max_len() + 2 + visual_tokens(); }
  double multiply_adds() const;

  VisionLanguageOptions options;
  PatchEmbed patch_embed{nullptr};
  Tensor pos_embed, visual_pos;  // [1,V,X]
  Encoder parser{nullptr};       // empty without layers
  torch::nn::Linear visual_proj{nullptr};
  Norm visual_norm{nullptr}, text_norm{nullptr};
  torch::nn::Embedding word_embed{nullptr};
  Tensor text_pos;    // [1,max_len + 2,X]
  Tensor type_embed;  // [2,X]
  // Of the three losses.
  torch::nn::Linear mlm_hidden{nullptr}, itm_head{nullptr}, mfr_head{nullptr};
  Norm mlm_norm{nullptr};
  Tensor mlm_bias;      // [vocab + 3]
  Tensor mask_feature;  // [1,1,X]

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  void check() const;
};

TORCH_MODULE(VisionLanguage);

}  // namespace saddle::nn
