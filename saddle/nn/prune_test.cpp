// A pruned model computes what the whole one does with the outputs of the other heads at 0, and says what it is.
#include "saddle/nn/prune.hpp"

#include "saddle/base/error.hpp"
#include "saddle/nn/models/multiply_adds.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/models/testing_internal.hpp"
#include "saddle/nn/onnx/export_model.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::message_of;
using testing::randomise;

// The model with the columns of the output projections that read the other heads at 0: their outputs count for nothing.
std::shared_ptr<Model> masked(const Model& model, const KeptHeads& kept) {
  const torch::NoGradGuard guard;
  const auto copy = std::dynamic_pointer_cast<Model>(model.clone());
  for (std::size_t layer = 0; layer < kept.size(); ++layer) {
    SelfAttention& attention = copy->blocks[layer]->attn;
    if (attention->layer) continue;
    const int64_t H = attention->options.heads(), E = attention->head_width();
    for (int64_t head = 0; head < H; ++head)
      if (std::find(kept[layer].begin(), kept[layer].end(), head) == kept[layer].end())
        attention->proj->weight.narrow(1, head * E, E).zero_();
  }
  return copy;
}

std::shared_ptr<Model> series(const std::string& attention, const std::string& name = "mvts") {
  torch::manual_seed(3);
  const auto model = make_model(name, {{"dims", "3"},
                                       {"max_len", "13"},
                                       {"classes", "4"},
                                       {"width", "24"},
                                       {"hidden", "20"},
                                       {"heads", "6"},
                                       {"depth", "2"},
                                       {"attention", attention}});
  randomise(*model);
  model->eval();
  return model;
}

Batch series_batch() {
  torch::manual_seed(4);
  Batch batch;
  batch.inputs = torch::randn({3, 13, 3});
  batch.mask = torch::ones({3, 13}, torch::kBool);
  batch.mask[1].narrow(0, 8, 5).fill_(false);
  return batch;
}

Index parameter_count(const Model& model) {
  Index count = 0;
  for (const Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

TEST(Prune, GivesWhatMaskedHeadsGive) {
  const Batch batch = series_batch();
  const KeptHeads kept{{0, 3, 5}, {4}};
  for (const char* attention :
       {"softmax", "softmax+bn(beta=0.6)", "softmax+bn(beta=0.3,learn=head)", "softmax+bn(beta=0.3,learn=shared)",
        "softmax+sh", "softmax+sh(1,2,3,1,2,5)", "attention_bn_sh", "linear", "linear(elu1)", "softmax+bias",
        "softmax+residual", "softmax+conv1d(3)", "softmax+conv1d(3,share=true)", "attention_conv2d", "rbf",
        "softmax+window(3)", "softmax+sh,linear(elu1)", "softmax+bn(learn=head)+bias,softmax"}) {
    const auto model = series(attention);
    const auto pruned = with_heads(*model, kept);
    EXPECT_LT(difference(pruned->logits(batch), masked(*model, kept)->logits(batch)), 1e-6) << attention;
    EXPECT_GT(difference(pruned->logits(batch), model->logits(batch)), 1e-4) << attention;
    EXPECT_LT(parameter_count(*pruned), parameter_count(*model)) << attention;
    EXPECT_LT(multiply_adds(*pruned), multiply_adds(*model)) << attention;
  }
}

TEST(Prune, AllAttentionsInDouble) {
  Batch batch = series_batch();
  batch.inputs = batch.inputs.to(torch::kFloat64);
  const KeptHeads kept{{1, 2}, {0, 5}};
  for (const char* attention : {"softmax", "softmax+bn(beta=0.6)", "softmax+sh", "linear(elu1)"}) {
    const auto model = series(attention);
    model->to(torch::kFloat64);
    const auto pruned = with_heads(*model, kept);
    EXPECT_EQ(pruned->parameters()[0].scalar_type(), torch::kFloat64);
    EXPECT_LT(difference(pruned->logits(batch), masked(*model, kept)->logits(batch)), 1e-12) << attention;
  }
}

TEST(Prune, OtherModels) {
  const KeptHeads kept{{0, 2}, {1}};
  const OptionTexts common{{"width", "16"}, {"heads", "4"}, {"depth", "2"}};
  const auto made = [&](const std::string& name, OptionTexts options) {
    torch::manual_seed(5);
    options.insert(common.begin(), common.end());
    const auto model = make_model(name, options);
    randomise(*model);
    model->eval();
    return model;
  };
  const auto check = [&](const std::shared_ptr<Model>& model, const Batch& batch) {
    const auto pruned = with_heads(*model, kept);
    EXPECT_LT(difference(pruned->logits(batch), masked(*model, kept)->logits(batch)), 1e-6) << model->name();
  };
  Batch images, tokens, pairs;
  images.inputs = torch::randn({2, 3, 16, 24});
  check(made("vision_transformer", {{"image", "16x24"}, {"patch", "8"}, {"qkv_bias", "false"}}), images);
  check(made("vision_transformer",
             {{"image", "16x24"}, {"patch", "4"}, {"attention", "softmax+sh(1,2,1,2,pool=2d,grid=4x6,prefix=1)"}}),
        images);
  tokens.inputs = torch::randint(1, 20, {2, 11});
  check(made("sequence_classifier", {{"vocab", "20"}, {"max_len", "12"}, {"classes", "3"}}), tokens);
  check(made("language_model", {{"vocab", "20"}, {"max_len", "12"}}), tokens);
  check(made("language_model", {{"vocab", "20"},
                                {"max_len", "12"},
                                {"attention", "linear(elu1)"},
                                {"last_attention", "softmax+sh(1,2,3,1)"}}),
        tokens);
  pairs.inputs = tokens.inputs;
  pairs.second = torch::randint(1, 20, {2, 9});
  check(made("sequence_classifier", {{"vocab", "20"}, {"max_len", "12"}, {"classes", "3"}, {"pairs", "true"}}), pairs);
}

TEST(Prune, SaysWhatItIs) {
  const Batch batch = series_batch();
  const auto model = series("softmax+sh,softmax");
  const auto pruned = with_heads(*model, {{1, 2, 5}, {0, 1}});
  const auto attentions = pruned->attentions();
  EXPECT_EQ(attentions[0].attention, "softmax+sh(1,2,4)");
  EXPECT_EQ(attentions[0].heads, 3);
  EXPECT_EQ(attentions[1].attention, "softmax");
  EXPECT_EQ(attentions[1].heads, 2);
  const auto again = model_from_json(describe(*pruned));
  const torch::NoGradGuard guard;
  auto to = again->named_parameters();
  for (const auto& item : pruned->named_parameters()) to[item.key()].copy_(item.value());
  auto buffers = again->named_buffers();
  for (const auto& item : pruned->named_buffers()) buffers[item.key()].copy_(item.value());
  again->eval();
  EXPECT_TRUE(torch::equal(again->logits(batch), pruned->logits(batch)));
  const auto copy = std::dynamic_pointer_cast<Model>(pruned->clone());
  EXPECT_TRUE(torch::equal(copy->logits(batch), pruned->logits(batch)));
}

TEST(Prune, CanBeDoneAgain) {
  const Batch batch = series_batch();
  const auto model = series("softmax+sh");
  const auto once = with_heads(*model, {{0, 1, 4, 5}, {1, 2, 3}}), twice = with_heads(*once, {{1, 3}, {0}});
  EXPECT_LT(difference(twice->logits(batch), masked(*model, {{1, 5}, {1}})->logits(batch)), 1e-6);
  const auto nothing = with_heads(*model, all_heads(*model));
  EXPECT_TRUE(torch::equal(nothing->logits(batch), model->logits(batch)));
}

TEST(Prune, TrainsOn) {
  const Batch batch = series_batch();
  const auto pruned = with_heads(*series("softmax+bn(learn=head)"), {{0, 3}, {4}});
  pruned->train();
  pruned->logits(batch).square().sum().backward();
  for (const auto& item : pruned->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_EQ(item.value().grad().sizes(), item.value().sizes()) << item.key();
  }
}

TEST(Prune, LeavesOtherLayersAlone) {
  const Batch batch = series_batch();
  const auto model = series("softmax,cat");
  EXPECT_TRUE(can_lose_heads(*model, 0));
  EXPECT_FALSE(can_lose_heads(*model, 1));
  const KeptHeads kept{{0, 3}, {0, 1, 2, 3, 4, 5}};
  EXPECT_LT(difference(with_heads(*model, kept)->logits(batch), masked(*model, kept)->logits(batch)), 1e-6);
  EXPECT_THROW(with_heads(*model, {{0, 3}, {0}}), NotSupported);
}

TEST(Prune, RescalesLayers) {
  const auto model = series("softmax");
  const auto pruned = with_heads(*model, {{0, 1, 2}, {0, 1, 2, 3, 4, 5}}),
             plain = with_heads(*model, {{0, 1, 2}, {0, 1, 2, 3, 4, 5}});
  rescale_layers(*pruned, *model);
  EXPECT_LT(difference(pruned->blocks[0]->attn->proj->weight, plain->blocks[0]->attn->proj->weight * std::sqrt(2.0)),
            1e-6);
  EXPECT_EQ(difference(pruned->blocks[1]->attn->proj->weight, plain->blocks[1]->attn->proj->weight), 0);
}

TEST(Prune, NormsOfHeads) {
  const auto model = series("softmax,cat");
  const torch::NoGradGuard guard;
  SelfAttention& attention = model->blocks[0]->attn;
  attention->qkv->weight.zero_();
  attention->proj->weight.zero_();
  attention->qkv->weight[4].fill_(1);                   // queries of head 1
  attention->qkv->weight[24 + 9].fill_(2);              // keys of head 2
  attention->proj->weight.narrow(1, 20, 4).fill_(0.5);  // outputs of head 5
  const auto norms = head_norms(*model);
  ASSERT_EQ(norms.size(), 2u);
  const std::vector<double> expected{0, std::sqrt(24.0), std::sqrt(96.0), 0, 0, std::sqrt(24.0)};
  for (std::size_t h = 0; h < 6; ++h) EXPECT_NEAR(norms[0][h], expected[h], 1e-12) << h;
  EXPECT_TRUE(norms[1].empty());
}

TEST(Prune, IsExported) {
  const auto pruned = with_heads(*series("softmax+sh"), {{0, 3, 5}, {4}});
  const auto path = std::filesystem::temp_directory_path() / "saddle_prune_test.onnx";
  export_onnx(*pruned, series_batch(), path);
  EXPECT_GT(std::filesystem::file_size(path), 1000u);
  std::filesystem::remove(path);
}

TEST(Prune, RefusesWhatCannotBe) {
  const auto model = series("softmax");
  EXPECT_THROW(with_heads(*model, {{0}}), InvalidArgument);
  EXPECT_NE(message_of([&] {
              with_heads(*model, {{0}, {}});
            }).find("layer 1 would have no head left"),
            std::string::npos);
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{{6}, {-1}, {2, 1}, {1, 1}})
    EXPECT_THROW(with_heads(*model, {{0}, wrong}), InvalidArgument);
  const auto fixed = series("softmax+fixed(4,num_verts=2)");
  EXPECT_THROW(with_heads(*fixed, {{0, 2}, {0}}), NotSupported);
  EXPECT_LT(difference(with_heads(*fixed, {{0, 3}, {2}})->logits(series_batch()),
                       masked(*fixed, {{0, 3}, {2}})->logits(series_batch())),
            1e-6);
  const auto events = make_model("event_model", {{"vocab", "5"}, {"max_len", "6"}, {"classes", "5"}});
  EXPECT_THROW(all_heads(*events), NotSupported);
}

TEST(LayerHeads, AreRefusedWhereTheyDoNotFit) {
  const auto made = [](const std::string& heads, const std::string& attention = "softmax") {
    return make_model("mvts", {{"dims", "3"},
                               {"max_len", "13"},
                               {"classes", "4"},
                               {"depth", "2"},
                               {"layer_heads", heads},
                               {"attention", attention}});
  };
  EXPECT_EQ(made("3,8")->attentions()[0].heads, 3);
  EXPECT_EQ(made("")->attentions()[0].heads, 8);
  for (const char* wrong : {"3", "3,4,5", "0,8", "-1,8", "a,8", "8,"})
    EXPECT_THROW(made(wrong), InvalidArgument) << wrong;
  EXPECT_THROW(made("3,8", "cat"), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn
