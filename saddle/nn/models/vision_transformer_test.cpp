#include "saddle/nn/models/vision_transformer.hpp"

#include "saddle/nn/models/testing_internal.hpp"

namespace saddle::nn {
namespace {

using testing::difference;
using testing::message_of;
using testing::Plain;

VisionTransformerOptions small() {
  return VisionTransformerOptions(5).image({8, 12}).patch({4, 2}).channels(2).width(12).heads(3).depth(2);
}

VisionTransformer in_double(const VisionTransformerOptions& options) {
  torch::manual_seed(6);
  VisionTransformer model(options);
  model->to(torch::kFloat64);
  testing::randomise(*model);
  return model;
}

Tensor images() {
  torch::manual_seed(7);
  return torch::randn({3, 2, 8, 12}, torch::kFloat64);
}

// Behind the blocks; the second attention takes the mean key off with weight beta.
Tensor plain_tokens(const Plain& plain, const Tensor& x, const std::vector<const char*>& prefix, double beta = 0) {
  std::vector<Tensor> tokens;
  for (const char* name : prefix) tokens.push_back(plain[name].expand({x.size(0), 1, -1}));
  tokens.push_back(torch::conv2d(x, plain["patch_embed.proj.weight"], plain["patch_embed.proj.bias"], {4, 2})
                       .flatten(2)
                       .transpose(1, 2));
  const Tensor y = plain.under("blocks.0").block(torch::cat(tokens, 1) + plain["pos_embed"], 3, {}, 1e-6);
  return plain.under("blocks.1").block(y, 3, {}, 1e-6, beta);
}

TEST(VisionTransformer, IsThePlainComposition) {
  VisionTransformer model = in_double(small());
  const Plain plain(*model);
  const Tensor x = images(), y = plain.layer_norm("norm", plain_tokens(plain, x, {"cls_token"}), 1e-6);
  EXPECT_LT(difference(model(x), plain.linear("head", y.select(1, 0))), 1e-10);
  EXPECT_LT(difference(model->features(x), y), 1e-10);
  EXPECT_EQ(y.size(1), 1 + 2 * 6);
}

TEST(VisionTransformer, MixesAttentions) {
  const Tensor x = images();
  VisionTransformer listed = in_double(small().attention({"softmax", "softmax+bn(beta=0.6)"}));
  VisionTransformer last = in_double(small().last_attention("softmax+bn(beta=0.6)"));
  const Plain plain(*listed);
  const Tensor y = plain.layer_norm("norm", plain_tokens(plain, x, {"cls_token"}, 0.6), 1e-6);
  EXPECT_LT(difference(listed(x), plain.linear("head", y.select(1, 0))), 1e-10);
  EXPECT_TRUE(torch::equal(last(x), listed(x)));
}

TEST(VisionTransformer, AveragesAsTimmDoes) {
  const Tensor x = images();
  VisionTransformer with = in_double(small().pooling("average"));
  const Plain a(*with);
  const Tensor patches = plain_tokens(a, x, {"cls_token"}).narrow(1, 1, 12);
  EXPECT_LT(difference(with(x), a.linear("head", a.layer_norm("fc_norm", patches.mean(1), 1e-6))), 1e-10);
  EXPECT_FALSE(with->named_parameters().contains("norm.weight"));

  VisionTransformer without = in_double(small().pooling("average").class_token(false));
  const Plain b(*without);
  EXPECT_LT(difference(without(x), b.linear("head", b.layer_norm("norm", plain_tokens(b, x, {}), 1e-6).mean(1))),
            1e-10);
  EXPECT_FALSE(without->named_parameters().contains("fc_norm.weight"));
}

TEST(VisionTransformer, ReadsTheDistillationToken) {
  VisionTransformer model = in_double(small().distilled(true));
  const Plain plain(*model);
  const Tensor x = images();
  const Tensor y = plain.layer_norm("norm", plain_tokens(plain, x, {"cls_token", "dist_token"}), 1e-6);
  const Tensor a = plain.linear("head", y.select(1, 0)), b = plain.linear("head_dist", y.select(1, 1));
  const auto [of_class, of_distillation] = model->both_heads(x);
  EXPECT_LT(difference(of_class, a), 1e-10);
  EXPECT_LT(difference(of_distillation, b), 1e-10);
  EXPECT_LT(difference(model(x), (a + b) / 2), 1e-10);
}

TEST(VisionTransformer, HasAsManyParametersAsDeit) {
  const auto count = [](const VisionTransformerOptions& options) {
    int64_t sum = 0;
    VisionTransformer model(options);
    for (const Tensor& parameter : model->parameters()) sum += parameter.numel();
    return sum;
  };
  EXPECT_EQ(count(*VisionTransformerOptions::named("deit_tiny_patch16_224")), 5'717'416);
  // All blocks are equal, and two of them are filled faster than twelve.
  const auto from_two = [&](const char* name) {
    VisionTransformerOptions options = *VisionTransformerOptions::named(name);
    const int64_t depth = options.depth(), one = count(options.depth(1)), two = count(options.depth(2));
    return one + (depth - 1) * (two - one);
  };
  EXPECT_EQ(from_two("deit_tiny_distilled_patch16_224"), 5'910'800);
  EXPECT_EQ(from_two("deit_small_patch16_224"), 22'050'664);
  EXPECT_EQ(from_two("deit_base_patch16_224"), 86'567'656);
}

TEST(VisionTransformer, NamesItsWeightsAsTimm) {
  VisionTransformer model(small().depth(1).distilled(true));
  const std::vector<std::string> expected{"cls_token",
                                          "dist_token",
                                          "pos_embed",
                                          "patch_embed.proj.weight",
                                          "patch_embed.proj.bias",
                                          "blocks.0.norm1.weight",
                                          "blocks.0.norm1.bias",
                                          "blocks.0.attn.qkv.weight",
                                          "blocks.0.attn.qkv.bias",
                                          "blocks.0.attn.proj.weight",
                                          "blocks.0.attn.proj.bias",
                                          "blocks.0.norm2.weight",
                                          "blocks.0.norm2.bias",
                                          "blocks.0.mlp.fc1.weight",
                                          "blocks.0.mlp.fc1.bias",
                                          "blocks.0.mlp.fc2.weight",
                                          "blocks.0.mlp.fc2.bias",
                                          "norm.weight",
                                          "norm.bias",
                                          "head.weight",
                                          "head.bias",
                                          "head_dist.weight",
                                          "head_dist.bias"};
  EXPECT_EQ(model->named_parameters().keys(), expected);
  EXPECT_EQ(model->patch_embed->proj->weight.sizes(), (std::vector<int64_t>{12, 2, 4, 2}));
}

TEST(VisionTransformer, StartsAsTimmDoes) {
  torch::manual_seed(8);
  VisionTransformer model(small().width(96).depth(1));
  for (const Tensor& weight :
       {model->blocks[0]->attn->qkv->weight, model->blocks[0]->mlp->fc1->weight, model->head->weight, model->pos_embed})
    EXPECT_NEAR(weight.std().item<double>(), 0.02, 2e-3);
  EXPECT_EQ(model->blocks[0]->attn->qkv->bias.abs().max().item<double>(), 0);
  EXPECT_GT(model->patch_embed->proj->weight.std().item<double>(), 0.1);  // uniform up to 1/4
}

TEST(VisionTransformer, IsKnownByName) {
  const auto base = VisionTransformerOptions::named("vit_base_patch32_384");
  ASSERT_TRUE(base);
  EXPECT_EQ(std::vector<int64_t>({base->width(), base->heads(), base->depth()}), std::vector<int64_t>({768, 12, 12}));
  EXPECT_EQ(base->patch(), PixelSize(32));
  EXPECT_EQ(base->image(), PixelSize(384));
  EXPECT_FALSE(base->distilled());
  for (const char* name : {"deit_huge_patch16_224", "deit_tiny", "deit_tiny_patch16", "deit_tiny_patchx_224",
                           "swin_tiny_patch4_224", "deit_tiny_patch16_224_x", "deit_tiny_patch0_224", ""})
    EXPECT_FALSE(VisionTransformerOptions::named(name)) << name;
}

TEST(VisionTransformer, SkipsBranchesWhileTraining) {
  VisionTransformer model = in_double(small().drop_path(0.5));
  const Tensor x = images().repeat({8, 1, 1, 1});
  EXPECT_GT(difference(model(x), model(x)), 1e-3);
  model->eval();
  EXPECT_TRUE(torch::equal(model(x), model(x)));
}

TEST(VisionTransformer, SaysWhatDoesNotFit) {
  VisionTransformer model(small());
  EXPECT_EQ(message_of([&] {
              model(torch::randn({1, 3, 8, 12}));
            }),
            "[PatchEmbed] images have shape (1,3,8,12): (B,2,8,12) is expected");
  EXPECT_EQ(message_of([&] {
              model->logits({torch::randn({1, 2, 8, 12}), torch::ones({1, 12}), {}, {}});
            }),
            "[VisionTransformer] a mask is given, but all patches of an image exist");
  EXPECT_EQ(message_of([&] { VisionTransformer none(small().patch(5)); }),
            "[PatchEmbed] an image of 8x12 cannot be cut into patches of 5x5");
  EXPECT_EQ(message_of([&] { VisionTransformer none(small().class_token(false)); }),
            "[VisionTransformer] there is no class token to pool");
  EXPECT_EQ(message_of([&] {
              VisionTransformer none(small().attention({"softmax", "softmax", "softmax"}));
            }),
            "3 attentions are given for 2 layers");
}

}  // namespace
}  // namespace saddle::nn
