// Pieces that several models are made of.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "saddle/nn/models/model.hpp"

namespace saddle::nn {

// Which modules are training, and setting them so: parents come before their children.
std::vector<bool> training_of(const torch::nn::Module& module);
void set_training(torch::nn::Module& module, const std::vector<bool>& training);

// Everything evaluates while this lives.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& module) : module_(module), before_(training_of(module)) { module.eval(); }
  ~Evaluating() { set_training(module_, before_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::nn::Module& module_;
  std::vector<bool> before_;
};

// All linear layers: weights N(0, deviation), biases 0.
void initialise_linears(torch::nn::Module& module, double deviation);

// Rows of the embedding for tokens [B,N] -> [B,N,X]; throws InvalidArgument for tokens that are none.
Tensor embed(torch::nn::Embedding& embedding, const Tensor& tokens, std::string_view model);

// head(x) [..,classes] in the type of the weights, not of the products.
Tensor classify(const Tensor& x, const Tensor& weight, const Tensor& bias);

std::string shape_text(const Tensor& tensor);

// Throws InvalidArgument.
void require_positive(std::string_view model, std::initializer_list<std::pair<const char*, int64_t>> sizes);
void require_probability(std::string_view model, const char* name, double p);
void require_word(std::string_view model, const char* name, const std::string& value,
                  std::initializer_list<std::string_view> words);
// tokens [B,N] of integers, N from 1 to most.
void require_tokens(std::string_view model, const Tensor& tokens, int64_t most);
// The mask as bool; undefined stays so. Must be [B,N].
Tensor checked_mask(std::string_view model, const Tensor& mask, int64_t B, int64_t N);

// Only models of pairs have a second sequence.
void refuse_second(std::string_view model, const Batch& batch);

// The encoder that the common options describe.
template <class Options>
EncoderOptions encoder_of(const Options& options, std::string_view model) {
  require_positive(model, {{"width", options.width()}, {"heads", options.heads()}, {"depth", options.depth()}});
  require_probability(model, "dropout", options.dropout());
  require_probability(model, "attention_dropout", options.attention_dropout());
  auto block = EncoderBlockOptions(options.width(), options.heads())
                   .hidden(options.hidden())
                   .dropout(options.dropout())
                   .attention_dropout(options.attention_dropout());
  for (const int64_t heads : options.layer_heads()) require_positive(model, {{"layer_heads", heads}});
  return EncoderOptions(std::move(block), options.depth())
      .attention(attention_of_layers(options.attention(), options.last_attention(), options.depth()))
      .heads(options.layer_heads());
}

}  // namespace saddle::nn
