#include "saddle/nn/dense/linear.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"
#include "saddle/base/parallel.hpp"
#include "saddle/kernels/dense/product.hpp"
#include "saddle/nn/dense/packed_weights.hpp"

namespace saddle::nn {
namespace {

using torch::kBFloat16;
using torch::kDouble;
using torch::kFloat;

// The largest difference, relative to the largest magnitude that is expected.
double error(const Tensor& found, const Tensor& expected) {
  const Tensor e = expected.detach().to(kDouble), f = found.detach().to(kDouble);
  EXPECT_EQ(f.sizes(), e.sizes());
  if (e.numel() == 0) return 0;
  return (f - e).abs().max().item<double>() / std::max(1e-30, e.abs().max().item<double>());
}

class Autocast {
 public:
  Autocast() { at::autocast::set_cpu_enabled(true); }
  ~Autocast() {
    at::autocast::set_cpu_enabled(false);
    at::autocast::clear_cache();
  }
};

struct Problem {
  Tensor x, weight, bias, residual, dy;

  Problem(Index M, Index I, Index O, bool with_bias = true, bool with_residual = false) {
    torch::manual_seed(1000 * M + 10 * I + O);
    x = torch::randn({M, I}).requires_grad_();
    weight = (torch::randn({O, I}) / std::sqrt(static_cast<double>(I))).requires_grad_();
    if (with_bias) bias = torch::randn({O}).requires_grad_();
    if (with_residual) residual = torch::randn({M, O}).requires_grad_();
    dy = torch::randn({M, O});
  }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> result;
    for (const Tensor& t : {x, weight, bias, residual})
      if (t.defined()) result.push_back(t);
    return result;
  }
  // y and the gradients of the inputs.
  template <class F>
  std::vector<Tensor> run(F&& f) const {
    const Tensor y = f(*this);
    std::vector<Tensor> result{y};
    for (const Tensor& g : torch::autograd::grad({y}, inputs(), {dy.to(y.scalar_type())})) result.push_back(g);
    return result;
  }
  // The same in double by torch.
  std::vector<Tensor> expected(bool gelu) const {
    Problem exact = *this;
    for (Tensor* t : {&exact.x, &exact.weight, &exact.bias, &exact.residual})
      if (t->defined()) *t = t->detach().to(kDouble).requires_grad_();
    return exact.run([&](const Problem& p) {
      Tensor y = at::linear(p.x, p.weight, p.bias);
      if (p.residual.defined()) y = y + p.residual;
      return gelu ? at::gelu(y) : y;
    });
  }
};

Tensor apply(const Problem& p, bool gelu) {
  if (gelu) return linear_gelu(p.x, p.weight, p.bias);
  LinearOptions options;
  options.residual = p.residual;
  return nn::linear(p.x, p.weight, p.bias, options);
}

TEST(Linear, FloatMatchesDouble) {
  for (const Index M : {1, 3, 17, 65, 300})
    for (const Index I : {1, 3, 17, 65, 192})
      for (const Index O : {1, 17, 65, 128})
        for (const bool gelu : {false, true}) {
          const Problem p(M, I, O, M != 3, !gelu && O == 17);
          const auto found = p.run([&](const Problem& q) { return apply(q, gelu); });
          const auto expected = p.expected(gelu);
          for (std::size_t i = 0; i < found.size(); ++i) {
            EXPECT_EQ(found[i].scalar_type(), kFloat);
            // Sums of a single column may cancel.
            EXPECT_LT(error(found[i], expected[i]), O == 1 ? 1e-5 : 2e-6)
                << M << " " << I << " " << O << " " << gelu << " #" << i;
          }
        }
}

TEST(Linear, LongSumsKeepTheirDigits) {
  const Problem p(20000, 16, 8);
  const auto found = p.run([](const Problem& q) { return apply(q, false); });
  const auto expected = p.expected(false);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(error(found[i], expected[i]), 2e-6) << i;
}

// Nothing but x, the weight and dy is rounded, apart from results that are bfloat16 themselves.
TEST(Linear, AutocastRoundsInputsOnly) {
  if (!kernels::dense::has_bf16_products()) GTEST_SKIP() << "products are in float here, of unrounded weights";
  for (const Index M : {1, 3, 17, 65, 300})
    for (const Index I : {1, 3, 17, 65, 192})
      for (const Index O : {1, 17, 65, 128}) {
        Problem p(M, I, O, M != 3, O == 17), rounded = p;
        for (Tensor Problem::*t : {&Problem::x, &Problem::weight, &Problem::residual})
          if ((p.*t).defined()) rounded.*t = (p.*t).detach().to(kBFloat16).to(kFloat).requires_grad_();
        rounded.dy = p.dy = p.dy.to(kBFloat16).to(kFloat);
        const auto expected = rounded.expected(false);
        const Autocast autocast;
        const auto found = p.run([&](const Problem& q) { return apply(q, false); });
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].scalar_type(), i == 0 ? kBFloat16 : kFloat);
          EXPECT_LT(error(found[i], expected[i]), i < 2 ? 4e-3 : 2e-6) << M << " " << I << " " << O << " #" << i;
        }
      }
}

