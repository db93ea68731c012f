// The module of Primal-Attention: how it begins, which loss it leaves, and that it runs long and in half precision.
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>
#include <torch/autograd.h>

#include <map>

#include "saddle/nn/layer.hpp"
#include "saddle/nn/layer_reference.hpp"
#include "saddle/nn/taps.hpp"

namespace saddle::nn {
namespace {

using torch::Tensor;

AttentionLayerPtr made(const std::string& text, Index X, Index H, Index N) {
  torch::manual_seed(3);
  mechanisms::LayerPlace place;
  place.X = X;
  place.H = H;
  place.N = N;
  return make_layer(*mechanisms::find_layer(text), place);
}

struct Autocast {
  Autocast() { at::autocast::set_cpu_enabled(true); }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_cpu_enabled(false);
  }
};

// The rows of a head's projection are spread over one orthonormal row of [H, n s]; columns are not orthonormal.
TEST(PrimalAttentionModule, BeginsWithOrthonormalHeads) {
  const auto layer = made("primal_attention(rank=5,multiple=4)", 12, 3, 50);
  auto parameters = layer->named_parameters();
  for (const char* name : {"we", "wr"}) {
    const Tensor w = parameters[name];
    EXPECT_EQ(w.sizes(), (std::vector<int64_t>{3, 20, 5}));
    EXPECT_TRUE(torch::mm(w.flatten(1), w.flatten(1).t()).allclose(torch::eye(3), 1e-5, 1e-6)) << name;
  }
  const Tensor lambda = parameters["lambda"];
  EXPECT_GE(lambda.min().item<float>(), 0);
  EXPECT_LT(lambda.max().item<float>(), 1);
  EXPECT_EQ(made("primal_attention(rank=5)", 12, 3, 0)->named_parameters()["we"].size(1), 50);
  EXPECT_EQ(made("primal_attention(form=causal,rank=5)", 12, 3, 0)->named_parameters()["we"].size(1), 4);
}

TEST(PrimalAttentionModule, LeavesItsLossWithWhoCollects) {
  const Tensor x = torch::randn({2, 9, 8});
  const auto loss_of = [&](const char* text) {
    ExtraLosses losses;
    made(text, 8, 2, 9)->forward(x, {});
    return losses.mean();
  };
  const Tensor once = loss_of("primal_attention(rank=2,eta=0.1)");
  ASSERT_TRUE(once.defined());
  EXPECT_TRUE(once.requires_grad());
  EXPECT_GT(once.item<float>(), 0);
  EXPECT_TRUE(loss_of("primal_attention(rank=2,eta=0.4)").allclose(4 * once));
  EXPECT_FALSE(loss_of("primal_attention(rank=2,eta=0)").defined());

  // Both layers count alike.
  const auto layer = made("primal_attention(rank=2,eta=0.1)", 8, 2, 9);
  ExtraLosses losses;
  layer->forward(x, {});
  layer->forward(x, {});
  EXPECT_TRUE(losses.mean().allclose(once));
}

// Analyses get what the reference computes, and only if they ask.
TEST(PrimalAttentionModule, ShowsWhatSpectraAreMadeOf) {
  for (const char* text : {"primal_attention(rank=3,multiple=2)", "primal_attention(form=causal,rank=3)"}) {
    SCOPED_TRACE(text);
    const auto layer = made(text, 8, 2, 9);
    layer->to(torch::kFloat64);
    const Tensor x = torch::randn({2, 9, 8}, torch::kFloat64),
                 mask = torch::arange(9).view({1, 9}).lt(7).expand({2, 9});
    mechanisms::LayerPlace place;
    place.X = 8;
    place.H = 2;
    place.N = 9;
    const auto expected =
        mechanisms::find_layer(text)->reference(reference_inputs(*layer, place, x, mask.to(torch::kFloat64)));
    Taps taps(false, false, true);
    layer->forward(x, mask);
    ASSERT_EQ(taps.layers.size(), 1u);
    auto& parts = taps.layers[0].parts;
    EXPECT_EQ(parts.contains("sample"), expected.contains("sample"));
    EXPECT_EQ(parts.at("lambda").sizes(), (std::vector<int64_t>{1, 1, 2, 3}));
    parts.erase("lambda");
    for (const auto& [name, part] : parts) {
      const tape::Value found = on_tape(part), wanted = expected.at(name);
      ASSERT_EQ(found.shape(), wanted.shape()) << name;
      for (std::size_t i = 0; i < found.data().size(); ++i)
        ASSERT_NEAR(found.data()[i], wanted.data()[i], 1e-10) << name << " " << i;
    }
    Taps others(true, true);
    layer->forward(x, mask);
    EXPECT_TRUE(others.layers.at(0).parts.empty());
  }
}

TEST(PrimalAttentionModule, TakesSequencesOfOtherLengths) {
  for (const char* text : {"primal_attention(rank=2)", "primal_attention(form=causal,rank=2)"}) {
    const auto layer = made(text, 8, 2, 16);
    for (const Index N : {1, 5, 16, 40})
      EXPECT_TRUE(layer->forward(torch::randn({2, N, 8}), {}).isfinite().all().item<bool>()) << text << " " << N;
  }
}

// Equal tokens and zero vectors have no direction, but no NaN either.
TEST(PrimalAttentionModule, ZeroQueriesAreHarmless) {
  for (const char* text : {"primal_attention(rank=2)", "primal_attention(form=causal,rank=2)"}) {
    const auto layer = made(text, 8, 2, 4);
    {
      const torch::NoGradGuard guard;
      for (const char* name : {"q.weight", "q.bias"}) layer->named_parameters()[name].zero_();
    }
    const Tensor x = torch::randn({1, 4, 8}).requires_grad_();
    ExtraLosses losses;
    const Tensor y = layer->forward(x, {});
    (y.square().sum() + losses.mean()).backward();
    for (const auto& item : layer->named_parameters())
      EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << text << " " << item.key();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << text;
  }
}

// float has kernels of its own; double, which is held to the reference, runs in torch.
TEST(PrimalAttentionModule, FloatHasTheGradientsOfDouble) {
  for (const char* text :
       {"primal_attention(rank=5,multiple=3)", "primal_attention(rank=20,trace=with_x,reduction=batch)",
        "primal_attention(form=causal,rank=5,reduction=per_sample_mean)"})
    for (const Index B : {1, 3}) {
      SCOPED_TRACE(text);
      const auto layer = made(text, 24, 4, 70);
      const Tensor given = torch::randn({B, 70, 24}), cotangent = torch::randn({B, 70, 24});
      const auto gradients = [&](torch::ScalarType type) {
        layer->to(type);
        layer->zero_grad();
        const Tensor x = given.to(type, false, true).requires_grad_();
        ExtraLosses losses;
        const Tensor y = layer->forward(x, {});
        ((y * cotangent.to(type)).sum() + losses.mean()).backward();
        std::map<std::string, Tensor> found{{"x", x.grad()}, {"y", y.detach()}};
        for (const auto& item : layer->named_parameters()) found[item.key()] = item.value().grad().clone();
        return found;
      };
      const auto found = gradients(torch::kFloat32);
      for (const auto& [name, expected] : gradients(torch::kFloat64))
        EXPECT_LT((found.at(name) - expected).abs().max().item<double>(),
                  1e-5 * std::max(1.0, expected.abs().max().item<double>()))
            << name << " " << B;
    }
}

// Gradients of gradients, as of any graph.
TEST(PrimalAttentionModule, CanBeDifferentiatedTwice) {
  for (const char* text : {"primal_attention(rank=3)", "primal_attention(form=causal,rank=3)"}) {
    const auto layer = made(text, 8, 2, 6);
    const Tensor given = torch::randn({2, 6, 8});
    const auto second = [&](torch::ScalarType type) {
      layer->to(type);
      const Tensor x = given.to(type, false, true).requires_grad_();
      const Tensor first = torch::autograd::grad({layer->forward(x, {}).square().sum()}, {x}, {}, true, true)[0];
      return torch::autograd::grad({first.square().sum()}, {x})[0];
    };
    const Tensor found = second(torch::kFloat32), expected = second(torch::kFloat64);
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-4 * expected.abs().max().item<double>()) << text;
  }
}

