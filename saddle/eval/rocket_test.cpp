#include "saddle/eval/rocket.hpp"

#include <gtest/gtest.h>

#include <set>

#include "saddle/base/parallel.hpp"
#include "saddle/eval/samples_test.hpp"

namespace saddle::eval {
namespace {

TEST(Rocket, KernelsAreAsDescribed) {
  const Index length = 60, channels = 5;
  const auto kernels = rocket_kernels(400, length, channels, 0);
  ASSERT_EQ(kernels.size(), 400u);
  std::set<Index> lengths, dilations;
  std::set<std::size_t> parts;
  int padded = 0;
  for (const RocketKernel& kernel : kernels) {
    lengths.insert(kernel.length);
    dilations.insert(kernel.dilation);
    parts.insert(kernel.channels.size());
    EXPECT_GE(kernel.dilation, 1);
    EXPECT_LE((kernel.length - 1) * kernel.dilation, length - 1);
    EXPECT_TRUE(kernel.padding == 0 || kernel.padding == (kernel.length - 1) * kernel.dilation / 2);
    padded += kernel.padding > 0 ? 1 : 0;
    EXPECT_GE(kernel.bias, -1);
    EXPECT_LT(kernel.bias, 1);
    EXPECT_EQ(std::set<Index>(kernel.channels.begin(), kernel.channels.end()).size(), kernel.channels.size());
    EXPECT_LT(kernel.channels.back(), channels);
    ASSERT_EQ(kernel.weights.size(), kernel.channels.size() * static_cast<std::size_t>(kernel.length));
    for (std::size_t c = 0; c < kernel.channels.size(); ++c) {
      double sum = 0;
      for (Index j = 0; j < kernel.length; ++j)
        sum += kernel.weights[c * static_cast<std::size_t>(kernel.length) + static_cast<std::size_t>(j)];
      EXPECT_NEAR(sum, 0, 1e-5);
    }
  }
  EXPECT_EQ(lengths, (std::set<Index>{7, 9, 11}));
  EXPECT_EQ(parts, (std::set<std::size_t>{1, 2, 3, 4, 5}));
  EXPECT_GT(*dilations.rbegin(), 5);
  EXPECT_GT(padded, 150);
  EXPECT_LT(padded, 250);
}

// Straight from the definition, in double.
void expect_features(const Features& series, Index channels, const std::vector<RocketKernel>& kernels) {
  const Index length = series.cols() / channels;
  const Features features = rocket_features(series, channels, kernels);
  ASSERT_EQ(features.rows(), series.rows());
  ASSERT_EQ(features.cols(), 2 * static_cast<Index>(kernels.size()));
  for (Index i = 0; i < series.rows(); ++i)
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const RocketKernel& kernel = kernels[k];
      double largest = -INFINITY, positive = 0, count = 0;
      for (Index at = -kernel.padding; at + (kernel.length - 1) * kernel.dilation < length + kernel.padding; ++at) {
        double sum = kernel.bias;
        for (std::size_t c = 0; c < kernel.channels.size(); ++c)
          for (Index j = 0; j < kernel.length; ++j) {
            const Index t = at + j * kernel.dilation;
            if (t >= 0 && t < length)
              sum += double{kernel.weights[c * static_cast<std::size_t>(kernel.length) + static_cast<std::size_t>(j)]} *
                     series(i, kernel.channels[c] * length + t);
          }
        largest = std::max(largest, sum);
        positive += sum > 0 ? 1 : 0;
        ++count;
      }
      ASSERT_GT(count, 0);
      EXPECT_NEAR(features(i, 2 * static_cast<Index>(k)), largest, 1e-4);
      EXPECT_NEAR(features(i, 2 * static_cast<Index>(k) + 1), positive / count, 1e-6);
    }
}

TEST(Rocket, FeaturesAreThoseOfTheDefinition) {
  const Problem problem(5, 4 * 37, 2, 1, 1);
  expect_features(problem.x, 4, rocket_kernels(60, 37, 4, 1));
}

TEST(Rocket, ShortSeriesGetShortKernels) {
  for (const Index length : {1, 2, 3, 6, 7, 8, 12}) {
    const Problem problem(3, 2 * length, 2, 1, 2);
    const auto kernels = rocket_kernels(40, length, 2, 3);
    for (const RocketKernel& kernel : kernels) EXPECT_LE(kernel.length, length);
    expect_features(problem.x, 2, kernels);
  }
}

TEST(Rocket, SeedsAndThreads) {
  const Problem problem(9, 50, 2, 1, 3);
  const int before = threads();
  set_threads(1);
  const Features one = rocket_features(problem.x, 1, rocket_kernels(30, 50, 1, 5));
  set_threads(3);
  EXPECT_EQ(rocket_features(problem.x, 1, rocket_kernels(30, 50, 1, 5)), one);
  set_threads(before);
  EXPECT_NE(rocket_features(problem.x, 1, rocket_kernels(30, 50, 1, 6)), one);
}

}  // namespace
}  // namespace saddle::eval