// Here what the gelu sees and its gradient are rounded too.
TEST(Linear, AutocastGelu) {
  for (const Index M : {17, 300})
    for (const Index I : {17, 192})
      for (const Index O : {17, 65, 128}) {
        const Problem p(M, I, O);
        const auto expected = p.expected(true);
        const Autocast autocast;
        const auto found = p.run([&](const Problem& q) { return apply(q, true); });
        for (std::size_t i = 0; i < found.size(); ++i)
          EXPECT_LT(error(found[i], expected[i]), 2e-2) << M << " " << I << " " << O << " #" << i;
      }
}

// With inputs that bfloat16 holds exactly nothing is lost in a product with a float result.
TEST(Linear, Bf16SumsInFloat) {
  Problem p(65, 100, 33, true, true);
  const torch::NoGradGuard no_grad;
  for (Tensor* t : {&p.x, &p.weight}) t->copy_(t->to(kBFloat16));
  LinearOptions options;
  options.residual = p.residual;
  options.dtype = kFloat;
  const Tensor y = nn::linear(p.x.to(kBFloat16), p.weight, p.bias, options);
  EXPECT_EQ(y.scalar_type(), kFloat);
  EXPECT_LT(error(y, at::linear(p.x.to(kDouble), p.weight.to(kDouble), p.bias.to(kDouble)) + p.residual), 1e-6);
}

TEST(Linear, TakesStridedAndManyDimensionalInput) {
  torch::manual_seed(3);
  const Tensor wide = torch::randn({4, 9, 40}), weight = torch::randn({24, 20}), bias = torch::randn({24});
  for (const Tensor& x : {wide.slice(2, 5, 25), wide.slice(2, 0, 40, 2), wide.slice(2, 0, 20).transpose(0, 1)}) {
    const Tensor input = x.detach().requires_grad_();
    const Tensor y = nn::linear(input, weight, bias);
    const Tensor expected = at::linear(input.to(kDouble), weight.to(kDouble), bias.to(kDouble));
    EXPECT_EQ(y.sizes(), expected.sizes());
    EXPECT_LT(error(y, expected), 2e-6);
    // A gradient without strides of its own.
    const auto found = torch::autograd::grad({y.sum()}, {input})[0];
    EXPECT_LT(error(found, weight.to(kDouble).sum(0).expand_as(x)), 2e-6);
    EXPECT_LT(error(nn::linear(input.to(kBFloat16), weight, bias), expected), 2e-2);
  }
}

TEST(Linear, NoRows) {
  for (const auto type : {kFloat, kBFloat16}) {
    const Tensor x = torch::empty({0, 8}, type).requires_grad_(), weight = torch::randn({5, 8}).requires_grad_(),
                 bias = torch::randn({5}).requires_grad_();
    const Tensor y = linear_gelu(x, weight, bias);
    EXPECT_EQ(y.sizes(), (std::vector<Index>{0, 5}));
    y.sum().backward();
    EXPECT_EQ(weight.grad().abs().max().item<float>(), 0);
    EXPECT_EQ(bias.grad().abs().max().item<float>(), 0);
  }
}

TEST(Linear, DoubleAndBf16WeightsAreServed) {
  const Problem p(7, 5, 3);
  const Tensor y = nn::linear(p.x.to(kDouble), p.weight.to(kDouble), p.bias.to(kDouble));
  EXPECT_EQ(y.scalar_type(), kDouble);
  EXPECT_LT(error(y, p.expected(false)[0]), 1e-12);
  const Tensor rounded = nn::linear(p.x.to(kBFloat16), p.weight.to(kBFloat16), p.bias.to(kBFloat16));
  EXPECT_EQ(rounded.scalar_type(), kBFloat16);
  EXPECT_LT(error(rounded, p.expected(false)[0]), 2e-2);
}

TEST(Linear, GradientsOfGradients) {
  for (const bool gelu : {false, true}) {
    const Problem p(6, 5, 4);
    const auto second = [&](const Problem& q, auto&& f) {
      const Tensor first = torch::autograd::grad({f(q).square().sum()}, {q.x}, {}, true, true)[0];
      return torch::autograd::grad({first.square().sum()}, {q.weight})[0];
    };
    Problem exact = p;
    for (Tensor* t : {&exact.x, &exact.weight, &exact.bias}) *t = t->detach().to(kDouble).requires_grad_();
    const Tensor expected = second(exact, [&](const Problem& q) {
      const Tensor y = at::linear(q.x, q.weight, q.bias);
      return gelu ? at::gelu(y) : y;
    });
    EXPECT_LT(error(second(p, [&](const Problem& q) { return apply(q, gelu); }), expected), 1e-5);
  }
}

