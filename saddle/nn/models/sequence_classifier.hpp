// Classification of token sequences, or of pairs of them, as the PyTorch harness of the Long Range Arena has it.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API SequenceClassifierOptions {
  SequenceClassifierOptions(int64_t vocab, int64_t max_len, int64_t classes)
      : vocab_(vocab), max_len_(max_len), classes_(classes) {}

  // listops, text, retrieval, image or pathfinder.
  static SequenceClassifierOptions lra(const std::string& task);
  static const std::vector<std::string>& lra_tasks();

  TORCH_ARG(int64_t, vocab);
  TORCH_ARG(int64_t, max_len);
  TORCH_ARG(int64_t, classes);
  TORCH_ARG(int64_t, width) = 64;
  TORCH_ARG(int64_t, hidden) = 128;
  TORCH_ARG(int64_t, heads) = 2;
  TORCH_ARG(int64_t, depth) = 2;
  TORCH_ARG(double, dropout) = 0.1;
  TORCH_ARG(double, attention_dropout) = 0.1;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(LayerHeads, layer_heads) = {};
  TORCH_ARG(int64_t, head_hidden) = 128;
  TORCH_ARG(bool, pairs) = false;
  TORCH_ARG(int64_t, padding) = 0;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"vocab", "number of different tokens"}, self.vocab());
    visit({"max_len", "number of positions"}, self.max_len());
    visit({"classes", "number of classes"}, self.classes());
    visit_encoder_options(self, visit);
    visit({"head_hidden", "width inside the head"}, self.head_hidden());
    visit({"pairs", "classify pairs of sequences"}, self.pairs());
    visit({"padding", "token that a sequence without a mask is padded with, -1: none"}, self.padding());
  }
};

// token_embed + pos_embed, dropout, pre-norm blocks, norm; padding times 0, mean over the padded length; a hidden layer
// with relu and the head. Of a pair a, b the head sees [a, b, a b, a - b].
class SADDLE_TORCH_API SequenceClassifierImpl : public Model {
 public:
  explicit SequenceClassifierImpl(const SequenceClassifierOptions& options);

  // tokens [B,N], N at most max_len; mask [B,N] true where a token exists, undefined: where it is not padding. A second
  // sequence, of any length, if pairs are classified -> [B,classes]
  Tensor forward(const Tensor& tokens, const Tensor& mask = {}, const Tensor& second = {},
                 const Tensor& second_mask = {});
  // [B,N] -> [B,X], what the head sees of one sequence.
  Tensor pooled(const Tensor& tokens, const Tensor& mask = {});
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;

  SequenceClassifierOptions options;
  torch::nn::Embedding token_embed{nullptr};
  Tensor pos_embed;  // [1,max_len,X]
  Norm norm{nullptr};
  torch::nn::Linear head_hidden{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;
};

TORCH_MODULE(SequenceClassifier);

}  // namespace saddle::nn
