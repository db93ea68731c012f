// A causal language model over tokens with learned positions.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

struct SADDLE_TORCH_API LanguageModelOptions {
  LanguageModelOptions(int64_t vocab, int64_t max_len) : vocab_(vocab), max_len_(max_len) {}

  TORCH_ARG(int64_t, vocab);
  TORCH_ARG(int64_t, max_len);
  TORCH_ARG(int64_t, width) = 256;
  TORCH_ARG(int64_t, hidden) = 0;
  TORCH_ARG(int64_t, heads) = 4;
  TORCH_ARG(int64_t, depth) = 4;
  TORCH_ARG(double, dropout) = 0;
  TORCH_ARG(double, attention_dropout) = 0;
  TORCH_ARG(Attentions, attention) = "softmax";
  TORCH_ARG(std::string, last_attention) = "";
  TORCH_ARG(LayerHeads, layer_heads) = {};
  TORCH_ARG(bool, tied) = true;

 public:
  static void options(auto& self, auto&& visit) {
    visit({"vocab", "number of different tokens"}, self.vocab());
    visit({"max_len", "number of positions"}, self.max_len());
    visit_encoder_options(self, visit);
    visit({"tied", "the token embedding serves as head too"}, self.tied());
  }
};

// token_embed + pos_embed, dropout, pre-norm blocks, norm, head without bias. An attention that is not causal gets
// "+causal"; one that cannot be is refused. Weights start as in GPT-2: N(0, 0.02), divided by sqrt(2 depth) where a
// branch ends, biases at 0.
class SADDLE_TORCH_API LanguageModelImpl : public Model {
 public:
  explicit LanguageModelImpl(const LanguageModelOptions& options);

  // tokens [B,N], N at most max_len; mask [B,N] true where a token exists, undefined: everywhere -> [B,N,vocab]
  Tensor forward(const Tensor& tokens, const Tensor& mask = {});
  Tensor logits(const Batch& batch) override;
  std::vector<OptionValue> option_values() const override;

  // Mean cross entropy of targets [B,N] given tokens [B,N]; targets of -100 do not count. Undefined: each token is to
  // tell the next.
  Tensor loss(const Tensor& tokens, const Tensor& targets = {}, const Tensor& mask = {});

  // tokens [B,N] -> [B,N + count], from the last max_len tokens each time. temperature 0: the likeliest token, else
  // drawn from softmax(logits / temperature) by torch's default generator. Evaluates, whatever is_training() says.
  Tensor generate(Tensor tokens, int64_t count, double temperature = 0);

  LanguageModelOptions options;
  torch::nn::Embedding token_embed{nullptr};
  Tensor pos_embed;  // [1,max_len,X]
  Norm norm{nullptr};

 protected:
  std::shared_ptr<Model> fresh() const override;

 private:
  Tensor encoded(const Tensor& tokens, const Tensor& mask);
  Tensor to_logits(const Tensor& x);
};

TORCH_MODULE(LanguageModel);

}  // namespace saddle::nn
