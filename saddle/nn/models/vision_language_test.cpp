#include "saddle/nn/models/vision_language.hpp"

#include <gmock/gmock.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "saddle/nn/layer.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"
#include "saddle/nn/onnx/export_model.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/nn/taps.hpp"
#include "saddle/nn/weights.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Plain;

// 2 x 3 visual tokens beside five words at most.
VisionLanguageOptions small() {
  return VisionLanguageOptions(9, 5, 4)
      .image(PixelSize(8, 12))
      .patch(4)
      .channels(2)
      .width(8)
      .hidden(12)
      .heads(2)
      .depth(2)
      .parser_depth(2);
}

VisionLanguageOptions with_objectives() { return small().mlm(1).itm(1).mfr(1).mlm_share(0.5); }

VisionLanguage made(const VisionLanguageOptions& options, torch::ScalarType type = torch::kFloat64) {
  torch::manual_seed(7);
  VisionLanguage model(options);
  model->to(type);
  testing::randomise(*model);
  model->eval();
  return model;
}

Tensor images_of(int64_t B) { return torch::rand({B, 2, 8, 12}, torch::kFloat64); }

// Texts of 5, 3, 1 and 4 words.
struct Texts {
  Tensor exist = testing::mask_of({5, 3, 1, 4}, 5);
  Tensor tokens = torch::randint(1, 9, {4, 5}, torch::kInt64) * exist;
};

Tensor post_norm_block(const Plain& block, const Tensor& x, const Tensor& hidden = {}) {
  const Tensor y = block.layer_norm("norm1", x + block.under("attn").attention(x, 2, hidden), 1e-12);
  return block.layer_norm("norm2", y + block.under("mlp").mlp(y), 1e-12);
}

// The whole model out of plain operations.
Tensor plain_logits(const VisionLanguage& model, const Tensor& images, const Tensor& tokens, const Tensor& exist) {
  const Plain all(*model);
  const int64_t B = images.size(0), L = 5;
  std::vector<Tensor> patches;
  for (int64_t row = 0; row < 8; row += 4)
    for (int64_t column = 0; column < 12; column += 4)
      patches.push_back(images.slice(2, row, row + 4).slice(3, column, column + 4).reshape({B, -1}));
  Tensor v = torch::matmul(torch::stack(patches, 1), all["patch_embed.proj.weight"].flatten(1).t()) +
             all["patch_embed.proj.bias"] + all["pos_embed"];
  for (const char* block : {"parser.0", "parser.1"}) v = post_norm_block(all.under(block), v);
  v = all.layer_norm("visual_norm", all.linear("visual_proj", v), 1e-12);
  const Tensor ones = torch::ones({B, 1}, torch::kInt64);
  const Tensor words = torch::cat({9 * ones, tokens, 10 * ones}, 1);
  Tensor text = all["word_embed.weight"].index({words}) + all["text_pos"] + all["type_embed"][0];
  text = all.layer_norm("text_norm", text, 1e-12);
  Tensor x = torch::cat({text, v + all["visual_pos"] + all["type_embed"][1]}, 1);
  const Tensor there = ones.to(torch::kBool);
  const Tensor keys = torch::cat({there, exist, there.expand({B, 7})}, 1);
  EXPECT_EQ(keys.size(1), L + 2 + 6);
  for (const char* block : {"blocks.0", "blocks.1"})
    x = post_norm_block(all.under(block), x, testing::hidden_keys(keys));
  return all.linear("head", x.select(1, 0));
}

TEST(VisionLanguage, IsWhatItsPageSays) {
  VisionLanguage model = made(small());
  const Texts texts;
  const Tensor images = images_of(4);
  EXPECT_LT(difference(model->logits({texts.tokens, texts.exist, {}, {}, {}, images}),
                       plain_logits(model, images, texts.tokens, texts.exist)),
            1e-10);
  const Tensor full = torch::randint(1, 9, {4, 5}, torch::kInt64);
  EXPECT_LT(difference(model->logits({full, {}, {}, {}, {}, images}),
                       plain_logits(model, images, full, torch::ones({4, 5}, torch::kBool))),
            1e-10);
}

