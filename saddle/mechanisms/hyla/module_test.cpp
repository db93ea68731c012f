// What the generic tests of layers do not say about the module of HYLA: dropout, bfloat16, weights for taps, beginning.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "saddle/mechanisms/hyla/hyla.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::mechanisms::hyla {
namespace {

using torch::Tensor;

LayerPlace place_of(Index X, Index H, double dropout = 0) {
  LayerPlace place;
  place.X = X;
  place.H = H;
  place.N = 9;
  place.dropout = dropout;
  return place;
}

nn::AttentionLayerPtr module_of(const std::string& text, const LayerPlace& place) {
  return nn::make_layer(*find_layer(text), place);
}

// One mask of pairs for all samples, another one in the next call, none in evaluation.
TEST(HylaModule, DropsPairsWhileTraining) {
  for (const char* text : {"hyla", "hyla(attention_norm=softmax,target_network=default)",
                           "hyla(attention_norm=none,target_network=default,causal=true)"}) {
    SCOPED_TRACE(text);
    torch::manual_seed(1);
    const auto module = module_of(text, place_of(8, 2, 0.3));
    const Tensor x = torch::randn({1, 9, 8}).repeat({2, 1, 1});
    const Tensor first = module->forward(x, {}), second = module->forward(x, {});
    EXPECT_TRUE(first[0].equal(first[1]));
    EXPECT_FALSE(first.allclose(second));
    module->eval();
    const Tensor whole = module->forward(x, {});
    EXPECT_TRUE(whole.equal(module->forward(x, {})));
    EXPECT_FALSE(whole.allclose(first));
  }
}

// The gradient while pairs are dropped, by differences: both calls have the same seed.
TEST(HylaModule, GradientWithDropout) {
  torch::manual_seed(2);
  const auto module = module_of("hyla(attention_norm=softmax,relative_bias=true)", place_of(8, 2, 0.3));
  module->to(torch::kFloat64);
  Tensor x = torch::randn({1, 9, 8}, torch::kFloat64).requires_grad_();
  const Tensor direction = torch::randn_like(x), cotangent = torch::randn_like(x);
  const auto loss = [&](const Tensor& at) {
    torch::manual_seed(5);
    return (module->forward(at, {}) * cotangent).sum();
  };
  loss(x).backward();
  const double step = 1e-6, found = (x.grad() * direction).sum().item<double>();
  const torch::NoGradGuard guard;
  const double expected = (loss(x + step * direction) - loss(x - step * direction)).item<double>() / (2 * step);
  EXPECT_NEAR(found, expected, 1e-6 * std::max(1.0, std::fabs(expected)));
}

TEST(HylaModule, RunsUnderAutocast) {
  for (const char* text :
       {"hyla(relative_bias=true,normalize_qk=true)", "hyla(attention_norm=softmax,target_network=default)",
        "hyla(attention_norm=none,target_network=default)"}) {
    SCOPED_TRACE(text);
    torch::manual_seed(3);
    const auto module = module_of(text, place_of(16, 2));
    const Tensor x = torch::randn({2, 9, 16}), expected = module->forward(x, {});
    at::autocast::set_cpu_enabled(true);
    const Tensor y = module->forward(x, {});
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
    y.to(torch::kFloat32).sum().backward();
    EXPECT_TRUE(y.to(torch::kFloat32).allclose(expected, 0.1, 0.1));
    for (const Tensor& parameter : module->parameters()) EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
  }
}

// Weights of a tap are those of the reference.
TEST(HylaModule, TapsSeeTheCode) {
  for (const char* text : {"hyla(causal=true,relative_bias=true)", "hyla(attention_norm=softmax)",
                           "hyla(attention_norm=none,target_network=default)"}) {
    SCOPED_TRACE(text);
    torch::manual_seed(4);
    const auto module = module_of(text, place_of(8, 2));
    module->to(torch::kFloat64);
    const Tensor x = torch::randn({2, 9, 8}, torch::kFloat64), mask = torch::ones({2, 9}, torch::kBool);
    mask[1].slice(0, 6) = false;
    nn::Taps taps(true);
    module->forward(x, mask);
    ASSERT_EQ(taps.layers.size(), 1U);
    const LayerInputs inputs = nn::reference_inputs(*module, place_of(8, 2), x, mask);
    const tape::Value attn = find_layer(text)->reference(inputs).at("attn");
    Tensor expected = torch::tensor(attn.data(), torch::kFloat64).view({2, 2, 9, 9});
    expected = expected * mask.view({2, 1, 9, 1});  // rows of tokens that do not exist are uniform there
    EXPECT_TRUE(taps.layers[0].weights.allclose(expected, 1e-9, 1e-9));
  }
}

TEST(HylaModule, BeginsAsPublished) {
  torch::manual_seed(6);
  LayerPlace place = place_of(256, 4);
  const auto module = module_of("hyla(v_dim=64,relative_bias=true,num_buckets=400)", place);
  const auto parameters = module->named_parameters();
  for (const auto& [name, inputs] : {std::pair("query.kernel", 256.0), {"value.kernel", 256.0}, {"out.kernel", 64.0}}) {
    const Tensor& kernel = parameters[name];
    const double deviation = 1 / std::sqrt(inputs);
    EXPECT_NEAR(kernel.std().item<double>(), deviation, 0.03 * deviation) << name;
    EXPECT_LE(kernel.abs().max().item<double>(), 2 * deviation / 0.8796) << name;
    EXPECT_GT(kernel.abs().max().item<double>(), 1.9 * deviation / 0.8796) << name;
  }
  EXPECT_EQ(parameters["query.bias"].abs().max().item<double>(), 0);
  EXPECT_NEAR(parameters["rel_embedding"].std().item<double>(), 0.05, 0.005);
  place.bias = false;
  EXPECT_EQ(module_of("hyla", place)->named_parameters().find("key.bias"), nullptr);
}

}  // namespace
}  // namespace saddle::mechanisms::hyla
