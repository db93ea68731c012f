#include "saddle/nn/models/sequence_classifier.hpp"

#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::hidden_keys;
using testing::mask_of;
using testing::message_of;
using testing::Plain;

SequenceClassifierOptions small() { return SequenceClassifierOptions(11, 9, 3).width(8).hidden(12).head_hidden(10); }

SequenceClassifier in_double(const SequenceClassifierOptions& options) {
  torch::manual_seed(4);
  SequenceClassifier model(options);
  model->to(torch::kFloat64);
  testing::randomise(*model);
  model->eval();
  return model;
}

// Tokens from 1 to 10, 0 behind the lengths.
Tensor documents(const std::vector<int64_t>& lengths, int64_t N) {
  return torch::randint(1, 11, {static_cast<int64_t>(lengths.size()), N}) * mask_of(lengths, N);
}

Tensor plain_pooled(const Plain& plain, const Tensor& tokens, const Tensor& mask) {
  const int64_t N = tokens.size(1);
  Tensor x = torch::embedding(plain["token_embed.weight"], tokens) + plain["pos_embed"].narrow(1, 0, N);
  for (const char* layer : {"blocks.0", "blocks.1"}) x = plain.under(layer).block(x, 2, hidden_keys(mask));
  return (plain.layer_norm("norm", x) * mask.unsqueeze(2)).sum(1) / static_cast<double>(N);
}

Tensor plain_head(const Plain& plain, const Tensor& x) {
  return plain.linear("head", plain.linear("head_hidden", x).clamp_min(0));
}

TEST(SequenceClassifier, IsThePlainComposition) {
  SequenceClassifier model = in_double(small());
  const Plain plain(*model);
  const Tensor tokens = documents({7, 3}, 7), mask = mask_of({7, 3}, 7);
  const Tensor expected = plain_head(plain, plain_pooled(plain, tokens, mask));
  EXPECT_LT(difference(model(tokens, mask), expected), 1e-10);
  EXPECT_LT(difference(model(tokens), expected), 1e-10);  // token 0 is padding
}

TEST(SequenceClassifier, ClassifiesPairs) {
  SequenceClassifier model = in_double(small().pairs(true));
  const Plain plain(*model);
  const Tensor first = documents({7, 3}, 7), second = documents({2, 5}, 5);
  const Tensor a = plain_pooled(plain, first, first.ne(0)), b = plain_pooled(plain, second, second.ne(0));
  const Tensor expected = plain_head(plain, torch::cat({a, b, a * b, a - b}, 1));
  EXPECT_LT(difference(model(first, Tensor(), second), expected), 1e-10);
  EXPECT_LT(difference(model->logits({first, first.ne(0), second, second.ne(0)}), expected), 1e-10);
}

TEST(SequenceClassifier, DoesNotSeePaddingButItsLength) {
  SequenceClassifier model = in_double(small());
  const Tensor tokens = documents({4, 3}, 6), mask = mask_of({4, 3}, 6);
  EXPECT_LT(difference(model(tokens + 2 * mask.logical_not(), mask), model(tokens, mask)), 1e-14);
  // The mean divides by the padded length.
  const Tensor longer = torch::constant_pad_nd(tokens, {0, 3});
  EXPECT_LT(difference(model->pooled(longer) * 9.0 / 6.0, model->pooled(tokens)), 1e-13);
  SequenceClassifier all = in_double(small().padding(-1));
  EXPECT_GT(difference(all(tokens), model(tokens)), 1e-3);
}

TEST(SequenceClassifier, KnowsTheTasksOfTheArena) {
  const auto retrieval = SequenceClassifierOptions::lra("retrieval");
  EXPECT_TRUE(retrieval.pairs());
  EXPECT_EQ(std::vector<int64_t>({retrieval.vocab(), retrieval.max_len(), retrieval.classes(), retrieval.width(),
                                  retrieval.hidden(), retrieval.heads(), retrieval.depth(), retrieval.head_hidden()}),
            std::vector<int64_t>({512, 4096, 2, 64, 128, 2, 2, 128}));
  torch::manual_seed(5);
  SequenceClassifier listops(SequenceClassifierOptions::lra("listops"));
  EXPECT_NEAR(listops->token_embed->weight.std().item<double>(), 0.02, 2e-3);
  EXPECT_NEAR(listops->pos_embed.std().item<double>(), 0.02, 1e-3);
  EXPECT_EQ(message_of([] { SequenceClassifierOptions::lra("chess"); }),
            "[SequenceClassifier] unknown task 'chess', expected listops, text, retrieval, image, pathfinder");
}

TEST(SequenceClassifier, SaysWhatDoesNotFit) {
  SequenceClassifier model(small());
  EXPECT_EQ(message_of([&] {
              model(torch::ones({2, 10}, torch::kInt64));
            }),
            "[SequenceClassifier] 10 tokens are given, the model has 9 positions");
  EXPECT_EQ(message_of([&] {
              model(torch::full({2, 3}, 11, torch::kInt64));
            }),
            "[SequenceClassifier] tokens lie between 11 and 11, they must lie between 0 and 10");
  EXPECT_EQ(message_of([&] {
              model(torch::ones({2, 3}));
            }),
            "[SequenceClassifier] tokens are Float (2,3): whole numbers of shape (B,N) are expected");
  const Tensor tokens = torch::ones({2, 3}, torch::kInt64);
  EXPECT_EQ(message_of([&] { model(tokens, Tensor(), tokens); }),
            "[SequenceClassifier] a second sequence is given: this model classifies single ones");
}

}  // namespace
}  // namespace saddle::nn