TEST(VisionLanguage, PaddingTellsNothing) {
  VisionLanguage model = made(small());
  const Texts texts;
  const Tensor images = images_of(4), expected = model->forward(images, texts.tokens, texts.exist);
  const Tensor other = torch::where(texts.exist, texts.tokens, torch::full_like(texts.tokens, 3));
  EXPECT_LT(difference(model->forward(images, other, texts.exist), expected), 1e-12) << "what stands in padding";
  EXPECT_LT(difference(model->forward(images, texts.tokens), expected), 1e-12) << "zeros are padding";
  const Tensor cut = model->forward(images.slice(0, 1, 3), texts.tokens.slice(0, 1, 3).slice(1, 0, 3));
  EXPECT_LT(difference(cut, expected.slice(0, 1, 3)), 1e-12) << "shorter texts";
}

TEST(VisionLanguage, SamplesDoNotSeeEachOther) {
  VisionLanguage model = made(small());
  const Texts texts;
  const Tensor images = images_of(4), all = model->forward(images, texts.tokens);
  const Tensor order = torch::tensor({2, 0, 3, 1});
  EXPECT_LT(difference(model->forward(images.index({order}), texts.tokens.index({order})), all.index({order})), 1e-12);
}

TEST(VisionLanguage, WithoutPositionsVisualTokensHaveNoOrder) {
  VisionLanguage model = made(small());
  const Texts texts;
  const Tensor images = images_of(4), order = torch::tensor({4, 2, 0, 5, 3, 1});
  const auto shuffled = [&] {
    std::vector<Tensor> rows;
    for (int64_t row = 0; row < 2; ++row) {
      std::vector<Tensor> cells;
      for (int64_t column = 0; column < 3; ++column) {
        const auto from = order[row * 3 + column].item<int64_t>();
        cells.push_back(images.slice(2, from / 3 * 4, from / 3 * 4 + 4).slice(3, from % 3 * 4, from % 3 * 4 + 4));
      }
      rows.push_back(torch::cat(cells, 3));
    }
    return torch::cat(rows, 2);
  }();
  EXPECT_GT(difference(model->forward(shuffled, texts.tokens), model->forward(images, texts.tokens)), 1e-3);
  const torch::NoGradGuard guard;
  model->pos_embed.zero_();
  EXPECT_LT(difference(model->parse(shuffled).tokens, model->parse(images).tokens.index_select(1, order)), 1e-12);
  model->visual_pos.zero_();
  EXPECT_LT(difference(model->forward(shuffled, texts.tokens), model->forward(images, texts.tokens)), 1e-12);
}

