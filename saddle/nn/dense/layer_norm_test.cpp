#include "saddle/nn/dense/layer_norm.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"

namespace saddle::nn {
namespace {

using torch::kBFloat16;
using torch::kDouble;
using torch::kFloat;
using torch::Tensor;

double error(const Tensor& found, const Tensor& expected) {
  const Tensor e = expected.detach().to(kDouble);
  EXPECT_EQ(found.sizes(), e.sizes());
  return (found.detach().to(kDouble) - e).abs().max().item<double>() / std::max(1e-30, e.abs().max().item<double>());
}

struct Problem {
  Tensor x, gamma, beta, dy;

  Problem(std::int64_t M, std::int64_t C, torch::ScalarType type) {
    torch::manual_seed(100 * M + C);
    x = (3 + 2 * torch::randn({M, C})).to(type).requires_grad_();
    gamma = (1 + 0.5 * torch::randn({C})).requires_grad_();
    beta = torch::randn({C}).requires_grad_();
    dy = torch::randn({M, C});
  }
  template <class F>
  std::vector<Tensor> run(F&& f) const {
    const Tensor y = f(x, gamma, beta);
    std::vector<Tensor> result{y};
    for (const Tensor& g : torch::autograd::grad({y}, {x, gamma, beta}, {dy.to(y.scalar_type())})) result.push_back(g);
    return result;
  }
  std::vector<Tensor> expected() const {
    Problem exact = *this;
    for (Tensor* t : {&exact.x, &exact.gamma, &exact.beta}) *t = t->detach().to(kDouble).requires_grad_();
    return exact.run(
        [](const Tensor& a, const Tensor& g, const Tensor& b) { return at::layer_norm(a, {a.size(-1)}, g, b, 1e-5); });
  }
};

TEST(LayerNorm, MatchesDouble) {
  for (const std::int64_t M : {1, 3, 65, 300})
    for (const std::int64_t C : {3, 17, 65, 192}) {
      const Problem p(M, C, kFloat);
      const auto found =
          p.run([](const Tensor& x, const Tensor& g, const Tensor& b) { return nn::layer_norm(x, g, b); });
      const auto expected = p.expected();
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_LT(error(found[i], expected[i]), 3e-6) << M << " " << C << " #" << i;
    }
}

TEST(LayerNorm, MixesTypes) {
  for (const auto type : {kFloat, kBFloat16})
    for (const auto result : {kFloat, kBFloat16}) {
      const Problem p(65, 70, type);
      const auto found = p.run([&](const Tensor& x, const Tensor& g, const Tensor& b) {
        LayerNormOptions options;
        options.dtype = result;
        return nn::layer_norm(x, g, b, options);
      });
      const auto expected = p.expected();
      EXPECT_EQ(found[0].scalar_type(), result);
      EXPECT_EQ(found[1].scalar_type(), type);
      EXPECT_EQ(found[2].scalar_type(), kFloat);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_LT(error(found[i], expected[i]), type == kFloat && result == kFloat ? 3e-6 : 1e-2) << i;
    }
}

TEST(LayerNorm, AutocastGivesBf16) {
  const Tensor x = torch::randn({4, 8});
  at::autocast::set_cpu_enabled(true);
  const Tensor y = nn::layer_norm(x, {}, {});
  at::autocast::set_cpu_enabled(false);
  EXPECT_EQ(y.scalar_type(), kBFloat16);
  EXPECT_LT(error(y, at::layer_norm(x, {8})), 1e-2);
}

TEST(LayerNorm, DoubleStridedAndEmpty) {
  const Tensor x = torch::randn({4, 6, 20}), gamma = torch::randn({10});
  EXPECT_EQ(nn::layer_norm(x.to(kDouble), {}, {}).scalar_type(), kDouble);
  for (const Tensor& part : {x.slice(2, 3, 13), x.slice(2, 0, 20, 2), x.slice(2, 0, 10).transpose(0, 1)})
    EXPECT_LT(error(nn::layer_norm(part, gamma, {}), at::layer_norm(part.to(kDouble), {10}, gamma.to(kDouble))), 3e-6);
  EXPECT_EQ(nn::layer_norm(torch::empty({0, 10}), gamma, {}).size(0), 0);
  EXPECT_THROW(nn::layer_norm(x, gamma, {}), InvalidArgument);
}

TEST(LayerNorm, GradientsOfGradients) {
  const auto second = [](const Problem& p, auto&& f) {
    const Tensor y = f(p.x, p.gamma, p.beta);
    const Tensor first = torch::autograd::grad({(y * y * y).sum()}, {p.x}, {}, true, true)[0];
    return torch::autograd::grad({first.square().sum()}, {p.gamma})[0];
  };
  const Problem p(5, 12, kFloat);
  Problem exact = p;
  for (Tensor* t : {&exact.x, &exact.gamma, &exact.beta}) *t = t->detach().to(kDouble).requires_grad_();
  const Tensor expected =
      second(exact, [](const Tensor& x, const Tensor& g, const Tensor& b) { return at::layer_norm(x, {12}, g, b); });
  const Tensor found =
      second(p, [](const Tensor& x, const Tensor& g, const Tensor& b) { return nn::layer_norm(x, g, b); });
  EXPECT_LT(error(found, expected), 1e-4);
}

TEST(LayerNorm, SameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  std::vector<std::vector<Tensor>> results;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    results.push_back(Problem(500, 96, kFloat).run([](const Tensor& x, const Tensor& g, const Tensor& b) {
      return nn::layer_norm(x, g, b);
    }));
  }
  at::set_num_threads(before);
  for (std::size_t r = 1; r < results.size(); ++r)
    for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(torch::equal(results[0][i], results[r][i])) << i;
}

}  // namespace
}  // namespace saddle::nn
