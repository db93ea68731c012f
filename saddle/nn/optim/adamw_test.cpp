#include "saddle/nn/optim/adamw.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "saddle/base/error.hpp"

namespace saddle::nn {
namespace {

using torch::Tensor;

std::vector<Tensor> parameters(torch::ScalarType type) {
  torch::manual_seed(5);
  std::vector<Tensor> result;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{3, 17}, {1}, {40000}, {65}})
    result.push_back(torch::randn(shape, type).requires_grad_());
  return result;
}

void set_gradients(const std::vector<Tensor>& all, int step) {
  torch::manual_seed(100 + step);
  for (const Tensor& p : all) p.mutable_grad() = torch::randn_like(p);
}

// The schedule of the long-range experiments moves beta1 and the learning rate at every step.
template <class Optimizer>
void run(Optimizer& optimizer, const std::vector<Tensor>& all, int begin, int end) {
  for (int t = begin; t < end; ++t) {
    auto& options = static_cast<AdamWOptions&>(optimizer.param_groups()[0].options());
    options.lr(1e-2 * (1 + t));
    options.betas({0.95 - 0.01 * t, 0.999});
    set_gradients(all, t);
    optimizer.step();
  }
}

TEST(AdamW, MatchesTorch) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto ours = parameters(type), theirs = parameters(type);
    AdamW optimizer(ours, AdamWOptions(1e-2).weight_decay(0.1).eps(1e-6));
    torch::optim::AdamW peer(theirs, AdamWOptions(1e-2).weight_decay(0.1).eps(1e-6));
    run(optimizer, ours, 0, 10);
    run(peer, theirs, 0, 10);
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 1e-6);
  }
}

TEST(AdamW, ContinuesFromAnArchive) {
  const auto once = parameters(torch::kFloat32), resumed = parameters(torch::kFloat32);
  AdamW whole(once, AdamWOptions(1e-2));
  run(whole, once, 0, 6);
  std::stringstream file;
  {
    AdamW first(resumed, AdamWOptions(1e-2));
    run(first, resumed, 0, 3);
    torch::save(first, file);
  }
  AdamW second(resumed, AdamWOptions(1e-2));
  torch::load(second, file);
  EXPECT_EQ(second.state().size(), resumed.size());
  run(second, resumed, 3, 6);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(torch::equal(once[i], resumed[i]));
}

TEST(AdamW, CountsVersionsAndSkipsParametersWithoutGradient) {
  const auto all = parameters(torch::kFloat32);
  AdamW optimizer(all);
  set_gradients(all, 0);
  all[1].mutable_grad() = Tensor();
  const auto before = all[0]._version(), untouched = all[1]._version();
  optimizer.step();
  EXPECT_GT(all[0]._version(), before);
  EXPECT_EQ(all[1]._version(), untouched);
  EXPECT_EQ(optimizer.state().size(), all.size() - 1);
}

TEST(AdamW, UpdatesParametersOfAnyStride) {
  torch::manual_seed(1);
  const Tensor start = torch::randn({6, 5});
  const Tensor plain = start.clone().requires_grad_(), strided = start.t().contiguous().t().requires_grad_();
  const Tensor gradient = torch::randn({6, 5});
  for (const Tensor& p : {plain, strided}) p.mutable_grad() = gradient.clone();
  AdamW one(std::vector<Tensor>{plain}), two(std::vector<Tensor>{strided});
  one.step();
  two.step();
  EXPECT_TRUE(torch::equal(plain, strided));
  EXPECT_FALSE(strided.is_contiguous());
}

TEST(AdamW, SameBitsForAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  std::vector<std::vector<Tensor>> results;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    results.push_back(parameters(torch::kFloat32));
    AdamW optimizer(results.back());
    run(optimizer, results.back(), 0, 3);
  }
  at::set_num_threads(before);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(results[0][i], results[1][i]));
    EXPECT_TRUE(torch::equal(results[0][i], results[2][i]));
  }
}

TEST(AdamW, RefusesWhatItCannotDo) {
  EXPECT_THROW(AdamW(parameters(torch::kFloat32), AdamWOptions(-1)), InvalidArgument);
  EXPECT_THROW(AdamW(parameters(torch::kFloat32), AdamWOptions().betas({1.0, 0.9})), InvalidArgument);
  EXPECT_THROW(AdamW(parameters(torch::kFloat32), AdamWOptions().amsgrad(true)), InvalidArgument);
  const Tensor half = torch::randn({4}).to(torch::kBFloat16).requires_grad_();
  half.mutable_grad() = torch::ones_like(half);
  AdamW optimizer(std::vector<Tensor>{half});
  EXPECT_THROW(optimizer.step(), InvalidArgument);
}

}  // namespace
}  // namespace saddle::nn
