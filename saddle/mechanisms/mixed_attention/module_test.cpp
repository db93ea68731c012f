// What the tests over all layers leave out: shifted layers, bfloat16, wrong input.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/mechanisms/mixed_attention/mixed_attention.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/models/vision_transformer.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::mechanisms::mixed_attention {
namespace {

using nn::on_tape;
using torch::Tensor;

LayerPlace image(Index rows, Index columns, Index layer) {
  LayerPlace place;
  place.X = 8;
  place.H = 2;
  place.N = rows * columns;
  place.grid = {rows, columns};
  place.index = layer;
  return place;
}

double distance(const Tensor& tensor, const std::vector<double>& expected) {
  return (tensor.detach().flatten() - torch::tensor(expected, torch::kFloat64)).abs().max().item<double>();
}

// Windows that are an odd number of tokens wide are shifted by the smaller half.
TEST(MixedAttentionModule, ShiftedLayersFollowTheReference) {
  for (const Index window : {2, 3}) {
    SCOPED_TRACE(window);
    torch::manual_seed(3);
    const auto layer = find_layer("mixed_attention(window=" + std::to_string(window) + ")");
    const LayerPlace place = image(2 * window, 3 * window, 1);
    const auto module = nn::make_layer(*layer, place);
    module->to(torch::kFloat64);
    const Tensor x = torch::randn({2, place.N, place.X}, torch::kFloat64).requires_grad_();
    const Tensor y = module->forward(x, {}), cotangent = torch::randn_like(y);
    (y * cotangent).sum().backward();

    const LayerInputs inputs = nn::reference_inputs(*module, place, x);
    const auto outputs = layer->reference(inputs);
    EXPECT_LT(distance(y, outputs.at("y").data()), 1e-10);
    tape::backward({{outputs.at("y"), on_tape(cotangent).data()}});
    EXPECT_LT(distance(x.grad(), inputs.x.gradient()), 1e-9);
    for (const auto& item : module->named_parameters())
      EXPECT_LT(distance(item.value().grad(), inputs.weights.at(item.key()).gradient()), 1e-8) << item.key();
    const auto plain = nn::make_layer(*layer, image(2 * window, 3 * window, 0));
    EXPECT_EQ(plain->named_parameters().size(), module->named_parameters().size());
    EXPECT_TRUE(module->named_buffers().is_empty());
  }
}

TEST(MixedAttentionModule, RunsUnderAutocast) {
  torch::manual_seed(4);
  const auto module = nn::make_layer(*find_layer("mixed_attention(window=4)"), image(8, 8, 1));
  const Tensor x = torch::randn({2, 64, 8});
  const Tensor exact = module->forward(x, {});
  at::autocast::set_cpu_enabled(true);
  const Tensor y = module->forward(x, {});
  at::autocast::set_cpu_enabled(false);
  at::autocast::clear_cache();
  y.sum().backward();
  EXPECT_LT((y.to(torch::kFloat32) - exact).abs().max().item<double>(), 0.05 * exact.abs().max().item<double>());
  for (const auto& item : module->named_parameters()) EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

TEST(MixedAttentionModule, StandsInAVisionTransformerWithoutAClassToken) {
  auto options = nn::VisionTransformerOptions().image(16).patch(2).width(16).heads(2).depth(2).classes(3).channels(1);
  options.attention("mixed_attention(window=4)");
  EXPECT_THROW(nn::VisionTransformer{options}, InvalidArgument);
  nn::VisionTransformer model(options.pooling("average").class_token(false));
  const Tensor logits = model(torch::randn({2, 1, 16, 16}));
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(logits.isfinite().all().item<bool>());
}

// Taps see how much tokens take of each other, on average over channels: it belongs to the mean of the channels where
// all channels of a token have the same value.
TEST(MixedAttentionModule, TappedWeightsAreTheMeanOverChannels) {
  for (const Index layer : {0, 1}) {
    SCOPED_TRACE(layer);
    torch::manual_seed(5);
    const LayerPlace place = image(4, 6, layer);
    const auto module = nn::make_layer(*find_layer("mixed_attention(window=2)"), place);
    module->to(torch::kFloat64);
    const torch::NoGradGuard guard;
    Tensor to_v = module->named_parameters()["to_kv.weight"].chunk(2, 0)[1];
    to_v.copy_(torch::randn({1, place.X, 1, 1}, torch::kFloat64).expand_as(to_v));
    const Tensor x = torch::randn({2, place.N, place.X}, torch::kFloat64);
    nn::Taps taps(true);
    module->forward(x, {});
    ASSERT_EQ(taps.layers.size(), 1U);
    const Tensor& weights = taps.layers[0].weights;
    ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{2, place.H, place.N, place.N}));
    const Tensor v = torch::matmul(x, to_v[0].flatten());  // [B,N]
    const Tensor mean = torch::matmul(weights, v.view({2, 1, place.N, 1})).squeeze(3);
    EXPECT_TRUE(mean.allclose(taps.layers[0].heads.mean(3), 1e-10, 1e-12));
    EXPECT_TRUE(weights.sum(3).allclose(torch::ones({}, torch::kFloat64)));
    // Token 0 is a corner: alone with its neighbours, or, shifted, in the window of the four corners of the image.
    for (Index j = 0; j < place.N; ++j) {
      const bool near = layer == 0 ? j == 0 || j == 1 || j == 6 || j == 7 : j == 0 || j == 5 || j == 18 || j == 23;
      EXPECT_EQ(weights[0][0][0][j].item<double>() != 0, near) << j;
    }
  }
}

TEST(MixedAttentionModule, RefusesWrongInput) {
  const auto module = nn::make_layer(*find_layer("mixed_attention(window=2)"), image(4, 4, 0));
  EXPECT_THROW(module->forward(torch::randn({1, 12, 8}), {}), InvalidArgument);
  EXPECT_THROW(module->forward(torch::randn({1, 16, 8}), torch::ones({1, 16}, torch::kBool)), InvalidArgument);
}

}  // namespace
}  // namespace saddle::mechanisms::mixed_attention
