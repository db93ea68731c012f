#include "saddle/nn/optim/radam.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <sstream>

namespace saddle::nn {
namespace {

using torch::Tensor;

Tensor start(torch::ScalarType type) { return torch::tensor({1.0, -2.0}, type).requires_grad_(); }

void descend(RAdam& optimizer, const Tensor& p) {
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = (p[0].square() / 2 + p[1].square() / 4);
    loss.backward();
    return loss;
  });
}

TEST(RAdam, FollowsTheTrace) {
  const std::map<int, std::pair<double, double>> trace{{1, {0.900000, -1.900000}}, {2, {0.805263, -1.802632}},
                                                       {5, {0.552364, -1.526681}}, {6, {0.549921, -1.524151}},
                                                       {7, {0.546863, -1.520959}}, {8, {0.543278, -1.517192}}};
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    const Tensor p = start(type);
    RAdam optimizer(std::vector<Tensor>{p}, RAdamOptions(0.1));
    for (int t = 1; t <= 8; ++t) {
      descend(optimizer, p);
      if (!trace.contains(t)) continue;
      EXPECT_NEAR(p[0].item<double>(), trace.at(t).first, 6e-7) << t;
      EXPECT_NEAR(p[1].item<double>(), trace.at(t).second, 6e-7) << t;
    }
  }
}

TEST(RAdam, DecaysBeforeTheStep) {
  const Tensor p = start(torch::kFloat64);
  RAdam optimizer(std::vector<Tensor>{p}, RAdamOptions(0.1).weight_decay(0.5));
  descend(optimizer, p);
  EXPECT_NEAR(p[0].item<double>(), 0.95 - 0.1, 1e-12);
  EXPECT_NEAR(p[1].item<double>(), -1.9 + 0.1, 1e-12);
}

TEST(RAdam, ContinuesFromAnArchive) {
  const Tensor once = start(torch::kFloat32), resumed = start(torch::kFloat32);
  RAdam whole(std::vector<Tensor>{once}, RAdamOptions(0.1));
  for (int t = 0; t < 12; ++t) descend(whole, once);
  std::stringstream file;
  {
    RAdam first(std::vector<Tensor>{resumed}, RAdamOptions(0.1));
    for (int t = 0; t < 7; ++t) descend(first, resumed);
    torch::save(first, file);
  }
  RAdam second(std::vector<Tensor>{resumed}, RAdamOptions(0.1));
  torch::load(second, file);
  for (int t = 7; t < 12; ++t) descend(second, resumed);
  EXPECT_TRUE(torch::equal(once, resumed));
}

}  // namespace
}  // namespace saddle::nn
