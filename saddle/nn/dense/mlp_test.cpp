#include "saddle/nn/dense/mlp.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/base/error.hpp"

namespace saddle::nn {
namespace {

using torch::kBFloat16;
using torch::kDouble;
using torch::kFloat;

struct Problem {
  Tensor x, residual, dy;
  MlpWeights w;

  Problem(int64_t M, int64_t I, int64_t F, int64_t O, bool bias) {
    torch::manual_seed(M + I);
    x = torch::randn({2, M, I}).requires_grad_();
    residual = torch::randn({2, M, O}).requires_grad_();
    dy = torch::randn({2, M, O});
    w.w1 = (torch::randn({F, I}) / 4).requires_grad_();
    w.w2 = (torch::randn({O, F}) / 4).requires_grad_();
    if (!bias) return;
    w.b1 = torch::randn({F}).requires_grad_();
    w.b2 = torch::randn({O}).requires_grad_();
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all{x, residual, w.w1, w.w2};
    if (w.b1.defined()) all.insert(all.end(), {w.b1, w.b2});
    return all;
  }
  Problem in_double() const {
    Problem exact = *this;
    for (Tensor* t : {&exact.x, &exact.residual, &exact.dy, &exact.w.w1, &exact.w.w2, &exact.w.b1, &exact.w.b2})
      if (t->defined()) *t = t->detach().to(kDouble).requires_grad_(t->requires_grad());
    return exact;
  }
};

double error(const Tensor& found, const Tensor& expected) {
  return (found.to(kDouble) - expected).abs().max().item<double>() /
         std::max(1e-30, expected.abs().max().item<double>());
}

// y and all gradients against double, with what `run` makes of the problem.
template <class Run>
void check(const Problem& p, double tolerance, Run&& run) {
  const Problem exact = p.in_double();
  const Tensor expected =
      at::linear(at::gelu(at::linear(exact.x, exact.w.w1, exact.w.b1)), exact.w.w2, exact.w.b2) + exact.residual;
  const Tensor found = run(p);
  EXPECT_LT(error(found, expected), tolerance);
  const auto theirs = torch::autograd::grad({expected}, exact.leaves(), {exact.dy});
  const auto ours = torch::autograd::grad({found}, p.leaves(), {p.dy.to(found.scalar_type())});
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(error(ours[i], theirs[i]), tolerance) << i;
}

Tensor run_mlp(const Problem& p) {
  LinearOptions out;
  out.residual = p.residual;
  out.dtype = kFloat;
  return nn::mlp(p.x, p.w, out);
}

TEST(Mlp, MatchesDouble) {
  for (const bool bias : {true, false})
    for (const int64_t M : {1, 17, 130}) check(Problem(M, 24, 70, 33, bias), 5e-6, run_mlp);
}

TEST(Mlp, MatchesDoubleInBfloat16) {
  for (const bool bias : {true, false})
    check(Problem(70, 48, 96, 48, bias), 3e-2, [](const Problem& p) {
      at::autocast::set_cpu_enabled(true);
      const Tensor y = run_mlp(p);
      at::autocast::set_cpu_enabled(false);
      at::autocast::clear_cache();
      EXPECT_EQ(y.scalar_type(), kFloat);
      return y;
    });
}

TEST(Mlp, HasASecondDerivative) {
  const Problem p(5, 6, 9, 4, true), exact = p.in_double();
  const auto second = [](const Problem& q, const Tensor& y) {
    const Tensor first = torch::autograd::grad({y}, {q.x}, {q.dy}, true, true)[0];
    return torch::autograd::grad({first.square().sum()}, {q.w.w1})[0];
  };
  const Tensor expected =
      at::linear(at::gelu(at::linear(exact.x, exact.w.w1, exact.w.b1)), exact.w.w2, exact.w.b2) + exact.residual;
  EXPECT_LT(error(second(p, run_mlp(p)), second(exact, expected)), 1e-5);
}

TEST(Mlp, GivesTheSameWithoutAGradient) {
  const Problem p(9, 24, 40, 24, true);
  const Tensor with = run_mlp(p);
  const torch::NoGradGuard guard;
  EXPECT_TRUE(torch::equal(with, run_mlp(p)));
}

TEST(Mlp, RefusesWhatDoesNotFit) {
  const Problem p(3, 8, 12, 8, true);
  EXPECT_THROW(nn::mlp(torch::randn({3, 7}), p.w), InvalidArgument);
  MlpWeights other = p.w;
  other.w2 = torch::randn({8, 11}).requires_grad_();
  EXPECT_THROW(nn::mlp(p.x, other), InvalidArgument);
  other = p.w;
  other.b2 = torch::randn({1}).requires_grad_();
  EXPECT_THROW(nn::mlp(p.x, other), InvalidArgument);
  LinearOptions out;
  out.residual = torch::randn({3, 8});
  EXPECT_THROW(nn::mlp(p.x, p.w, out), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn
