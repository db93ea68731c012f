#include "saddle/analysis/attention_paths/network.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "saddle/base/error.hpp"
#include "saddle/base/random.hpp"

namespace saddle::analysis::attention_paths {
namespace {

template <int Rank>
Array<double, Rank> gaussian(Stream& stream, std::array<Index, Rank> shape) {
  Array<double, Rank> values(shape);
  for (double& value : values) value = stream.normal();
  return values;
}

NetworkWeights drawn(Stream& stream, Index features, Index width, const std::vector<Index>& heads) {
  NetworkWeights weights{gaussian<2>(stream, {width, features}), {}, gaussian<1>(stream, {width})};
  for (const Index H : heads) weights.v.push_back(gaussian<3>(stream, {H, width, width}));
  return weights;
}

// The network is linear in its effective weights, so that the kernel of the prior is the covariance of its outputs.
TEST(AttentionNetwork, CovarianceOfThePriorIsTheKernel) {
  Stream stream(1, "prior");
  const auto x = gaussian<3>(stream, {2, 3, 4});
  const std::vector<Attention> attention{attention_from_w(x, gaussian<3>(stream, {2, 3, 3})),
                                         attention_from_w(x, gaussian<3>(stream, {2, 3, 3}))};
  const auto xi = attended_input(x, attention, Readout::average_pooling);
  const Matrix expected = kernel(xi, xi, gp_order_parameters({{2, 2}, {16, 16, 16}, {1, 1, 1, 1}, 0})[0]);
  const int samples = 20000;
  double covariance = 0, variance = 0;
  for (int s = 0; s < samples; ++s) {
    const Vector f = network_output(drawn(stream, 3, 16, {2, 2}), x, attention, Readout::average_pooling);
    variance += f(0) * f(0) / samples;
    covariance += f(0) * f(1) / samples;
  }
  EXPECT_NEAR(variance / expected(0, 0), 1, 0.05);
  EXPECT_NEAR(covariance, expected(0, 1), 0.05 * std::sqrt(expected(0, 0) * expected(1, 1)));
}

// For each sample the order parameter of its weights gives the kernel that its hidden units see.
TEST(AttentionNetwork, SampledOrderParameterOfThePriorIsTheIdentity) {
  Stream stream(2, "sampled");
  std::vector<NetworkWeights> samples;
  for (int s = 0; s < 400; ++s) samples.push_back(drawn(stream, 3, 20, {2, 2}));
  const Matrix u = sampled_order_parameter(samples);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 4; ++j) EXPECT_NEAR(u(i, j), i == j ? 1 : 0, 0.12);
}

TEST(AttentionNetwork, GradientIsThatOfDifferences) {
  Stream stream(3, "gradient");
  const auto x = gaussian<3>(stream, {3, 3, 4});
  const std::vector<Attention> attention{attention_from_w(x, gaussian<3>(stream, {2, 3, 3})),
                                         attention_from_w(x, gaussian<3>(stream, {3, 3, 3}))};
  NetworkWeights weights = drawn(stream, 3, 5, {2, 3});
  const Vector cotangent = gaussian<1>(stream, {3});
  for (const Readout readout : {Readout::average_pooling, Readout::first_token, Readout::last_token}) {
    const NetworkWeights gradient = network_gradient(weights, x, attention, readout, cotangent);
    const auto objective = [&] {
      const Vector f = network_output(weights, x, attention, readout);
      return cotangent(0) * f(0) + cotangent(1) * f(1) + cotangent(2) * f(2);
    };
    const auto expect_differences = [&](auto& values, const auto& expected) {
      for (Index i = 0; i < values.size(); i += 2) {
        const double kept = values.data()[i], step = 1e-5;
        values.data()[i] = kept + step;
        const double above = objective();
        values.data()[i] = kept - step;
        const double below = objective();
        values.data()[i] = kept;
        EXPECT_NEAR(expected.data()[i], (above - below) / (2 * step), 1e-8);
      }
    };
    expect_differences(weights.v0, gradient.v0);
    expect_differences(weights.v[0], gradient.v[0]);
    expect_differences(weights.v[1], gradient.v[1]);
    expect_differences(weights.a, gradient.a);
  }
}

TEST(AttentionNetwork, RefusesWhatDoesNotFit) {
  Stream stream(4, "refuse");
  const auto x = gaussian<3>(stream, {2, 3, 4});
  const std::vector<Attention> attention{attention_from_w(x, gaussian<3>(stream, {2, 3, 3}))};
  const NetworkWeights weights = drawn(stream, 3, 5, {2});
  EXPECT_NO_THROW(network_output(weights, x, attention, Readout::first_token));
  EXPECT_THROW(network_output(weights, x, {}, Readout::first_token), InvalidArgument);
  EXPECT_THROW(network_output(weights, gaussian<3>(stream, {2, 2, 4}), attention, Readout::first_token),
               InvalidArgument);
  EXPECT_THROW(network_output(drawn(stream, 3, 5, {3}), x, attention, Readout::first_token), InvalidArgument);
  EXPECT_THROW(network_gradient(weights, x, attention, Readout::first_token, Vector({3})), InvalidArgument);
  NetworkWeights wrong = weights;
  wrong.a = Vector({4});
  EXPECT_THROW(network_output(wrong, x, attention, Readout::first_token), InvalidArgument);
  wrong = weights;
  wrong.v[0] = Array<double, 3>({2, 5, 4});
  EXPECT_THROW(sampled_order_parameter({wrong}), InvalidArgument);
  EXPECT_THROW(sampled_order_parameter({weights, drawn(stream, 3, 5, {3})}), InvalidArgument);
  EXPECT_THROW(sampled_order_parameter({}), InvalidArgument);
}

}  // namespace
}  // namespace saddle::analysis::attention_paths
