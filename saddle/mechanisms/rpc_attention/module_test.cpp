// RPC-Attention as a module: what its generic tests do not see.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/blocks/self_attention.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/models/registry.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::mechanisms::rpc_attention {
namespace {

using torch::Tensor;

LayerPlace place_of(Index N, double dropout = 0) {
  LayerPlace place;
  place.X = 16;
  place.H = 2;
  place.N = N;
  place.dropout = dropout;
  return place;
}

nn::AttentionLayerPtr module_of(const std::string& text, const LayerPlace& place) {
  torch::manual_seed(5);
  return nn::make_layer(*find_layer(text), place);
}

TEST(RpcAttentionModule, HasTheNamesAndShapesOfThePublishedCode) {
  const auto rpc = module_of("rpc_attention", place_of(4))->named_parameters();
  EXPECT_EQ(rpc["qkv.weight"].sizes(), (std::vector<int64_t>{32, 16}));
  EXPECT_EQ(rpc["proj.weight"].sizes(), (std::vector<int64_t>{16, 16}));
  EXPECT_FALSE(rpc.contains("s"));
  const auto scaled = module_of("rpc_attention(variant=scaled_s)", place_of(4))->named_parameters();
  EXPECT_EQ(scaled["qkv.weight"].sizes(), (std::vector<int64_t>{48, 16}));
  EXPECT_EQ(scaled["s"].sizes(), (std::vector<int64_t>{2, 4, 4}));
  EXPECT_EQ(scaled["s"].abs().max().item<float>(), 0);
  const auto alpha = module_of("rpc_attention(variant=scaled_alpha)", place_of(4))->named_parameters();
  EXPECT_EQ(alpha["s"].sizes(), (std::vector<int64_t>{1}));
}

// Weights are tapped before dropout: those of the last pass are the same with and without it if no earlier pass had
// any.
TEST(RpcAttentionModule, DropsWeightsOfTheLastPassAlone) {
  const torch::NoGradGuard guard;
  const auto module = module_of("rpc_attention(num_iter=3,lambda=0.5)", place_of(9, 0.5));
  const Tensor x = torch::randn({2, 9, 16});
  nn::Taps taps(true);
  module->eval();
  const Tensor y = module->forward(x, {});
  module->train();
  const Tensor dropped = module->forward(x, {});
  ASSERT_EQ(taps.layers.size(), 2u);
  EXPECT_TRUE(taps.layers[0].weights.equal(taps.layers[1].weights));
  EXPECT_FALSE(dropped.allclose(y));
}

TEST(RpcAttentionModule, TheNumberOfTheLayerDecides) {
  const torch::NoGradGuard guard;
  const Tensor x = torch::randn({1, 7, 16});
  const auto y_of = [&](const std::string& text, Index layer) {
    nn::Tokens tokens;
    tokens.layer = layer;
    torch::manual_seed(5);
    nn::SelfAttention attention(nn::SelfAttentionOptions(16, 2).attention(text).tokens(tokens));
    attention->eval();
    return attention(x);
  };
  const std::string text = "rpc_attention(layer=2,lambda=0.5)";
  EXPECT_TRUE(y_of(text, 1).equal(y_of("rpc_attention(variant=sym)", 1)));
  EXPECT_FALSE(y_of(text, 2).allclose(y_of("rpc_attention(variant=sym)", 2)));
}

TEST(RpcAttentionModule, ModelsSayWhenItNeverRuns) {
  const auto make = [](const std::string& model, const std::string& attention, const std::string& last) {
    nn::OptionTexts options{{"attention", attention}, {"last_attention", last}, {"width", "8"}, {"heads", "2"},
                            {"depth", "2"},           {"max_len", "4"},         {"vocab", "5"}, {"classes", "2"}};
    nn::make_model(model, options);
  };
  for (const char* model : {"sequence_classifier", "event_model"}) {
    EXPECT_THROW(make(model, "softmax", "rpc_attention"), InvalidArgument) << model;
    EXPECT_THROW(make(model, "rpc_attention(layer=7)", ""), InvalidArgument) << model;
    EXPECT_NO_THROW(make(model, "softmax", "rpc_attention(layer=-1)")) << model;
    EXPECT_NO_THROW(make(model, "rpc_attention", "")) << model;
  }
}

TEST(RpcAttentionModule, RunsUnderAutocast) {
  for (const char* text :
       {"rpc_attention(num_iter=2,lambda=0.5)", "rpc_attention(variant=sym)", "rpc_attention(variant=scaled_s)",
        "rpc_attention(variant=scaled_alpha)", "rpc_attention(num_iter=2,lambda=0.5,causal=true)"}) {
    SCOPED_TRACE(text);
    const auto module = module_of(text, place_of(12));
    const Tensor x = torch::randn({2, 12, 16}).requires_grad_(), mask = torch::arange(12).lt(10).expand({2, 12});
    const Tensor expected = module->forward(x, mask);
    at::autocast::set_cpu_enabled(true);
    const Tensor y = module->forward(x, mask);
    at::autocast::clear_cache();
    at::autocast::set_cpu_enabled(false);
    EXPECT_LT((y.to(torch::kFloat32) - expected).abs().max().item<float>(), 0.05);
    y.to(torch::kFloat32).sum().backward();
    for (const Tensor& parameter : module->parameters()) {
      ASSERT_TRUE(parameter.grad().defined());
      EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
    }
  }
}

TEST(RpcAttentionModule, SurvivesKeysOfZeroAndEmptySequences) {
  const auto module = module_of("rpc_attention(lambda=0.5)", place_of(5));
  const Tensor x = torch::zeros({2, 5, 16}).requires_grad_();
  module->named_parameters()["qkv.bias"].data().zero_();
  Tensor mask = torch::ones({2, 5}, torch::kBool);
  mask[1].fill_(false);
  const Tensor y = module->forward(x, mask);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  EXPECT_EQ(y[1].abs().max().item<float>(), 0);
  y.sum().backward();
  EXPECT_TRUE(x.grad().isfinite().all().item<bool>());
}

TEST(RpcAttentionModule, ScaledSHasRowsForSoManyTokens) {
  const auto module = module_of("rpc_attention(variant=scaled_s)", place_of(6));
  EXPECT_EQ(module->forward(torch::randn({2, 4, 16}), {}).size(1), 4);
  EXPECT_THROW(module->forward(torch::randn({2, 7, 16}), {}), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::rpc_attention