TEST(Linear, GeluKeepsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = torch::tensor({{inf, -inf, std::nanf(""), 1e30f, -1e30f, 0.0f, -13.0f, 13.0f}}).t().contiguous();
  const Tensor y = linear_gelu(x, torch::ones({1, 1}));
  EXPECT_EQ(y[0].item<float>(), inf);
  EXPECT_EQ(y[1].item<float>(), 0);
  EXPECT_TRUE(std::isnan(y[2].item<float>()));
  EXPECT_EQ(y[3].item<float>(), 1e30f);
  EXPECT_EQ(y[4].item<float>(), 0);
  EXPECT_EQ(y[5].item<float>(), 0);
  EXPECT_EQ(y[7].item<float>(), 13);
}

TEST(Linear, SameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  for (const bool autocast : {false, true}) {
    std::vector<std::vector<Tensor>> results;
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      const Problem p(700, 130, 200);
      at::autocast::set_cpu_enabled(autocast);
      results.push_back(p.run([](const Problem& q) { return apply(q, true); }));
      at::autocast::set_cpu_enabled(false);
    }
    for (std::size_t r = 1; r < results.size(); ++r)
      for (std::size_t i = 0; i < results[0].size(); ++i) EXPECT_TRUE(torch::equal(results[0][i], results[r][i])) << i;
  }
  at::set_num_threads(before);
}

TEST(Linear, RefusesWhatDoesNotFit) {
  const Tensor x = torch::randn({4, 8}), weight = torch::randn({3, 8});
  EXPECT_THROW(nn::linear(x, torch::randn({3, 7})), InvalidArgument);
  EXPECT_THROW(nn::linear(x, torch::randn({8})), InvalidArgument);
  EXPECT_THROW(nn::linear(x, weight, torch::randn({4})), InvalidArgument);
  LinearOptions options;
  options.residual = torch::randn({4, 8});
  EXPECT_THROW(nn::linear(x, weight, {}, options), InvalidArgument);
}

class PackedWeights : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::dense::has_bf16_products()) GTEST_SKIP() << "no products in bfloat16 on this processor";
    forget_packed_weights();
  }
};

TEST_F(PackedWeights, AreUsedAgain) {
  const Tensor x = torch::randn({4, 32}).to(kBFloat16), weight = torch::randn({16, 32});
  const auto before = packed_weight_counts();
  const Tensor y = nn::linear(x, weight), again = nn::linear(x, weight.view({16, 32}));
  const auto after = packed_weight_counts();
  EXPECT_TRUE(torch::equal(y, again));
  EXPECT_EQ(after.packs - before.packs, 1);
  EXPECT_EQ(after.hits - before.hits, 1);
}

TEST_F(PackedWeights, FollowTheWeight) {
  const Tensor x = torch::randn({4, 32}).to(kBFloat16), weight = torch::randn({16, 32});
  const Tensor y = nn::linear(x, weight);
  Tensor(weight).mul_(2);
  EXPECT_TRUE(torch::equal(nn::linear(x, weight), 2 * y));
  Tensor(weight).data().mul_(2);  // not counted as a version
  EXPECT_TRUE(torch::equal(nn::linear(x, weight), 4 * y));
  for (const Index at : {0, 7, 100, 511}) {  // nor is a single element
    Tensor(weight).data().view({-1})[at].mul_(64);
    EXPECT_FALSE(torch::equal(nn::linear(x, weight), 4 * y)) << at;
    Tensor(weight).data().view({-1})[at].div_(64);
    EXPECT_TRUE(torch::equal(nn::linear(x, weight), 4 * y)) << at;
  }
  EXPECT_EQ(packed_weight_counts().entries, 1);
}

TEST_F(PackedWeights, OfDeadTensorsAreDropped) {
  const Tensor x = torch::randn({4, 32}).to(kBFloat16), kept = torch::randn({16, 32});
  for (int i = 0; i < 20; ++i) nn::linear(x, torch::randn({16, 32}));
  nn::linear(x, kept);
  EXPECT_EQ(packed_weight_counts().entries, 1);
  EXPECT_EQ(packed_weight_counts().bytes, 16 * 32 * 2 * 2);  // 16 columns are padded to 32
}

TEST_F(PackedWeights, ServeSeveralThreads) {
  const Tensor x = torch::randn({4, 64}).to(kBFloat16);
  std::vector<Tensor> weights, expected;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(torch::randn({48, 64}));
    expected.push_back(nn::linear(x, weights.back()));
  }
  forget_packed_weights();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < 200; ++i) {
        if (i % 50 == 49) forget_packed_weights();
        if (!torch::equal(nn::linear(x, weights[i % 4]), expected[i % 4])) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace saddle::nn
