#include "saddle/nn/models/language_model.hpp"

#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::message_of;
using testing::Plain;

LanguageModelOptions small() { return LanguageModelOptions(13, 8).width(12).heads(2).depth(2).hidden(20); }

LanguageModel in_double(const LanguageModelOptions& options) {
  torch::manual_seed(9);
  LanguageModel model(options);
  model->to(torch::kFloat64);
  testing::randomise(*model);
  return model;
}

Tensor sentences(int64_t N = 8) {
  torch::manual_seed(10);
  return torch::randint(13, {3, N}, torch::kInt64);
}

TEST(LanguageModel, IsThePlainComposition) {
  for (const bool tied : {true, false}) {
    LanguageModel model = in_double(small().tied(tied));
    const Plain plain(*model);
    const Tensor tokens = sentences(6), ahead = torch::ones({6, 6}, torch::kBool).triu(1);
    Tensor x = torch::embedding(plain["token_embed.weight"], tokens) + plain["pos_embed"].narrow(1, 0, 6);
    for (const char* layer : {"blocks.0", "blocks.1"}) x = plain.under(layer).block(x, 2, ahead);
    const Tensor head = plain[tied ? "token_embed.weight" : "head.weight"];
    const Tensor expected = torch::matmul(plain.layer_norm("norm", x), head.t());
    EXPECT_LT(difference(model(tokens), expected), 1e-10);
    EXPECT_EQ(model->head.is_empty(), tied);

    const Tensor lines = expected.narrow(1, 0, 5).log_softmax(2);
    const Tensor told = lines.gather(2, tokens.narrow(1, 1, 5).unsqueeze(2));
    EXPECT_NEAR(model->loss(tokens).item<double>(), -told.mean().item<double>(), 1e-10);
  }
}

TEST(LanguageModel, DoesNotSeeTheFuture) {
  for (const char* attention :
       {"softmax", "softmax+bn", "softmax+bn(beta=0.5,scale=std)", "linear(elu1)", "softmax+local(3)",
        "softmax+sh(1,2)", "attention_bn_sh", "softmax+conv1d(3)", "softmax+window(2)"}) {
    SCOPED_TRACE(attention);
    LanguageModel model = in_double(small().attention(attention));
    const Tensor tokens = sentences(), before = model(tokens);
    for (const int64_t changed : {1, 4, 7}) {
      Tensor other = tokens.clone();
      other.select(1, changed).add_(1).remainder_(13);
      const Tensor after = model(other);
      EXPECT_LT(difference(after.narrow(1, 0, changed), before.narrow(1, 0, changed)), 1e-12);
      EXPECT_GT(difference(after.select(1, changed), before.select(1, changed)), 1e-3);
    }
  }
}

TEST(LanguageModel, KeepsWhatIsCausalAlready) {
  LanguageModel model(small().attention({"softmax+local(3)", "softmax+bn"}));
  EXPECT_EQ(model->blocks[0]->attn->options.attention(), "softmax+local(3)");
  EXPECT_EQ(model->blocks[1]->attn->options.attention(), "softmax+bn+causal");
}

TEST(LanguageModel, RefusesWhatLooksAhead) {
  for (const char* attention :
       {"softmax+bn(stats=global)", "softmax+conv1d(3,axis=token)", "softmax+sh(visibility=any)"}) {
    const std::string message = message_of([&] { LanguageModel none(small().attention(attention)); });
    EXPECT_TRUE(message.starts_with(std::string("[LanguageModel] '") + attention + "' cannot be causal: ")) << message;
    EXPECT_NE(message.find("lets a query see keys that its causal key set hides"), std::string::npos) << message;
  }
}

TEST(LanguageModel, SaysWhichLayersLookBackOnly) {
  try {
    LanguageModel none(small().attention("hyla"));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[LanguageModel] 'hyla' lets tokens see later ones");
    for (const std::string attention :
         {"cat_causal", "hyla(causal=true)", "rpc_attention(causal=true)", "primal_attention(form=causal)"}) {
      EXPECT_NE(error.hint().find(attention), std::string::npos) << attention;
      EXPECT_NO_THROW(LanguageModel(small().attention(attention))) << attention;
    }
  }
}

TEST(LanguageModel, LeavesOutPaddingAndTargetsThatDoNotCount) {
  LanguageModel model = in_double(small());
  const Tensor tokens = sentences();
  Tensor mask = torch::ones({3, 8}, torch::kBool), other = tokens.clone();
  mask.narrow(1, 0, 2).fill_(false);
  other.narrow(1, 0, 2).add_(1).remainder_(13);
  EXPECT_LT(difference(model(other, mask).narrow(1, 2, 6), model(tokens, mask).narrow(1, 2, 6)), 1e-14);
  Tensor targets = tokens.roll(-1, 1);
  targets.select(1, 7).fill_(-100);
  EXPECT_NEAR(model->loss(tokens, targets).item<double>(), model->loss(tokens).item<double>(), 1e-12);
}

TEST(LanguageModel, Generates) {
  LanguageModel model = in_double(small().dropout(0.5));
  const Tensor tokens = sentences(6);
  const Tensor found = model->generate(tokens, 4);
  EXPECT_TRUE(model->is_training() && model->blocks[1]->mlp->is_training());
  EXPECT_EQ(found.sizes(), (std::vector<int64_t>{3, 10}));
  EXPECT_TRUE(torch::equal(found.narrow(1, 0, 6), tokens));
  model->eval();
  for (int64_t at = 6; at < 10; ++at) {  // the last 8 tokens are all it knows
    const int64_t from = std::max<int64_t>(0, at - 8);
    const Tensor scores = model(found.narrow(1, from, at - from)).select(1, at - from - 1);
    EXPECT_TRUE(torch::equal(scores.argmax(1), found.select(1, at))) << at;
  }
  torch::manual_seed(11);
  const Tensor drawn = model->generate(tokens, 4, 2.0);
  torch::manual_seed(11);
  EXPECT_TRUE(torch::equal(model->generate(tokens, 4, 2.0), drawn));
  EXPECT_FALSE(torch::equal(drawn, found));
  EXPECT_TRUE(torch::equal(model->generate(tokens, 2, 1e-6), found.narrow(1, 0, 8)));
}

TEST(LanguageModel, StartsUndecided) {
  torch::manual_seed(12);
  LanguageModel model(LanguageModelOptions(50, 32));
  EXPECT_NEAR(model->loss(torch::randint(50, {4, 32}, torch::kInt64)).item<double>(), std::log(50.0), 0.2);
  EXPECT_NEAR(model->blocks[0]->attn->proj->weight.std().item<double>(), 0.02 / std::sqrt(8.0), 5e-4);
}

TEST(LanguageModel, SaysWhatDoesNotFit) {
  LanguageModel model(small());
  EXPECT_EQ(message_of([&] { model->loss(sentences(1)); }),
            "[LanguageModel] one token tells no next one: give at least 2");
  EXPECT_EQ(message_of([&] { model(sentences(9)); }), "[LanguageModel] 9 tokens are given, the model has 8 positions");
  EXPECT_EQ(message_of([&] { model->generate(sentences(2), 1, -1); }),
            "[LanguageModel] temperature is -1: it must be 0 or more");
}

}  // namespace
}  // namespace saddle::nn
