// Causal CAT as a module: what its generic tests do not see.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "saddle/mechanisms/registry.hpp"
#include "saddle/nn/dense/dropout.hpp"
#include "saddle/nn/layer.hpp"

namespace saddle::mechanisms::cat_causal {
namespace {

using torch::Tensor;

constexpr Index B = 2, H = 2, N = 9, X = 8;
constexpr double p = 0.5;

nn::AttentionLayerPtr made(torch::Dtype type) {
  LayerPlace place;
  place.X = X;
  place.H = H;
  place.N = N;
  place.dropout = p;
  torch::manual_seed(5);
  const auto module = nn::make_layer(*find_layer("cat_causal"), place);
  module->to(type);
  return module;
}

// The layer with its weights written out, each distance times a number of `kept` [B,H,N].
Tensor written_out(const nn::AttentionLayer& module, const Tensor& x, const Tensor& mask, const Tensor& kept) {
  const auto weights = module.named_parameters();
  const auto linear = [&](const Tensor& in, const std::string& name) {
    return torch::linear(in, weights[name + ".weight"], weights[name + ".bias"]);
  };
  const Tensor n = torch::arange(N), apart = n.unsqueeze(1) - n, at = apart.clamp_min(0).flatten();
  const auto spread = [&](const Tensor& scores) { return scores.index_select(2, at).view({B, H, N, N}); };
  const Tensor z = spread(linear(x, "a").transpose(1, 2));
  const Tensor w = z.masked_fill(apart.lt(0), -std::numeric_limits<double>::infinity()).softmax(3) * spread(kept);
  const Tensor v = linear(x, "v").unflatten(2, {H, -1}).transpose(1, 2);
  return linear(torch::matmul(w, v).transpose(1, 2).flatten(2), "out") * mask.unsqueeze(2);
}

// Of many draws some leave the first rows nothing.
TEST(CatCausalModule, DropsDistancesBehindTheSoftmax) {
  for (const torch::Dtype type : {torch::kFloat64, torch::kFloat32}) {
    const double tolerance = type == torch::kFloat64 ? 1e-11 : 1e-4;
    const auto module = made(type);
    const Tensor x = (3 * torch::randn({B, N, X}, type)).requires_grad_(), dy = torch::randn_like(x);
    const Tensor mask = torch::arange(N).lt(torch::tensor({9, 6}).view({B, 1}));
    auto inputs = module->parameters();
    inputs.push_back(x);
    bool nothing_left = false;
    for (int seed = 0; seed < 8; ++seed) {
      torch::manual_seed(seed);
      const Tensor y = module->forward(x, mask);
      torch::manual_seed(seed);
      const Tensor kept = nn::dropout(torch::ones({B, H, N}, type), p);
      nothing_left = nothing_left || kept.select(2, 0).eq(0).any().item<bool>();
      const Tensor expected = written_out(*module, x, mask, kept);
      EXPECT_LT((y - expected).abs().max().item<double>(), tolerance);
      const auto found = torch::autograd::grad({(y * dy).sum()}, inputs);
      const auto wanted = torch::autograd::grad({(expected * dy).sum()}, inputs);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_LT((found[i] - wanted[i]).abs().max().item<double>(), tolerance) << i;
    }
    EXPECT_TRUE(nothing_left);
  }
}

TEST(CatCausalModule, DropsNothingInEvaluation) {
  const auto module = made(torch::kFloat64);
  module->eval();
  const torch::NoGradGuard guard;
  const Tensor x = torch::randn({B, N, X}, torch::kFloat64), ones = torch::ones({B, H, N}, torch::kFloat64);
  EXPECT_LT((module->forward(x, {}) - written_out(*module, x, torch::ones({B, N}), ones)).abs().max().item<double>(),
            1e-12);
}

}  // namespace
}  // namespace saddle::mechanisms::cat_causal
