#include "saddle/nn/models/sequence_classifier.hpp"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/models/options_internal.hpp"
#include "saddle/nn/models/parts_internal.hpp"

namespace saddle::nn {

namespace {

constexpr const char* self_name = "SequenceClassifier";

struct Task {
  const char* name;
  int64_t vocab, max_len, classes;
  bool pairs;
};

constexpr Task tasks[] = {{"listops", 32, 2048, 10, false},
                          {"text", 512, 1024, 2, false},
                          {"retrieval", 512, 4096, 2, true},
                          {"image", 512, 1024, 10, false},
                          {"pathfinder", 512, 1024, 2, false}};

}  // namespace

const std::vector<std::string>& SequenceClassifierOptions::lra_tasks() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Task& task : tasks) list.emplace_back(task.name);
    return list;
  }();
  return names;
}

SequenceClassifierOptions SequenceClassifierOptions::lra(const std::string& name) {
  for (const Task& task : tasks)
    if (name == task.name) return SequenceClassifierOptions(task.vocab, task.max_len, task.classes).pairs(task.pairs);
  throw InvalidArgument(fmt::format("[{}] unknown task '{}', expected {}", self_name, name, join(lra_tasks())));
}

SequenceClassifierImpl::SequenceClassifierImpl(const SequenceClassifierOptions& given)
    : Model("sequence_classifier"), options(given) {
  require_positive(self_name, {{"vocab", options.vocab()},
                               {"max_len", options.max_len()},
                               {"classes", options.classes()},
                               {"head_hidden", options.head_hidden()}});
  EncoderOptions encoder = encoder_of(options, self_name);
  encoder.block().tokens({.most = options.max_len()});
  const int64_t X = options.width();
  token_embed = register_module("token_embed", torch::nn::Embedding(options.vocab(), X));
  torch::nn::init::normal_(token_embed->weight, 0, 0.02);
  pos_embed = register_parameter("pos_embed", torch::empty({1, options.max_len(), X}).normal_(0, 0.02));
  blocks = register_module("blocks", Encoder(encoder));
  norm = register_module("norm", Norm(X));
  head_hidden = register_module("head_hidden", torch::nn::Linear((options.pairs() ? 4 : 1) * X, options.head_hidden()));
  head = register_module("head", torch::nn::Linear(options.head_hidden(), options.classes()));
}

Tensor SequenceClassifierImpl::pooled(const Tensor& tokens, const Tensor& given_mask) {
  require_tokens(self_name, tokens, options.max_len());
  const int64_t N = tokens.size(1);
  Tensor mask = checked_mask(self_name, given_mask, tokens.size(0), N);
  if (!mask.defined() && options.padding() >= 0) mask = tokens.ne(options.padding());

  Tensor x = embed(token_embed, tokens, self_name) + pos_embed.narrow(1, 0, N);
  if (is_training()) x = nn::dropout(x, options.dropout());
  x = blocks(x, mask);
  x = norm(x, x.scalar_type());
  if (mask.defined()) x = x * mask.unsqueeze(2).to(x.scalar_type());
  return x.mean(1);
}

Tensor SequenceClassifierImpl::forward(const Tensor& tokens, const Tensor& mask, const Tensor& second,
                                       const Tensor& second_mask) {
  if (second.defined() != options.pairs())
    throw InvalidArgument(fmt::format("[{}] {} sequence is given: this model classifies {}", self_name,
                                      second.defined() ? "a second" : "one", options.pairs() ? "pairs" : "single ones"),
                          "see the option pairs");
  Tensor seen = pooled(tokens, mask);
  if (options.pairs()) {
    const Tensor a = seen, b = pooled(second, second_mask);
    seen = torch::cat({a, b, a * b, a - b}, 1);
  }
  return classify(at::relu(classify(seen, head_hidden->weight, head_hidden->bias)), head->weight, head->bias);
}

Tensor SequenceClassifierImpl::logits(const Batch& batch) {
  return forward(batch.inputs, batch.mask, batch.second, batch.second_mask);
}

std::vector<OptionValue> SequenceClassifierImpl::option_values() const { return option_values_of(options); }

std::shared_ptr<Model> SequenceClassifierImpl::fresh() const {
  return std::make_shared<SequenceClassifierImpl>(options);
}

}  // namespace saddle::nn