TEST(VisionLanguage, MaskedFeaturesAreNotSeen) {
  VisionLanguage model = made(with_objectives());
  const Texts texts;
  const Tensor visual = torch::randn({4, 6, 8}, torch::kFloat64), hidden = torch::zeros({4, 6}, torch::kBool);
  hidden.select(1, 2).fill_(true);
  const Tensor expected = model->fuse(texts.tokens, {}, visual, hidden);
  Tensor other = visual.clone();
  other.select(1, 2).normal_();
  EXPECT_LT(difference(model->fuse(texts.tokens, {}, other, hidden), expected), 1e-12);
  other.select(1, 3).normal_();
  EXPECT_GT(difference(model->fuse(texts.tokens, {}, other, hidden), expected), 1e-3);
  EXPECT_EQ(model->word_logits(expected).sizes(), (std::vector<int64_t>{4, 5, 12}));
  EXPECT_EQ(model->match_logits(expected).sizes(), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(model->feature_predictions(expected).sizes(), (std::vector<int64_t>{4, 6, 8}));
}

TEST(VisionLanguage, ParsesWithTheWeightsOfItsLastLayer) {
  VisionLanguage model = made(small());
  const Tensor images = images_of(3);
  const Taps outer(true);
  const auto parsed = model->parse(images, true);
  EXPECT_TRUE(outer.layers.empty()) << "taps are to see the layers that fuse";
  EXPECT_EQ(parsed.weights.sizes(), (std::vector<int64_t>{3, 2, 6, 6}));
  EXPECT_LT(difference(parsed.weights.sum(-1), torch::ones({3, 2, 6}, torch::kFloat64)), 1e-12);
  model->forward(images, torch::ones({3, 5}, torch::kInt64));
  EXPECT_EQ(outer.layers.size(), 2U);
  EXPECT_EQ(outer.layers[0].weights.sizes(), (std::vector<int64_t>{3, 2, 13, 13}));
}

// Central differences of the weighted losses; the features to be regressed stay those of the unchanged parameters, for
// which the loss has no gradient.
TEST(VisionLanguage, GradientOfTheObjectivesIsThatOfDifferences) {
  for (const char* attention : {"softmax", "softmax+bn(beta=0.6)"}) {
    VisionLanguage model = made(with_objectives().attention(attention).mlm(0.7).itm(1.3).mfr(0.9));
    const Texts texts;
    const Tensor images = images_of(4);
    const Tensor target = model->parse(images).tokens.detach();
    const auto loss = [&] {
      torch::manual_seed(11);  // the same masks and pairs
      const auto parsed = model->parse(images, true);
      return model->pretraining_loss(model->pretrain(texts.tokens, texts.exist, parsed), {target, {}});
    };
    loss().backward();
    for (const auto& item : model->named_parameters()) {
      const Tensor& parameter = item.value();
      if (item.key().starts_with("head.")) {
        EXPECT_FALSE(parameter.grad().defined()) << item.key();
        continue;
      }
      ASSERT_TRUE(parameter.grad().defined()) << item.key();
      const torch::NoGradGuard guard;
      const Tensor direction = torch::randn_like(parameter), kept = parameter.clone();
      constexpr double h = 1e-5;
      parameter.copy_(kept + h * direction);
      const double above = loss().item<double>();
      parameter.copy_(kept - h * direction);
      const double below = loss().item<double>();
      parameter.copy_(kept);
      const double expected = (above - below) / (2 * h), found = (parameter.grad() * direction).sum().item<double>();
      EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::abs(expected))) << attention << " " << item.key();
    }
  }
}

TEST(VisionLanguage, ObjectivesCountWhileTrainingOnly) {
  VisionLanguage model = made(with_objectives());
  const Texts texts;
  const Batch batch{texts.tokens, texts.exist, {}, {}, {}, images_of(4)};
  const auto term = [&](bool training) {
    model->train(training);
    const ExtraLosses losses;
    torch::manual_seed(12);
    model->logits(batch);
    return losses.mean();
  };
  EXPECT_FALSE(term(false).defined());
  torch::manual_seed(12);
  const auto parsed = model->parse(batch.images, true);
  const Tensor expected = model->pretraining_loss(model->pretrain(batch.inputs, batch.mask, parsed), parsed);
  EXPECT_LT(difference(term(true), expected), 1e-12);
  model->train();
  EXPECT_EQ(model->logits(batch).sizes(), (std::vector<int64_t>{4, 4})) << "nobody asks for the losses";
}

