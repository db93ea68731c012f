// What taps see of CAT and causal CAT, which never make the matrix that they multiply by.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/mechanisms/layer.hpp"
#include "saddle/nn/layer.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::mechanisms::cat {
namespace {

using torch::Tensor;

constexpr Index B = 3, N = 7, X = 8, H = 2;

nn::AttentionLayerPtr module_of(const std::string& text) {
  torch::manual_seed(3);
  LayerPlace place;
  place.X = X;
  place.H = H;
  place.N = N;
  const auto module = nn::make_layer(*find_layer(text), place);
  module->to(torch::kFloat64);
  module->eval();
  const torch::NoGradGuard guard;
  for (Tensor& parameter : module->parameters()) parameter.add_(torch::randn_like(parameter));
  return module;
}

// [B,H,N,D], 0 where there is no token.
Tensor values_of(const torch::nn::Module& module, const Tensor& x, const Tensor& mask) {
  const auto parameters = module.named_parameters();
  const Tensor* const table = parameters.find("v_static");
  Tensor v =
      table != nullptr ? table->expand({B, N, X}) : torch::linear(x, parameters["v.weight"], parameters["v.bias"]);
  if (mask.defined()) v = v * mask.unsqueeze(2);
  return v.unflatten(2, {H, -1}).transpose(1, 2);
}

// Sequences of full length, shorter, and empty.
std::vector<Tensor> masks() { return {{}, torch::arange(N).lt(torch::tensor({N, Index{4}, Index{0}}).view({B, 1}))}; }

TEST(CatModule, TappedWeightsTimesTheValuesAreTheOutputs) {
  for (const char* text : {"cat", "cat(direction=correlation)", "cat(variant=qkv)", "cat(variant=q)", "cat_causal"})
    for (const Tensor& mask : masks()) {
      SCOPED_TRACE(text + std::string(mask.defined() ? ", masked" : ""));
      const auto module = module_of(text);
      const torch::NoGradGuard guard;
      const Tensor x = torch::randn({B, N, X}, torch::kFloat64);
      nn::Taps taps(true);
      module->forward(x, mask);
      ASSERT_EQ(taps.layers.size(), 1U);
      const Tensor& weights = taps.layers[0].weights;
      ASSERT_EQ(weights.sizes(), (std::vector<int64_t>{B, H, N, N}));
      EXPECT_TRUE(torch::matmul(weights, values_of(*module, x, mask)).allclose(taps.layers[0].heads, 1e-10, 1e-12));
      // Rows are distributions over the tokens that exist.
      const Tensor exist = mask.defined() ? mask.to(torch::kFloat64) : torch::ones({B, N}, torch::kFloat64);
      EXPECT_TRUE(weights.sum(3).allclose(exist.unsqueeze(1).expand({B, H, N})));
      EXPECT_TRUE((weights * exist.view({B, 1, 1, N})).equal(weights));
      EXPECT_EQ(weights.equal(weights.tril()), std::string(text) == "cat_causal");
      nn::Taps without(false);
      module->forward(x, mask);
      EXPECT_FALSE(without.layers[0].weights.defined());
    }
}

// With one kernel for each channel there are as many matrices; their mean belongs to the mean of the channels where all
// channels have the same values.
TEST(CatModule, KernelsOfChannelsAreTappedAsTheirMean) {
  for (const Tensor& mask : masks()) {
    const auto module = module_of("cat(variant=v)");
    const torch::NoGradGuard guard;
    auto parameters = module->named_parameters();
    parameters["v.weight"].copy_(torch::randn({1, X}, torch::kFloat64).expand({X, X}));
    parameters["v.bias"].zero_();
    const Tensor x = torch::randn({B, N, X}, torch::kFloat64);
    nn::Taps taps(true);
    module->forward(x, mask);
    const Tensor mean = torch::matmul(taps.layers[0].weights, values_of(*module, x, mask)).mean(3);
    EXPECT_TRUE(mean.allclose(taps.layers[0].heads.mean(3), 1e-10, 1e-12));
  }
}

}  // namespace
}  // namespace saddle::mechanisms::cat
