#include "saddle/nn/dense/dropout.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/nn/plain.hpp"
#include "saddle/primal/dropout.hpp"

namespace saddle::nn {
namespace {

using torch::kBFloat16;
using torch::kFloat;
using torch::Tensor;

TEST(Dropout, KeepsWhatTheCounterSays) {
  for (const int64_t count : {1, 63, 64, 511, 512, 513, 40000}) {
    torch::manual_seed(7);
    const primal::Dropout drop{0.3, next_seed(), 0};
    torch::manual_seed(7);
    const Tensor y = nn::dropout(torch::ones({count}), 0.3);
    for (int64_t e = 0; e < count; ++e) {
      const double expected =
          primal::is_dropped(drop, 0, e / 512 * 64 + e % 64, e / 64 % 8) ? 0 : primal::dropout_factor(drop);
      ASSERT_EQ(y[e].item<float>(), static_cast<float>(expected)) << e << " of " << count;
      if (count > 1000) e += 97;
    }
  }
}

TEST(Dropout, KeepsTheRightShare) {
  torch::manual_seed(1);
  const Tensor y = nn::dropout(torch::ones({300, 1000}), 0.1);
  EXPECT_NEAR(y.eq(0).to(kFloat).mean().item<double>(), 0.1, 0.003);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.004);
}

TEST(Dropout, AddsTheResidualAndHasTheSameMaskInItsGradient) {
  for (const auto type : {kFloat, kBFloat16}) {
    const Tensor x = torch::ones({33, 70}, type).requires_grad_(), residual = torch::full({33, 70}, 4, type);
    const Tensor r = residual.clone().requires_grad_();
    const Tensor y = nn::dropout(x, 0.5, r);
    const auto g = torch::autograd::grad({y}, {x, r}, {torch::ones({33, 70}, type)});
    EXPECT_TRUE(torch::equal(g[0], (y - residual).detach()));
    EXPECT_TRUE(torch::equal(g[1], torch::ones({33, 70}, type)));
    EXPECT_GT(g[0].eq(0).sum().item<int64_t>(), 900);
  }
}

TEST(Dropout, DoesNotDependOnThreads) {
  const auto run = [](int threads) {
    torch::set_num_threads(threads);
    torch::manual_seed(3);
    return nn::dropout(torch::arange(100000).to(kFloat), 0.2);
  };
  const Tensor one = run(1), two = run(2);
  torch::set_num_threads(1);
  EXPECT_TRUE(torch::equal(one, two));
}

TEST(Dropout, TakesStridesOtherTypesAndLimits) {
  const Tensor x = torch::randn({6, 8}).t();
  torch::manual_seed(2);
  const Tensor strided = nn::dropout(x, 0.4);
  torch::manual_seed(2);
  EXPECT_TRUE(torch::equal(strided, nn::dropout(x.contiguous(), 0.4)));
  EXPECT_TRUE(nn::dropout(x, 0).is_same(x));
  EXPECT_EQ(nn::dropout(x, 1).abs().max().item<float>(), 0);
  EXPECT_EQ(nn::dropout(x.to(torch::kDouble), 0.5).scalar_type(), torch::kDouble);
  EXPECT_THROW(nn::dropout(x, 1.5), InvalidArgument);
  EXPECT_THROW(nn::dropout(x, 0.5, torch::ones({3})), InvalidArgument);
  const PlainOperations guard;
  EXPECT_EQ(nn::dropout(x, 0.5, x).sizes(), x.sizes());
}

}  // namespace
}  // namespace saddle::nn
