#include "saddle/nn/models/pretraining.hpp"

#include <torch/torch.h>

#include "places.hpp"
#include "saddle/analysis/imf/imf.hpp"
#include "saddle/io/safetensors.hpp"
#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;

Tensor tensor_of(const saddle::Tensor& tensor) {
  const tape::Value value(tensor);
  return torch::tensor(value.data(), torch::kFloat64)
      .view(std::vector<int64_t>(value.shape().begin(), value.shape().end()));
}

TEST(Pretraining, MasksWordsAsBertDoes) {
  torch::manual_seed(1);
  constexpr int64_t words = 9, mask = 11;
  const Tensor tokens = torch::randint(1, words, {400, 50}, torch::kInt64);
  const Tensor exist = torch::arange(50).lt(torch::randint(5, 51, {400, 1}, torch::kInt64));
  const MaskedWords masked = mask_words(tokens, exist, 0.3, words, mask);
  EXPECT_FALSE(masked.chosen.logical_and(exist.logical_not()).any().item<bool>()) << "padding";
  EXPECT_TRUE(masked.tokens.eq(tokens).logical_or(masked.chosen).all().item<bool>()) << "others stay";
  const double there = exist.sum().item<double>(), chosen = masked.chosen.sum().item<double>();
  EXPECT_NEAR(chosen / there, 0.3, 4 * std::sqrt(0.3 * 0.7 / there));
  const Tensor shown = masked.tokens.index({masked.chosen}), own = tokens.index({masked.chosen});
  const auto share = [&](const Tensor& which) { return which.sum().item<double>() / chosen; };
  const auto expect_share = [&](const Tensor& which, double expected) {
    EXPECT_NEAR(share(which), expected, 4 * std::sqrt(expected * (1 - expected) / chosen));
  };
  expect_share(shown.eq(mask), 0.8);
  expect_share(shown.eq(own), 0.1 + 0.1 / (words - 1));  // a random word may be the same
  const Tensor random = shown.index({shown.ne(mask).logical_and(shown.ne(own))});
  EXPECT_EQ(random.min().item<int64_t>(), 1);
  EXPECT_EQ(random.max().item<int64_t>(), words - 1);
}

TEST(Pretraining, LossOfWordsIsTheMeanOverThoseChosen) {
  torch::manual_seed(2);
  const Tensor logits = torch::randn({3, 4, 6}, torch::kFloat64).requires_grad_();
  const Tensor tokens = torch::randint(6, {3, 4}, torch::kInt64), chosen = torch::rand({3, 4}).lt(0.5);
  double sum = 0, count = 0;
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t t = 0; t < 4; ++t) {
      if (!chosen[b][t].item<bool>()) continue;
      double total = 0;
      for (int64_t w = 0; w < 6; ++w) total += std::exp(logits[b][t][w].item<double>());
      sum += std::log(total) - logits[b][t][tokens[b][t].item<int64_t>()].item<double>();
      ++count;
    }
  ASSERT_GT(count, 0);
  EXPECT_NEAR(masked_word_loss(logits, tokens, chosen).item<double>(), sum / count, 1e-12);
  const Tensor none = masked_word_loss(logits, tokens, torch::zeros_like(chosen));
  EXPECT_EQ(none.item<double>(), 0);
  none.backward();
  EXPECT_EQ(logits.grad().abs().max().item<double>(), 0);
}

TEST(Pretraining, HalfOfTheTextsAreThoseOfOthers) {
  torch::manual_seed(3);
  double matching = 0, from_next = 0;
  constexpr int64_t B = 10;
  constexpr int draws = 2000;
  for (int i = 0; i < draws; ++i) {
    const Matches matches = draw_matches(B);
    const Tensor own = matches.texts.eq(torch::arange(B));
    ASSERT_TRUE(own.equal(matches.match));
    ASSERT_TRUE(matches.texts.ge(0).logical_and(matches.texts.lt(B)).all().item<bool>());
    matching += own.sum().item<double>();
    from_next += matches.texts.eq((torch::arange(B) + 1).remainder(B)).sum().item<double>();
  }
  const double n = B * draws;
  EXPECT_NEAR(matching / n, 0.5, 4 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(from_next / n, 0.5 / (B - 1), 4 * std::sqrt(0.5 / (B - 1) / n)) << "all others alike";
  EXPECT_TRUE(draw_matches(1).match.all().item<bool>());
}

TEST(Pretraining, PicksOneFeatureOrAsManyAsMaskAShare) {
  torch::manual_seed(4);
  EXPECT_TRUE(pick_features(50, 16, 3).sum(1).eq(1).all().item<bool>());
  for (const int64_t top : {1, 4}) {
    const int64_t B = 200, V = 100;
    // Weights of no order: every token takes any others with it.
    const Tensor mask = feature_mask(torch::rand({B, 2, V, V}), pick_features(B, V, top), top);
    EXPECT_NEAR(mask.to(torch::kFloat64).mean().item<double>(), 0.15, 0.01) << top;
  }
}

// The recorded cases, and the masks and losses that judge the analysis: one definition in both places.
TEST(Pretraining, MasksAndLossOfFeaturesAreThoseRecorded) {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SADDLE_SOURCE_DIR "/tests/golden/imf")) {
    const TensorFile file = io::read_safetensors(entry.path());
    if (file.metadata.at("kind") != "mfr") continue;
    ++cases;
    const Tensor weights = tensor_of(file.tensors.at("in.visual_attention"));
    const Tensor places = tensor_of(file.tensors.at("in.picked")).to(torch::kInt64);
    const Tensor picked = torch::zeros({weights.size(0), weights.size(2)}, torch::kBool).scatter_(1, places, true);
    const Tensor mask = feature_mask(weights, picked, std::stoll(file.metadata.at("top_k")));
    EXPECT_TRUE(mask.equal(tensor_of(file.tensors.at("out.mask")).to(torch::kBool))) << entry.path();
    const Tensor prediction = tensor_of(file.tensors.at("in.prediction")).requires_grad_();
    const Tensor feature = tensor_of(file.tensors.at("in.feature")).requires_grad_();
    const Tensor loss = masked_feature_loss(prediction, feature, mask);
    EXPECT_NEAR(loss.item<double>(), tensor_of(file.tensors.at("out.loss"))[0].item<double>(), 1e-12);
    loss.backward();
    EXPECT_LT(difference(prediction.grad(), tensor_of(file.tensors.at("grad.prediction"))), 1e-10);
    EXPECT_FALSE(feature.grad().defined()) << "no gradient through the target";
  }
  EXPECT_GT(cases, 0);
}

TEST(Pretraining, WithoutMaskedFeaturesThereIsNoLoss) {
  const Tensor prediction = torch::randn({2, 3, 4}).requires_grad_();
  const Tensor loss = masked_feature_loss(prediction, torch::randn({2, 3, 4}), torch::zeros({2, 3}, torch::kBool));
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_EQ(prediction.grad().abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace saddle::nn