// Each objective by itself: its own term, its own head.
TEST(VisionLanguage, LossIsTheSumOfItsTerms) {
  const Texts texts;
  const Tensor images = images_of(4);
  VisionLanguage model = made(with_objectives().mlm(2).itm(3).mfr(5));
  const auto parsed = model->parse(images, true);
  auto pass = model->pretrain(texts.tokens, texts.exist, parsed);
  while (!pass.words.chosen.logical_and(pass.matches.match.unsqueeze(1)).any().item<bool>())
    pass = model->pretrain(texts.tokens, texts.exist, parsed);
  EXPECT_TRUE(pass.tokens.equal(texts.tokens.index_select(0, pass.matches.texts)));
  double words = 0, word_count = 0, matches = 0, features = 0, feature_count = 0;
  const Tensor word_scores = model->word_logits(pass.fused).log_softmax(-1);
  const Tensor match_scores = model->match_logits(pass.fused).log_softmax(-1);
  const Tensor errors = (model->feature_predictions(pass.fused) - parsed.tokens).square().mean(-1);
  for (int64_t b = 0; b < 4; ++b) {
    const bool match = pass.matches.match[b].item<bool>();
    matches -= match_scores[b][match ? 1 : 0].item<double>() / 4;
    for (int64_t t = 0; match && t < 5; ++t)
      if (pass.words.chosen[b][t].item<bool>()) {
        words -= word_scores[b][t][pass.tokens[b][t].item<int64_t>()].item<double>();
        ++word_count;
      }
    for (int64_t v = 0; match && v < 6; ++v)
      if (pass.hidden[b][v].item<bool>()) {
        features += errors[b][v].item<double>();
        ++feature_count;
      }
  }
  ASSERT_GT(word_count * feature_count, 0);
  EXPECT_NEAR(model->pretraining_loss(pass, parsed).item<double>(),
              2 * words / word_count + 3 * matches + 5 * features / feature_count, 1e-10);
  EXPECT_FALSE(made(small().mlm(1))->named_parameters().contains("itm_head.weight"));
  EXPECT_FALSE(made(small().itm(1))->named_parameters().contains("mlm_bias"));
  EXPECT_FALSE(made(small())->named_parameters().contains("mask_feature"));
}

TEST(VisionLanguage, TakesAnyAttention) {
  const Tensor images = images_of(4).to(torch::kFloat32);
  const auto with = [](const char* attention) {
    return make_model("vision_language", {{"vocab", "9"},
                                          {"max_len", "5"},
                                          {"classes", "4"},
                                          {"image", "8x12"},
                                          {"channels", "2"},
                                          {"width", "8"},
                                          {"heads", "2"},
                                          {"mlm", "1"},
                                          {"itm", "1"},
                                          {"mfr", "1"},
                                          {"attention", attention}});
  };
  const auto expect_gradients = [&](const char* attention, const Tensor& tokens) {
    SCOPED_TRACE(attention);
    const auto model = with(attention);
    const ExtraLosses losses;
    const Tensor logits = model->logits({tokens, {}, {}, {}, {}, images});
    ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{4, 4}));
    (logits.square().sum() + losses.mean()).backward();
    for (const auto& item : model->named_parameters()) {
      if (!item.value().grad().defined()) continue;  // of layers, some have parts for other uses
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
    }
    EXPECT_GT(model->named_parameters()["parser.0.attn.qkv.weight"].grad().abs().max().item<double>(), 0);
  };
  const Texts texts;
  const Tensor full = torch::randint(1, 9, {4, 5}, torch::kInt64);
  for (const char* attention :
       {"softmax+bn(beta=0.6)", "linear(elu1)", "rbf", "softmax+sh(1,2)", "softmax+window(3)", "softmax,linear(elu1)"})
    expect_gradients(attention, texts.tokens);
  for (const char* attention : {"cat", "primal_attention", "hyla"}) expect_gradients(attention, full);
  // Padding of a text stands before the image, which some layers do not take.
  EXPECT_THAT(message_of([&] {
                with("cat")->logits({texts.tokens, {}, {}, {}, {}, images});
              }),
              HasSubstr("a token exists behind one that does not"));
}

TEST(VisionLanguage, KnowsItsModalities) {
  const VisionLanguage model = made(small());
  const Texts texts;
  const Tensor kinds = model->modalities({texts.tokens, texts.exist, {}, {}, {}, images_of(4)});
  EXPECT_TRUE(kinds[1].equal(torch::tensor({0, 1, 1, 1, 0, 0, 0, 2, 2, 2, 2, 2, 2})));
  EXPECT_TRUE(kinds.equal(model->modalities({texts.tokens, {}, {}, {}, {}, images_of(4)})));
}

