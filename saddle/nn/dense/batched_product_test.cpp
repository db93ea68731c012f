#include "saddle/nn/dense/batched_product.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "saddle/nn/plain.hpp"

namespace saddle::nn {
namespace {

using torch::Tensor;

// In float against torch in double: the product and both gradients.
void expect_product(const Tensor& a, const Tensor& b) {
  const auto run = [](const Tensor& x, const Tensor& z, auto product) {
    const Tensor y = product(x, z), cotangent = torch::linspace(-1, 1, y.numel()).to(y.scalar_type()).view(y.sizes());
    auto all = torch::autograd::grad({y}, {x, z}, {cotangent});
    all.push_back(y);
    return all;
  };
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto found = run(leaf(a), leaf(b), batched_product);
  const auto expected = run(leaf(a.to(torch::kFloat64)), leaf(b.to(torch::kFloat64)),
                            [](const Tensor& x, const Tensor& z) { return torch::matmul(x, z); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes()) << i;
    EXPECT_EQ(found[i].scalar_type(), torch::kFloat32);
    const double scale = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LE((found[i].to(torch::kFloat64) - expected[i]).abs().max().item<double>(), 1e-5 * scale) << i;
  }
}

Tensor filled(torch::IntArrayRef sizes) { return torch::randn(sizes); }

TEST(BatchedProduct, IsTheProductOfEveryPair) {
  torch::manual_seed(1);
  for (const int64_t M : {1, 3, 16, 33})
    for (const int64_t K : {1, 7, 64})
      for (const int64_t N : {1, 5, 17, 100}) {
        SCOPED_TRACE(std::to_string(M) + " " + std::to_string(K) + " " + std::to_string(N));
        expect_product(filled({4, 3, M, K}), filled({4, 3, K, N}));
        expect_product(filled({5, K, M}).transpose(1, 2), filled({5, K, N}));
        expect_product(filled({5, M, K}), filled({5, N, K}).transpose(1, 2));
        expect_product(filled({5, K, M}).transpose(1, 2), filled({5, N, K}).transpose(1, 2));
        expect_product(filled({M, K}), filled({K, N}));
      }
}

TEST(BatchedProduct, ReadsViews) {
  torch::manual_seed(2);
  const Tensor x = filled({2, 3, 4, 5, 6});
  expect_product(x.permute({0, 1, 3, 4, 2}), x.permute({0, 1, 3, 2, 4}));
  expect_product(x.permute({0, 1, 4, 3, 2}), x.permute({0, 1, 4, 2, 3}));
  expect_product(x.narrow(4, 2, 3), x.narrow(3, 1, 3));
  expect_product(filled({1, 4, 5}).expand({7, 4, 5}), filled({7, 5, 2}));
}

TEST(BatchedProduct, HasTheSameBitsOnAnyNumberOfThreads) {
  const Tensor a = filled({9, 40, 30}), b = filled({9, 30, 50});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = batched_product(a, b);
  at::set_num_threads(5);
  EXPECT_TRUE(batched_product(a, b).equal(one));
  at::set_num_threads(16);  // more than there are products
  EXPECT_TRUE(batched_product(a, b).equal(one));
  at::set_num_threads(before);
}

TEST(BatchedProduct, LeavesTheRestToTorch) {
  const Tensor a = torch::randn({2, 3, 4}, torch::kFloat64), b = torch::randn({2, 4, 5}, torch::kFloat64);
  EXPECT_TRUE(batched_product(a, b).equal(torch::matmul(a, b)));
  EXPECT_EQ(batched_product(torch::empty({0, 3, 4}), torch::empty({0, 4, 5})).sizes(), torch::IntArrayRef({0, 3, 5}));
  const PlainOperations plain;
  const Tensor x = a.to(torch::kFloat32), z = b.to(torch::kFloat32);
  EXPECT_TRUE(batched_product(x, z).equal(torch::matmul(x, z)));
}

TEST(BatchedProduct, HasSecondDerivatives) {
  const Tensor a = filled({2, 3, 4}).requires_grad_(), b = filled({2, 4, 5}).requires_grad_();
  const auto first = torch::autograd::grad({batched_product(a, b).square().sum()}, {a}, {}, true, true);
  const auto second = torch::autograd::grad({first[0].sum()}, {b});
  const auto plain = torch::autograd::grad({torch::matmul(a, b).square().sum()}, {a}, {}, true, true);
  const auto expected = torch::autograd::grad({plain[0].sum()}, {b});
  EXPECT_TRUE(torch::allclose(second[0], expected[0], 1e-4, 1e-4));
}

}  // namespace
}  // namespace saddle::nn