TEST(PrimalAttentionModule, StaysCloseUnderAutocast) {
  for (const char* text : {"primal_attention(rank=8,trace=with_x,reduction=batch)",
                           "primal_attention(form=causal,rank=8,reduction=per_sample_mean)"}) {
    SCOPED_TRACE(text);
    const auto layer = made(text, 32, 4, 64);
    const Tensor x = torch::randn({2, 64, 32}), mask = torch::arange(64).view({1, 64}).lt(60).expand({2, 64});
    const auto run = [&] {
      layer->zero_grad();
      ExtraLosses losses;
      const Tensor y = layer->forward(x, mask).to(torch::kFloat32);
      (y.square().mean() + losses.mean()).backward();
      return std::vector<Tensor>{y.detach(), losses.mean().detach(),
                                 layer->named_parameters()["lambda"].grad().clone()};
    };
    const auto expected = run();
    const Autocast autocast;
    const auto found = run();
    EXPECT_LT((found[0] - expected[0]).abs().max().item<double>(), 0.03);
    EXPECT_LT((found[1] - expected[1]).abs().max().item<double>(), 0.03 * expected[1].item<double>() + 1e-3);
    EXPECT_LT((found[2] - expected[2]).abs().max().item<double>(), 0.05 * expected[2].abs().max().item<double>());
    // A host may hand over halves itself.
    EXPECT_TRUE(layer->forward(x.to(torch::kBFloat16), mask).isfinite().all().item<bool>());
  }
}

// A matrix of N x N floats would take 16 GB.
TEST(PrimalAttentionModule, RunsOverLongSequences) {
  const Index N = 65536;
  for (const char* text : {"primal_attention(rank=4)", "primal_attention(form=causal,rank=4)"}) {
    const auto layer = made(text, 8, 2, N);
    const Tensor x = torch::randn({1, N, 8}).requires_grad_();
    ExtraLosses losses;
    const Tensor y = layer->forward(x, {});
    (y.square().mean() + losses.mean()).backward();
    EXPECT_TRUE(x.grad().isfinite().all().item<bool>()) << text;
  }
}

}  // namespace
}  // namespace saddle::nn