TEST(VisionLanguage, ComesBackFromAFile) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "vision_language.safetensors";
  VisionLanguage model = made(with_objectives(), torch::kFloat32);
  save_weights(*model, file);
  torch::manual_seed(1);
  VisionLanguage other(with_objectives());
  load_weights(*other, file);
  const Texts texts;
  const Tensor images = images_of(4).to(torch::kFloat32);
  EXPECT_TRUE(other->forward(images, texts.tokens).equal(model->forward(images, texts.tokens)));
  const auto copy = std::dynamic_pointer_cast<VisionLanguageImpl>(model->clone());
  EXPECT_TRUE(copy->forward(images, texts.tokens).equal(model->forward(images, texts.tokens)));
  std::filesystem::remove(file);
}

TEST(VisionLanguage, RefusesWhatDoesNotFit) {
  const auto refusal = [](const VisionLanguageOptions& options) {
    return message_of([&] { VisionLanguage model(options); });
  };
  EXPECT_THAT(refusal(small().mfr(1).parser_depth(0)), HasSubstr("which has no layers"));
  EXPECT_THAT(refusal(small().mfr(1).parser_attention("cat")), HasSubstr("'cat' in the parser's last layer"));
  EXPECT_THAT(refusal(small().mfr(1).parser_attention("softmax+sh(1,2)")), HasSubstr("does not have it"));
  EXPECT_THAT(refusal(small().mlm(-1)), HasSubstr("mlm is -1"));
  EXPECT_THAT(refusal(small().mlm_share(1.5)), HasSubstr("mlm_share"));
  EXPECT_THAT(refusal(small().parser_depth(-1)), HasSubstr("parser_depth"));
  EXPECT_THAT(refusal(small().vocab(1).mlm(1)), HasSubstr("no words to mask"));
  VisionLanguage model = made(small().parser_depth(0));
  const Tensor words = torch::ones({4, 5}, torch::kInt64);
  EXPECT_THAT(message_of([&] { model->logits({words, {}, {}, {}}); }), HasSubstr("no images are given"));
  EXPECT_THAT(message_of([&] {
                model->logits({words, {}, {}, {}, {}, images_of(3)});
              }),
              HasSubstr("4 texts are given for 3 images"));
  EXPECT_THAT(message_of([&] {
                model->logits({torch::ones({4, 6}, torch::kInt64), {}, {}, {}, {}, images_of(4)});
              }),
              HasSubstr("6 tokens are given, the model has 5 positions"));
  EXPECT_EQ(model->logits({words, {}, {}, {}, {}, images_of(4)}).size(1), 4);
}

// The file must hide what its mask hides, also if that of the example hides nothing.
TEST(VisionLanguage, ExportsWithItsMask) {
  VisionLanguage model = made(small(), torch::kFloat32);
  Batch example;
  example.inputs = torch::randint(1, 9, {2, 5}, torch::kInt64);
  example.mask = torch::ones({2, 5}, torch::kBool);
  example.images = images_of(2).to(torch::kFloat32);
  const auto path = std::filesystem::temp_directory_path() / ("saddle-vl-" + std::to_string(::getpid()) + ".onnx");
  export_onnx(*model, example, path);
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(path);
  for (const char* text : {"inputs", "mask", "images", "logits"}) EXPECT_THAT(file, HasSubstr(text));
  // With and without the mask, plain operations give the same.
  const PlainOperations plain;
  const torch::NoGradGuard no_gradients;
  Batch without = example;
  without.mask = Tensor();
  EXPECT_LT(difference(model->logits(example), model->logits(without)), 1e-6);
}

}  // namespace
}  // namespace saddle::nn
